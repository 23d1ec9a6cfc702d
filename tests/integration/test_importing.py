"""kill -9 during an import of snapshots: after a restart the tracker has all of them, or all that it had before."""

import asyncio
import signal
from contextlib import suppress

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import Position, Unavailable
from tests.integration.harness.committed import committed_snapshots, orphans
from tests.integration.harness.dispatcher import SETTINGS, SUBSCRIPTION, TOPIC, connect, now_ms
from tests.service.harness.imports import snapshot

BUCKETS = 4
ENTRIES = 60
POINTS = {
    # The tracker's own bucket is created first.
    "create.before": 3,
    "create.commit": 4,
    "create.after": 5,
    # The first two record the epoch and that bucket; the third replaces it by the imported ones.
    "replace.before": 3,
    "replace.commit": 3,
    "replace.after": 3,
    "delete.before": 1,
    "delete.after": 1,
}
"""Points at which the storage kills the service, and the arrival there that does it."""
SELDOM = {"create.before", "create.after", "replace.before", "delete.before"}
"""Points that are tried in the deep run alone."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def rebuilt():
    """Yield buckets of ledgers 101 to 104, due in hours."""
    at_ms = now_ms() + 3_600_000
    return [
        snapshot(*((at_ms + 7 * entry, ledger, entry) for entry in range(ENTRIES)), count_max=10)
        for ledger in range(101, 101 + BUCKETS)
    ]


def positions(*ledgers):
    return {Position(ledger, entry) for ledger in ledgers for entry in range(ENTRIES)}


OLD, NEW = positions(1), positions(*range(101, 101 + BUCKETS))


async def fill(client):
    """Store a bucket of ledger 1."""
    session = await client.open_tracker(TOPIC, SUBSCRIPTION)
    at_ms = now_ms() + 3_600_000
    await session.add_columns([at_ms] * ENTRIES, [1] * ENTRIES, range(ENTRIES))
    await session.add_columns([at_ms], [2], [0])
    async with asyncio.timeout(30):
        while not any(bucket.bucket_id for bucket in await session.buckets()):  # noqa: ASYNC110  # another process
            await asyncio.sleep(0.01)


async def import_all(client):
    return await client.import_snapshots(TOPIC, SUBSCRIPTION, rebuilt(), bucket_count=BUCKETS)


def assert_imported(answer):
    assert (answer.tracked_count, answer.bucket_count) == (len(NEW), BUCKETS)


@pytest.mark.parametrize(
    ("point", "arrival"),
    [pytest.param(*item, marks=pytest.mark.deep if item[0] in SELDOM else []) for item in POINTS.items()],
)
async def test_a_kill_during_an_import_leaves_all_or_nothing(tmp_path, point, arrival):
    """After a kill the file opens, the staged snapshots are swept, and the import can be repeated."""
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    faulty_url = f"faulty:exit={point}:{arrival};{storage_url}"
    service = await ServiceProcess.start(tmp_path, storage_url=faulty_url, settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client:
            await fill(client)
            # The service answers when it has replaced the old bucket; it deletes that one meanwhile.
            with suppress(Unavailable) if point.startswith("delete") else pytest.raises(Unavailable):
                assert_imported(await import_all(client))
        assert await service.process.wait() == -signal.SIGKILL
    finally:
        await service.ensure_stopped()
    committed = await committed_snapshots(storage_url)
    exchanged = point.startswith("delete") or point == "replace.after"
    assert set().union(*committed.values()) == (NEW if exchanged else OLD)
    assert await orphans(storage_url) or point in {"create.before", "delete.after"}

    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client:
            session = await client.open_tracker(TOPIC, SUBSCRIPTION)
            # The add log has the one index that is in no bucket yet, until the exchange.
            assert session.opened.recovered_count == (len(NEW) if exchanged else len(OLD) + 1)
            assert_imported(await import_all(client))
            report = await client.view_tracker(TOPIC, SUBSCRIPTION).verify()
            assert not any(verdict.problems for verdict in report.snapshots)
            assert not report.orphan_bucket_ids
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()
    assert set().union(*(await committed_snapshots(storage_url)).values()) == NEW
    assert not await orphans(storage_url)


async def test_an_importer_that_is_killed_leaves_nothing(tmp_path):
    """A cut import stream removes what it staged, and dispatchers are not affected."""
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client:
            await fill(client)
            session = client.view_tracker(TOPIC, SUBSCRIPTION)
            before = await session.stats()
            async with connect(service.grpc_address) as importer:
                importing = asyncio.create_task(
                    importer.import_snapshots(TOPIC, SUBSCRIPTION, cut_off(rebuilt()), bucket_count=BUCKETS)
                )
                with pytest.raises(ConnectionResetError):
                    await importing
            async with asyncio.timeout(30):
                while len((await session.verify()).snapshots) != 1:  # noqa: ASYNC110  # another process
                    await asyncio.sleep(0.01)
            after = await session.stats()
            assert (after.epoch, after.pending_count) == (before.epoch, before.pending_count)
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()
    assert set().union(*(await committed_snapshots(storage_url)).values()) == OLD
    assert not await orphans(storage_url)


def cut_off(buckets):
    """Yield the first two buckets, and then hang."""
    yield from buckets[:2]
    raise ConnectionResetError
