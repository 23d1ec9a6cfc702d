"""The service as a separate process, started by its command line."""

import asyncio
import json
import resource
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.v1.tracker_pb2_grpc import DelayedDeliveryTrackerServiceStub


@dataclass
class Connected:
    """Stubs for tests that have no other object of a service."""

    stub: DelayedDeliveryTrackerServiceStub


@dataclass
class ServiceProcess:
    process: Process
    grpc: str
    http: str

    async def line(self, event: str) -> dict[str, object]:
        """Wait for a log line of that event."""
        return await next_line(self.process, event)


async def next_line(process: Process, event: str) -> dict[str, object]:
    assert process.stderr is not None
    async with asyncio.timeout(60):
        async for raw in process.stderr:
            row = json.loads(raw)
            if row["event"] == event:
                return row
    raise AssertionError(f"the process ended without saying {event!r}")


@asynccontextmanager
async def serving_process(
    directory: Path, *options: str, open_files: int | None = None
) -> AsyncIterator[ServiceProcess]:
    """Start a service with its database in a directory, ready for calls. It is killed at the end if it still runs.

    Args:
        directory: for the database and the ready file.
        options: options of ``delayed-tracker serve``.
        open_files: hard limit of the process; None for the limit of the tests.
    """

    def limit() -> None:
        if open_files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, open_files))

    arguments = [
        "-m",
        "delayed_tracker.cli",
        "serve",
        "--json",
        "--ready-file",
        str(directory / "ready.json"),
        *options,
    ]
    for key, value in (
        ("bucketSnapshotStorageUrl", f"sqlite:{directory / 'tracker.db'}"),
        ("grpcListenAddress", "127.0.0.1:0"),
        ("httpListenAddress", "127.0.0.1:0"),
    ):
        arguments += ["--set", f"{key}={value}"]
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=PIPE, preexec_fn=limit)
    try:
        ready = await next_line(process, "ready")
        yield ServiceProcess(process, str(ready["grpc"]), str(ready["http"]))
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
