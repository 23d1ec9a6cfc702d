"""Buckets with entries larger than a storage takes: they are stored in pieces, whole or not at all."""

from dataclasses import replace

import pytest

from delayed_tracker.storage.errors import SnapshotTooLarge, StorageUnavailable
from delayed_tracker.storage.memory import MemoryStorage
from tests.service.harness.shell import (
    KEY,
    TINY,
    ControlledStorage,
    elapse,
    failing,
    indexes,
    make_registry,
    rows,
    settle,
)

FAR_MS = 100_000
COUNT = 40
LIMITS = replace(TINY, min_index_count_per_bucket=COUNT, max_indexes_per_segment=3)


class LimitedStorage(MemoryStorage):
    """A storage that refuses large entries, and says so before if ``declares`` is set."""

    def __init__(self, entry_bytes_max: int, *, declares: bool = True) -> None:
        super().__init__()
        self._largest = entry_bytes_max
        self.entry_bytes_max = entry_bytes_max if declares else None
        self.refused_count = 0

    async def create_bucket_snapshot(self, metadata, segments, **where):
        entries = [metadata, *[segment async for segment in segments]]
        if max(map(len, entries)) > self._largest:
            self.refused_count += 1
            raise SnapshotTooLarge(f"an entry has more than {self._largest} bytes")

        async def each():
            for segment in entries[1:]:
                yield segment

        return await super().create_bucket_snapshot(metadata, each(), **where)


class Limited(ControlledStorage):
    """A controlled storage that passes the maximum on."""

    @property
    def entry_bytes_max(self):
        return self.inner.entry_bytes_max


async def opened(storage, clock, **changes):
    registry = make_registry(storage, clock, limits=replace(LIMITS, **changes))
    await registry.start()
    given = await registry.open(KEY, owner="tests", mark_delete=None)
    return registry, registry.host(KEY), given.epoch


def bucket(clock, ledger_id=1, *, first_ms=FAR_MS):
    """Return rows for one bucket, a segment for each, and one row of the next ledger, which seals it."""
    far = ((ledger_id, entry, first_ms + 2_000 * entry) for entry in range(COUNT))
    return indexes(clock.now_ms(), *far, (ledger_id + 1, 0, 2 * FAR_MS))


async def test_a_bucket_whose_metadata_is_too_large_is_stored_in_pieces(clock):
    """The storage refuses nothing, the pieces enter the catalogue in one step, and the next owner recovers them all."""
    storage = Limited(LimitedStorage(700))
    registry, host, epoch = await opened(storage, clock)
    host.add(epoch, bucket(clock))
    await settle()
    state = await storage.inner.list(*KEY)
    assert len(state.entries) == 4
    assert storage.inner.refused_count == 0
    assert {entry.seal_number for entry in state.entries} == {1}
    assert (host.counters.snapshots_split, host.counters.snapshots_stored) == (1, 4)
    assert storage.calls.count("replace") == 2, "one claimed the epoch"
    assert host.stats().pending_count == COUNT + 1
    await registry.close()
    registry, host, epoch = await opened(storage, clock)
    assert host.stats().pending_count == COUNT
    await elapse(clock, 2 * FAR_MS)
    taken = rows(await host.poll(epoch, max_count=1_000, wait_ms=0, lease_ms=0))
    assert sorted(taken) == [(1, entry) for entry in range(COUNT)]
    await registry.close()


async def test_pieces_are_stored_together_or_not_at_all(clock):
    """If one cannot be stored the others are deleted, and the bucket is stored again later."""
    storage = Limited(LimitedStorage(700))
    down = StorageUnavailable("down")
    storage.before["create_bucket_snapshot"] = failing(None, None, down, down, down)
    registry, host, epoch = await opened(storage, clock)
    host.add(epoch, bucket(clock))
    await elapse(clock, 400)
    assert not await storage.inner.list_bucket_snapshots(*KEY)
    assert not (await storage.inner.list(*KEY)).entries
    assert host.counters.snapshots_failed == 1
    await elapse(clock, 1_000)
    assert len((await storage.inner.list(*KEY)).entries) == 4
    await registry.close()


async def test_a_storage_that_takes_not_even_one_position_is_tried_at_intervals(clock):
    """The bucket stays in memory, is handed out, and the failure lasts: it is logged and counted."""
    storage = Limited(LimitedStorage(10))
    registry, host, epoch = await opened(storage, clock)
    host.add(epoch, bucket(clock, first_ms=1_000))
    await elapse(clock, 10 * LIMITS.retry_backoff_ms)
    assert 0 < host.counters.snapshots_failed <= 11
    assert storage.inner.refused_count == host.counters.snapshots_failed
    assert registry.access.failures.lasting_count("snapshot not stored, its positions stay in memory") == 1
    taken = rows(await host.poll(epoch, max_count=1_000, wait_ms=0, lease_ms=0))
    assert taken == [(1, 0), (1, 1), (1, 2)]
    assert host.stats().pending_count == COUNT + 1 - len(taken)
    await registry.close()


@pytest.mark.parametrize("declares", [True, False])
async def test_buckets_whose_merge_would_be_too_large_stay_apart(clock, declares):
    """The merge is tried once for each group, whether the storage has said what it takes or refuses it."""
    storage = Limited(LimitedStorage(1_800, declares=declares))
    registry, host, epoch = await opened(storage, clock, max_num_buckets=1)
    for ledger_id in (1, 2):
        host.add(epoch, bucket(clock, ledger_id))
    await elapse(clock, 20 * LIMITS.retry_backoff_ms)
    assert len((await storage.inner.list(*KEY)).entries) == 2
    assert host.counters.merges_failed == 1
    assert storage.inner.refused_count == (0 if declares else 1)
    assert host.stats().pending_count == 2 * COUNT + 1
    await registry.close()
