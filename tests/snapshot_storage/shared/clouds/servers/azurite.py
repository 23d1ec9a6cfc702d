"""Starts Azurite, Microsoft's own emulator of Azure Blob Storage, from npm's package that `.ci/azurite` pins."""

import base64
import hashlib
import hmac
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx

from tests.repository.project_tree import ROOT

ACCOUNT: Final = "devstoreaccount1"
# Azurite's well-known key, which is no secret.
KEY: Final = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_API: Final = "2021-12-02"
_FETCH_TIMEOUT_S: Final = 600


class NoAzurite(Exception):
    """Azurite cannot be fetched."""


@contextmanager
def running_azurite(directory: Path, containers: list[str]) -> Iterator[str]:
    """Start the server, create containers, and return the URL of the account.

    Raises:
        NoAzurite: npm is missing, or does not fetch it.
    """
    fetched = subprocess.run(
        [ROOT / ".ci/azurite/fetch"], capture_output=True, text=True, check=False, timeout=_FETCH_TIMEOUT_S
    )
    if fetched.returncode:
        raise NoAzurite(f"Azurite cannot be fetched: {fetched.stderr.strip()}")
    server = subprocess.Popen(
        [
            Path(fetched.stdout.strip(), "node_modules/.bin/azurite-blob"),
            *("--blobHost", "127.0.0.1", "--blobPort", "0"),
            *("--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry"),
        ],
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=os.environ | {"NODE_OPTIONS": "--no-deprecation"},
    )
    try:
        assert server.stdout is not None
        said = []
        for line in server.stdout:
            said.append(line)
            if "successfully listens on" in line:
                break
        else:
            raise AssertionError(f"Azurite did not start: {''.join(said)}")
        url = said[-1].rpartition(" ")[2].strip()
        for container in containers:
            _create_container(f"{url}/{ACCOUNT}", container)
        yield f"{url}/{ACCOUNT}"
    finally:
        server.terminate()
        server.communicate()


def _create_container(url: str, name: str) -> None:
    """Create a container by a signed request: obstore has no call for it."""
    date = datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT")
    signed = f"PUT{chr(10) * 12}x-ms-date:{date}\nx-ms-version:{_API}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    httpx.put(
        f"{url}/{name}?restype=container",
        headers={
            "x-ms-date": date,
            "x-ms-version": _API,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}",
        },
    ).raise_for_status()
