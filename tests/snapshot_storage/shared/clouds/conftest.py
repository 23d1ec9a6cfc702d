"""Starts the object stores of this folder once: moto for S3, Azurite for Azure, and a double of GCS."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from uuid import uuid4

import pytest

from delayed_tracker.storage.objects.cloud import az_objects, gs_objects, s3_objects
from delayed_tracker.storage.objects.obstore_objects import ObstoreObjects
from tests.snapshot_storage.shared.clouds.servers.azurite import ACCOUNT, KEY, NoAzurite, running_azurite
from tests.snapshot_storage.shared.clouds.servers.gcs_double import GcsDouble
from tests.snapshot_storage.shared.clouds.servers.wsgi_server import WsgiServer

BUCKET = "bucket"
NO_OAUTH = {"disable_oauth": True, "client_email": "", "private_key": "", "private_key_id": ""}
"""Key of a service account that lets the client ask nobody for a token, which it would do at an address of Google's."""
_FETCHING_S = 600


@dataclass(frozen=True)
class Cloud:
    """One object store, and what opens places in it."""

    scheme: str
    endpoint: str
    query: str
    open: Callable[[str], ObstoreObjects]
    server: WsgiServer | None = None
    """The server, if it runs in this process."""

    def rest(self, place: str, more: str = "", endpoint: str = "") -> str:
        """Return the URL of a place after its scheme and colon."""
        return f"//{BUCKET}/{place}?endpoint={endpoint or self.endpoint}{self.query}{more}"

    def objects(self, place: str, more: str = "", endpoint: str = "") -> ObstoreObjects:
        """Return the objects of a place, not started. No two writes of one key have to wait for each other."""
        return self.open(self.rest(place, more, endpoint))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer timeout on tests that use Azurite, because the first may wait for its download."""
    for item in items:
        if {"azure", "cloud"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(_FETCHING_S + 60))


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the clients the credentials of the servers, by their environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(NO_OAUTH),
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
    }.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def s3() -> Iterator[Cloud]:
    """Return moto's S3, which has one bucket."""
    # Two seconds of a core, which the other processes of the tests need not spend.
    moto = import_module("moto.moto_server.werkzeug_app")
    with WsgiServer(moto.create_backend_app("s3")).running() as server:
        cloud = Cloud("s3", server.endpoint, "&region=us-east-1", s3_objects, server)
        server.request("PUT", f"/{BUCKET}")
        yield cloud


@pytest.fixture(scope="session")
def gcs_double() -> GcsDouble:
    """Return the double behind ``gcs``."""
    return GcsDouble()


@pytest.fixture(scope="session")
def gcs(gcs_double: GcsDouble) -> Iterator[Cloud]:
    """Return the double of GCS."""
    with WsgiServer(gcs_double).running() as server:
        yield Cloud("gs", server.endpoint, "", lambda rest: gs_objects(rest, min_interval_s=0.0), server)


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Return Azurite; without npm the tests are skipped, and CI fails."""
    try:
        with running_azurite(tmp_path_factory.mktemp("azurite"), [BUCKET]) as endpoint:
            yield Cloud("az", endpoint, f"&account={ACCOUNT}", az_objects)
    except NoAzurite as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture(params=["s3", *(pytest.param(name, marks=pytest.mark.long) for name in ("gcs", "azure"))])
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """Return each of the stores."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def place() -> str:
    """Return a prefix that no other test has."""
    return uuid4().hex
