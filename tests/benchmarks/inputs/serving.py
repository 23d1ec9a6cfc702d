"""The service as a separate process, measured from here; client and server share the cores of the machine."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import ClientCredentials, ClientSettings, DelayedTrackerClient
from delayed_tracker.service.process.kernel_start import COMPILED, LOADED
from delayed_tracker.storage.sqlite.add_log import log_path_of
from delayed_tracker.storage.sqlite.threads import files_bytes
from tests.benchmarks.machine import ProcessMeter
from tests.benchmarks.measure import Run, Stopwatch

T = TypeVar("T")

TOPIC = "persistent://lab/main/benchmark"
PATIENCE_S = 600.0
_LOOK_S = 0.02
CLIENT = ClientSettings(call_timeout_s=120.0, open_timeout_s=600.0)


@dataclass(slots=True)
class Served:
    """A running service and a connection to it."""

    process: ServiceProcess
    client: DelayedTrackerClient
    data: Path

    @property
    def meter(self) -> ProcessMeter:
        """Meter of the service's time and memory."""
        return ProcessMeter(self.process.process.pid)

    @property
    def log_bytes(self) -> int:
        """Size of the add log's file and of its write-ahead log."""
        return files_bytes(log_path_of(self.data))

    def stopwatch(self) -> Stopwatch:
        """Return a stopwatch for the work of the service and of this process."""
        return Stopwatch(served_by=self.process.process.pid)


@asynccontextmanager
async def served(
    run: Run,
    settings: dict[str, str] | None = None,
    *,
    data: Path | None = None,
    faults: str = "",
    credentials: ClientCredentials | None = None,
) -> AsyncIterator[Served]:
    """Start the service over SQLite with default settings and ``settings``; stop it after the block.

    Args:
        run: has the directory for files.
        settings: further configuration keys.
        data: an existing storage; None creates one.
        faults: options of the scheme ``faulty``, with which storage and add log are opened; empty for none.
        credentials: of the client.
    """
    directory = run.new_directory()
    data = data or directory / "tracker.db"
    storage_url = f"faulty:{faults};sqlite:{data}" if faults else f"sqlite:{data}"
    process = await ServiceProcess.start(directory, storage_url=storage_url, settings=settings or {})
    try:
        async with DelayedTrackerClient.connect(
            process.grpc_address, settings=CLIENT, credentials=credentials
        ) as client:
            yield Served(process, client, data)
        if process.process.returncode is None:  # the block may have killed it
            await process.stop()
    finally:
        await process.ensure_stopped()


async def at_a_time(in_flight: int, call: Callable[[T], Awaitable[None]], parts: Sequence[T]) -> None:
    """Make a call for each part, in order, with ``in_flight`` calls at a time."""
    waiting = iter(parts)

    async def caller() -> None:
        for part in waiting:
            await call(part)

    if in_flight == 1:
        await caller()
        return
    async with asyncio.TaskGroup() as tasks:
        for _ in range(in_flight):
            tasks.create_task(caller())


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Check the condition every few milliseconds; the waits last seconds."""
    async with asyncio.timeout(PATIENCE_S):
        while not await condition():  # noqa: ASYNC110  # another process sends no signal
            await asyncio.sleep(_LOOK_S)


async def until_kernels_are_loaded(service: ServiceProcess) -> None:
    """Return when a service has in memory what it loads after its start: some 70 MB, by its log."""

    async def is_logged() -> bool:
        log = service.log.read_text("utf-8")
        return LOADED in log or COMPILED in log

    await until(is_logged)
