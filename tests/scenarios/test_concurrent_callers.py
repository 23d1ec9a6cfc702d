"""Rows of Pulsar's defects that need many concurrent callers, or the file handles of a storage."""

import asyncio
from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.operations.clearing import clear_tracker
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, stats_of
from tests.service.harness.shell import (
    KEY,
    OTHER,
    ControlledStorage,
    bucketful,
    elapse,
    failing,
    indexes,
    make_registry,
    running_service,
    settle,
)
from tests.snapshot_storage.sqlite.sqlite_files import create, started

FAR_MS = 1_000_000


@pytest.mark.parametrize("scheme", ["memory:", "sqlite:{}/tracker.db"])
async def test_row_35_concurrent_changes_of_a_catalogue_all_happen(scheme: str, tmp_path: Path) -> None:
    """Fifty concurrent replaces, each with an added and a removed entry, take effect as if in sequence."""
    storage = open_storage(scheme.format(tmp_path))
    await storage.start()
    entries = [CatalogueEntry(n, Position(n, 0), Position(n, 9), b"summary", b"", Position(0, 0)) for n in range(60)]
    await storage.replace(*KEY, remove=[], add=entries[50:], epoch=1)
    await asyncio.gather(
        *(
            storage.replace(*KEY, remove=[50 + number // 5] if number % 5 == 0 else [], add=[entries[number]], epoch=1)
            for number in range(50)
        )
    )
    assert (await storage.list(*KEY)).entries == tuple(entries[:50])
    await storage.close()


def _open_handles() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.slow
@pytest.mark.parametrize("rounds", [20, pytest.param(100, marks=pytest.mark.deep)])
async def test_row_44_loading_opens_no_handles(tmp_path: Path, rounds: int) -> None:
    """A hundred loads of ten buckets in each round, many at once, need no more open files than the first few."""
    async with started(tmp_path / "db") as storage:
        buckets = [await create(storage, [b"1", b"2", b"3"]) for _ in range(10)]
        await asyncio.gather(*(storage.get_bucket_snapshot_segments(bucket, 1, 3) for bucket in buckets))
        before = _open_handles()
        for _ in range(rounds):
            await asyncio.gather(*(storage.get_bucket_snapshot_segments(bucket, 1, 3) for bucket in buckets * 10))
        assert _open_handles() <= before
        for bucket in buckets:
            await storage.delete_bucket_snapshot(bucket)
        assert _open_handles() <= before


async def test_rows_43_53_and_67_readers_and_writers_at_once_see_one_truth() -> None:
    """Concurrent writers, readers, dispatchers and scrapes get no wrong answer, no stall, and exact counts."""
    async with running_service() as service:
        stub, epoch, now_ms = service.stub, await opened(service), service.clock.now_ms()
        metrics = ServiceMetrics(service.registry, version="1")
        accepted: list[tuple[int, int]] = []

        async def write(ledger: int) -> None:
            for start in range(0, 200, 10):
                rows = [(now_ms + FAR_MS, ledger, entry) for entry in range(start, start + 10)]
                await stub.AddMessages(add(epoch, *rows))
                accepted.extend(row[1:] for row in rows)

        async def read() -> None:
            for _ in range(15):
                asked = list(accepted)
                ledgers, entries = [list(column) for column in zip(*asked, strict=True)] if asked else ([], [])
                request = pb.ContainsMessagesRequest(tracker=REF, ledger_ids=ledgers, entry_ids=entries)
                answer = await stub.ContainsMessages(request)
                assert list(answer.tracked_offsets) == list(range(len(asked)))

        async def scrape() -> None:
            for number in range(10):
                before = len(accepted)
                assert (await stats_of(service)).pending_count >= before
                other = pb.TrackerRef(topic=OTHER.topic, subscription=f"{OTHER.subscription}-{number}")
                await stub.OpenTracker(pb.OpenTrackerRequest(tracker=other, owner="tests"))
                assert b"delayed_tracker_open_trackers" in (await metrics.scrape())[0]

        async with asyncio.timeout(60):
            await asyncio.gather(*map(write, range(1, 5)), *(read() for _ in range(8)), *(scrape() for _ in range(2)))
        stats = await stats_of(service)
        assert (stats.pending_count, stats.added_count) == (800, 800)
        assert service.registry.tracker_count == 11


async def test_row_L8_a_bucket_that_could_not_be_read_is_deleted_all_the_same() -> None:
    """A bucket whose load failed until the backlog was cleared is deleted, and no caller gets an error."""
    storage, clock = ControlledStorage(), ManualClock()
    registry = make_registry(storage, clock)
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    host = registry.host(KEY)
    host.add(epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000))
    host.add(epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    storage.before["get_bucket_snapshot_segments"] = failing(*[StorageUnavailable("away")] * 1_000)
    await elapse(clock, 4_000)
    assert "get_bucket_snapshot_segments" in storage.calls
    clearing = asyncio.create_task(clear_tracker(registry, KEY, epoch))
    await elapse(clock, 10_000)
    clearing.result()
    assert await storage.inner.list_bucket_snapshots(*KEY) == []
    assert (await storage.inner.list(*KEY)).entries == ()
    assert storage.calls.count("delete_bucket_snapshot") == 1
    await registry.close()
