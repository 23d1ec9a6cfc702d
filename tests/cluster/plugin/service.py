"""Starts the service that the plugin speaks to; tests kill, freeze and start it again under its address."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.bookkeeper.servers.server_process import ServerProcess, free_port
from tests.cluster.pulsar.servers.admin import wait_until


class Service:
    """One service that keeps its port and its database."""

    def __init__(self, directory: Path, *settings: str, scheme: str = "") -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self._ready = directory / "ready.json"
        command = [sys.executable, "-m", "delayed_tracker.cli", "serve", "--json", "--ready-file", str(self._ready)]
        for setting in (
            f"bucketSnapshotStorageUrl=sqlite:{directory / 'tracker.db'}",
            f"grpcListenAddress={scheme}{self.address}",
            "httpListenAddress=127.0.0.1:0",
            *settings,
        ):
            command += ["--set", setting]
        self.process = ServerProcess(command, directory / "service.log")

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it, with variables of this start alone, and wait until it serves."""
        self._ready.unlink(missing_ok=True)
        self.process.launch(environment)
        wait_until(self._ready.exists)
