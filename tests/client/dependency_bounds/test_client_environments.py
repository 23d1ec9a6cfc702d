"""Tests of the client with the oldest dependencies that it declares, the last protobuf 6, and the newest."""

import asyncio
import json
import os
import re
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from delayed_tracker.service.server import TrackerServer
from tests.client.dependency_bounds.environments import LOCKS, NoEnvironment, environment
from tests.repository.project_tree import PROJECT
from tests.service.harness.settings import settings_of

DISPATCHER = Path(__file__).with_name("dispatcher.py")
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)
OLDEST = {"grpcio": "1.68", "protobuf": "5.28"}

pytestmark = pytest.mark.long


def pins_of(lock: Path) -> dict[str, str]:
    return dict(PINNED.findall(lock.read_text(encoding="utf-8")))


@pytest.fixture
def python(lock: Path) -> Path:
    """Return the interpreter; skip the test without an environment (CI has created all, or has failed)."""
    try:
        return environment(lock)
    except NoEnvironment as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing), pytrace=False)
        pytest.skip(str(missing))


@pytest.fixture
def installed(wheel: zipfile.ZipFile, tmp_path: Path) -> Path:
    """Unpack the wheel as an installer does."""
    wheel.extractall(tmp_path)
    return tmp_path


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
async def test_the_client_works_with_its_dependencies_alone(lock: Path, python: Path, installed: Path):
    """The client tracks, delivers and converts errors without a warning, with only its declared dependencies."""
    server = TrackerServer(
        settings_of(
            storage_url="memory:", grpc_listen_address="127.0.0.1:0", http_listen_address="127.0.0.1:0", tick_ms=1
        )
    )
    bound = await server.start()
    try:
        process = await asyncio.create_subprocess_exec(
            python,
            *("-W", "error", "-P", DISPATCHER, str(bound.grpc)),
            env={"PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(100):
                said, complaints = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.communicate()
            raise
    finally:
        await server.stop()
    assert (process.returncode, complaints.decode()) == (0, "")
    answered = json.loads(said)
    pins = pins_of(lock)
    assert answered["versions"] | pins == pins | {"delayed-tracker": PROJECT["version"]}
    assert set(answered["installed"]) <= {*pins, "delayed-tracker", "pip", "setuptools"}
    assert answered["asyncio"] == {
        "added": "ADDED",
        "streamed": [1, 1],
        "taken": [[7, 0], [7, 1], [8, 0], [2**63 - 1, 2**32 - 1]],
        "fenced": "FENCED",
        "unanswerable": "LEDGER_SOURCE_NOT_SET",
        "stats": 1,
    }
    assert answered["blocking"] == {
        "taken": [[5, 0], [5, 1], [5, 2]],
        "not_open": "TRACKER_NOT_OPEN",
        "violations": ["max_messages"],
    }


def test_the_locks_are_the_edges_of_what_is_declared():
    """The oldest lock has the requirements' lower bounds; protobuf 5, 6 and 7 each have a lock; no lock has extras."""
    requirements = {row.name: row for row in map(Requirement, PROJECT["dependencies"])}
    pins = {lock.stem: pins_of(lock) for lock in LOCKS}
    assert {found["protobuf"].partition(".")[0] for found in pins.values()} == {"5", "6", "7"}
    for found in pins.values():
        assert all(requirement.specifier.contains(found[name]) for name, requirement in requirements.items())
        assert found.keys() <= {*requirements, "typing-extensions"}
    for name, oldest in OLDEST.items():
        assert str(requirements[name].specifier) == f">={oldest}"
        assert pins["oldest"][name] == f"{oldest}.0"
