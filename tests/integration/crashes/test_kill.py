"""kill -9 under load: the file opens, every committed snapshot is there, no message is lost or early."""

import asyncio
import random
import signal
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerClient, TrackerSession
from tests.integration.harness.committed import committed_snapshots, orphans
from tests.integration.harness.dispatcher import SETTINGS, SUBSCRIPTION, TOPIC, Dispatcher, connect, now_ms

KILLS = 2
KILLS_DEEP = 30
MERGING = {**SETTINGS, "delayedDeliveryMaxNumBuckets": "2"}
KEPT_LEDGERS = 40
POINTS = {
    "create.before": 3,
    "create.commit": 3,
    "create.after": 3,
    # The first arrival is the epoch that an open records.
    "replace.before": 3,
    "replace.commit": 3,
    "replace.after": 3,
    "delete.before": 2,
    "delete.commit": 2,
    "delete.after": 2,
}
"""Points at which the storage kills the service, and the arrival there; all but commits only in the deep run."""
DRAIN_S = 120.0
MANY = pytest.param(KILLS_DEEP, marks=[pytest.mark.deep, pytest.mark.timeout(1_800)])
"""Thirty starts of the service take five minutes on a busy machine."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


async def settle(dispatcher: Dispatcher, session: TrackerSession) -> None:
    """Offer again after a restart all that the cursor has not finished; nothing of it may be lost."""
    again = dispatcher.unfinished
    answer = await dispatcher.offer(session, again)
    assert answer.added_count + len(answer.due_offsets) + len(answer.duplicate_offsets) == len(again)
    assert await dispatcher.lost(session) == []


Settle = Callable[[Dispatcher, TrackerSession], Awaitable[None]]


async def open_for(dispatcher: Dispatcher, client: DelayedTrackerClient) -> TrackerSession:
    """Open the tracker with the dispatcher's mark-delete position."""
    return await client.open_tracker(TOPIC, SUBSCRIPTION, mark_delete=dispatcher.mark_delete)


async def work_until_killed(
    dispatcher: Dispatcher, service: ServiceProcess, after_s: float, *, begin: Settle = settle, sealed_min: int = 0
) -> None:
    """Load the service and kill it meanwhile: after so many seconds, or when so many buckets were sealed if that is later."""
    async with connect(service.grpc_address) as client, await open_for(dispatcher, client) as session:
        await begin(dispatcher, session)
        working = asyncio.create_task(dispatcher.work(session))
        sealed_before = len(dispatcher.sealed_seen)
        await asyncio.wait({working}, timeout=after_s)
        while not working.done() and len(dispatcher.sealed_seen) < sealed_before + sealed_min:
            await asyncio.wait({working}, timeout=0.01)
        assert not working.done()
        await service.kill()
        dispatcher.killed_at_ms = now_ms()
        working.cancel()
        await asyncio.wait({working})


async def drain(dispatcher: Dispatcher, session: TrackerSession) -> None:
    """Deliver all that is due within the load's short deadlines, and what a kill brings back of the finished messages.

    A poll may end with nothing while segments with due messages are still being loaded.
    """
    is_due = True
    async with asyncio.timeout(DRAIN_S):
        while is_due or dispatcher.due_soon - dispatcher.finished:
            came = await dispatcher.deliver_once(session, wait_ms=500) > 0
            stats = await session.stats()
            due_at_ms = stats.next_delivery_at_ms
            is_due = came or (due_at_ms is not None and due_at_ms <= stats.server_time_ms)


async def audit(dispatcher: Dispatcher, session: TrackerSession) -> None:
    """Assert that every message is finished or tracked, and that the service counts the same."""
    assert await dispatcher.lost(session) == []
    assert dispatcher.early == []
    assert dispatcher.strangers == []
    stats = await session.stats()
    assert stats.pending_count + stats.leased_count == len(dispatcher.unfinished)
    assert stats.unaccounted_count == 0
    assert stats.snapshots_missing_count == 0
    assert stats.snapshots_corrupt_count == 0


