"""An fsync of the add log fails once, or hangs: calls that must be durable fail or wait, and due messages go out."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerClient, Position, TrackerSession, Unavailable
from tests.integration.crashes.tracing import injected
from tests.integration.harness.dispatcher import PATIENT, SETTINGS, SUBSCRIPTION, TOPIC, now_ms
from tests.integration.harness.lab import HOUR_MS, add

HANG_S = 30.0
"""Longer than what falls due takes to come on a machine that stands still for seconds."""
COUNT = 20
ANSWERED = 1
"""Ledger of adds that are answered before the fault and due in an hour."""
DUE = 2
"""Ledger of adds that are answered before the fault and due soon."""
FAULTY = 3
"""Ledger of adds that meet the fault."""
LATER = 4

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def connect(address: str) -> DelayedTrackerClient:
    """Return a client whose calls outlast the hang."""
    return DelayedTrackerClient.connect(address, settings=replace(PATIENT, call_timeout_s=4 * HANG_S))


@asynccontextmanager
async def loaded_service(directory: Path) -> AsyncIterator[tuple[ServiceProcess, TrackerSession]]:
    """Start a service that has answered adds for later, and some that fall due soon."""
    service = await ServiceProcess.start(directory, storage_url=f"sqlite:{directory / 'tracker.db'}", settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            await add(session, ANSWERED, COUNT)
            await add(session, DUE, COUNT, in_ms=2_000)
            yield service, session
    finally:
        await service.ensure_stopped()


def log_of(directory: Path) -> Path:
    """Return the file that commits of the add log write and sync."""
    return directory / "tracker.db.add-log-wal"


async def one_batch() -> AsyncIterator[tuple[list[int], list[int], range]]:
    yield [now_ms() + HOUR_MS] * COUNT, [FAULTY] * COUNT, range(COUNT)


async def refused(session: TrackerSession) -> Unavailable:
    """Add over a stream, which gRPC does not repeat by itself, and return the error."""
    with pytest.raises(Unavailable) as caught:
        _ = [answer async for answer in session.add_stream(one_batch())]
    return caught.value


async def deliver_due(session: TrackerSession) -> None:
    """Poll until all that fall due have come, and nothing else."""
    handed_out: set[Position] = set()
    while len(handed_out) < COUNT:
        handed_out |= set((await session.poll(COUNT, wait_ms=5_000)).messages)
    assert handed_out == {Position(DUE, entry) for entry in range(COUNT)}


async def require_tracked(directory: Path, *ledgers: int) -> None:
    """Start the service again, and assert that it tracks all messages of the ledgers and accepts adds."""
    service = await ServiceProcess.start(directory, storage_url=f"sqlite:{directory / 'tracker.db'}", settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            for ledger_id in ledgers:
                assert all(await session.contains([ledger_id] * COUNT, range(COUNT))), ledger_id
            await add(session, LATER, COUNT)
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()


async def test_after_a_failed_fsync_adds_are_refused_and_nothing_answered_is_lost(tmp_path: Path):
    """The waiting add learns that its outcome is unknown; later ones that the log is broken, until a restart."""
    async with loaded_service(tmp_path) as (service, session):
        async with injected(service.process.pid, log_of(tmp_path), "error=EIO"):
            waiting = await refused(session)
        assert waiting.reason == "STORAGE_UNAVAILABLE"
        assert "repeat it" in str(waiting)
        # The fault is over; the file is not written again all the same.
        assert (await refused(session)).reason == "ADD_LOG_BROKEN"
        await deliver_due(session)
        async with httpx.AsyncClient(timeout=60) as http:
            assert (await http.get(f"http://{service.http_address}/health/live")).status_code == 200
        await service.kill()
    await require_tracked(tmp_path, ANSWERED, DUE)


async def test_while_an_fsync_hangs_adds_wait_and_polls_are_answered(tmp_path: Path):
    """Due messages go out during the hang; the add is answered after it, and is durable."""
    async with loaded_service(tmp_path) as (service, session):
        async with injected(service.process.pid, log_of(tmp_path), f"delay_enter={round(HANG_S * 1e6)}"):
            begun = time.monotonic()
            adding = asyncio.create_task(add(session, FAULTY, COUNT))
            await deliver_due(session)
            assert not adding.done()
            assert time.monotonic() - begun < HANG_S
            await adding
            assert time.monotonic() - begun >= HANG_S
        await service.kill()
    await require_tracked(tmp_path, ANSWERED, DUE, FAULTY)