async def finish(
    dispatcher: Dispatcher,
    directory: Path,
    storage_url: str,
    settings: Mapping[str, str] = SETTINGS,
    *,
    begin: Settle = settle,
) -> None:
    """Restart the service, offer the rest again, deliver all that is due, audit, and stop it in order."""
    service = await ServiceProcess.start(directory, storage_url=storage_url, settings=settings)
    try:
        async with connect(service.grpc_address) as client, await open_for(dispatcher, client) as session:
            await begin(dispatcher, session)
            await drain(dispatcher, session)
            await audit(dispatcher, session)
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()


@pytest.mark.parametrize("kills", [pytest.param(KILLS, marks=pytest.mark.long), MANY])
async def test_kills_at_random_moments(tmp_path: Path, kills: int):
    """One data file and one dispatcher survive kills at random moments."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dispatcher = Dispatcher(random.Random(seed))
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    for _ in range(kills):
        service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
        try:
            await work_until_killed(dispatcher, service, dispatcher.rng.uniform(0.1, 1.0))
        finally:
            await service.ensure_stopped()
        committed = await committed_snapshots(storage_url)
        assert set(dispatcher.snapshots_that_must_be_there()) <= set(committed)
        assert all(positions <= dispatcher.offered.keys() for positions in committed.values())
    await finish(dispatcher, tmp_path, storage_url)
    # Two kills may come before the first bucket is full.
    assert dispatcher.sealed_seen or kills < KILLS_DEEP, "the load must have sealed buckets"
    assert dispatcher.delivered_count > kills * 20 or kills < KILLS_DEEP, "the load must have delivered messages"


@pytest.mark.deep
@pytest.mark.parametrize("kills", [KILLS, MANY])
async def test_kills_while_buckets_are_merged_and_trimmed(tmp_path: Path, kills: int):
    """While buckets merge and the cursor moves, no message is lost or early, and counts stay right.

    Snapshots that no catalogue names are swept.
    """
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dispatcher = Dispatcher(random.Random(seed), keep_ledgers=KEPT_LEDGERS)
    left: set[int] = set()
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    for _ in range(kills):
        service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=MERGING)
        try:
            await work_until_killed(dispatcher, service, dispatcher.rng.uniform(0.5, 1.5))
        finally:
            await service.ensure_stopped()
        assert not left & await orphans(storage_url), "the last start must have swept what an earlier kill left"
        left |= await orphans(storage_url)
        committed = await committed_snapshots(storage_url)
        assert all(positions <= dispatcher.offered.keys() for positions in committed.values())
        assert sum(map(len, committed.values())) == len(set().union(*committed.values())), "no position stands twice"
    await finish(dispatcher, tmp_path, storage_url, MERGING)
    assert dispatcher.merges_seen or kills < KILLS_DEEP, "the load must have merged buckets"
    assert dispatcher.mark_delete is not None or kills < KILLS_DEEP, "the load must have moved the cursor"
    assert not left & await orphans(storage_url)
    assert left or kills < KILLS_DEEP, "the kills must have left snapshots without a pointer"


@pytest.mark.long
@pytest.mark.parametrize(
    ("point", "arrival"),
    [pytest.param(*item, marks=[] if item[0].endswith("commit") else [pytest.mark.deep]) for item in POINTS.items()],
)
async def test_a_kill_at_each_named_point(tmp_path: Path, point: str, arrival: int):
    """After a kill at any step of storing or deleting, the file opens and no message is lost or early."""
    dispatcher = Dispatcher(random.Random(point), soon_share=1.0 if point.startswith("delete") else 2 / 3)
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    faulty_url = f"faulty:exit={point}:{arrival};{storage_url}"
    service = await ServiceProcess.start(tmp_path, storage_url=faulty_url, settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            async with asyncio.timeout(60):
                await dispatcher.work(session)
                assert await service.process.wait() == -signal.SIGKILL
    finally:
        await service.ensure_stopped()
    committed = await committed_snapshots(storage_url)
    assert set(dispatcher.snapshots_that_must_be_there()) <= set(committed)
    await finish(dispatcher, tmp_path, storage_url)
