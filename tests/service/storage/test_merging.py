"""Merges by the runner: the merged snapshot, and the storage after any failure."""

import asyncio
import random
import tracemalloc
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.engine.effect_results import MergeFailed, SnapshotsMerged
from delayed_tracker.core.engine.effects import DeleteSnapshots, MergeSnapshots, MergeSource
from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.core.rules.seal import FrozenIndexes, SealedIndexes, seal
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.instruments.bucket_operations import EffectAccount
from delayed_tracker.service.instruments.instruments import Instruments
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.runner import EffectRunner
from delayed_tracker.storage.codec.codec import decode_segments
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.summary import decode_summary, encode_summary
from tests.service.harness.shell import KEY, ControlledStorage, InlineExecutor, failing, settle

STEP_MS = 100
COUNT_MAX = 4
EPOCH = 3
SEAL_NUMBER = 8


@dataclass
class Reported:
    """Record of the results of the runner; ``known`` is the core's answer."""

    known: bool = True
    epoch: int = EPOCH
    mark_delete: Position = BEFORE_ALL
    merged: list = field(default_factory=list)
    failed: list = field(default_factory=list)
    fenced: list = field(default_factory=list)
    log_error: StorageUnavailable | None = None

    def apply(self, result):
        match result:
            case SnapshotsMerged():
                self.merged.append((result.bucket_id, result.bounds, result.snapshot_bytes, result.stored))
                return self.known
            case MergeFailed():
                self.failed.append((result.lost_bucket_ids, result.too_large))
        return True

    def still_tracked(self, effect):
        tracked = PositionBitmap()
        for source in effect.sources:
            tracked.update(source.live)
        return tracked

    @property
    def log_fails(self):
        return self.log_error is not None

    async def until_logged(self):
        if self.log_error is not None:
            raise self.log_error

    def catalogue_fenced(self, epoch):
        self.fenced.append(epoch)

    def catalogue_written(self, _effect):
        pass


class Bench:
    """A runner over a storage, and snapshots to merge."""

    def __init__(self, storage=None, **limits):
        self.storage = storage or ControlledStorage()
        self.clock = ManualClock()
        self.results = Reported()
        self.limits = ServiceLimits(**limits)
        access = StorageAccess(
            self.storage,
            self.limits,
            clock=self.clock,
            rng=random.Random(1),
            workers=InlineExecutor(),
            loads=LoadBudget(1_000_000),
        )
        account = EffectAccount(self.clock, Instruments(self.clock).operations)
        self.counters = account.counters
        self.runner = EffectRunner(KEY, access, self.limits, results=self.results, account=account)
        self.next_effect_id = 1

    async def put(self, sealed: SealedIndexes) -> int:
        """Store and catalogue a snapshot, and return its id."""
        encoded = encode_snapshot(sealed)
        bucket_id = await self.storage.create_bucket_snapshot(
            encoded.metadata, _each(encoded.segments), bucket_key="k", topic=KEY[0], cursor=KEY[1], epoch=1
        )
        summary = encode_summary(sealed.bounds, PositionBitmap.of(sealed.indexes.positions), encoded.length)
        entry = CatalogueEntry(bucket_id, sealed.first, sealed.last, summary, consumed=b"")
        await self.storage.replace(*KEY, remove=(), add=(entry,), epoch=1)
        return bucket_id

    def effect(self, *sources: MergeSource) -> MergeSnapshots:
        self.next_effect_id += 1
        return MergeSnapshots(
            self.next_effect_id, EPOCH, sources, Position(1, 0), Position(9, 9), STEP_MS, COUNT_MAX, SEAL_NUMBER
        )

    async def perform(self, *effects) -> None:
        self.runner.run(effects)
        while self.runner.in_flight_count:
            await settle()
            wait_ms = self.clock.next_timer_in_ms()
            if wait_ms is not None:
                self.clock.advance(wait_ms)

    async def catalogued(self) -> tuple[CatalogueEntry, ...]:
        return (await self.storage.inner.list(*KEY)).entries

    async def stored_ids(self) -> list[int]:
        return [snapshot.bucket_id for snapshot in await self.storage.inner.list_bucket_snapshots(*KEY)]


async def _each(segments):
    for segment in segments:
        yield segment


def _sealed(rows, *, step_ms=STEP_MS, count_max=COUNT_MAX) -> SealedIndexes:
    positions = sorted(rows.positions)
    bits = PositionBitmap.of(rows.positions)
    return seal(FrozenIndexes(0, (rows,), bits, None, step_ms, count_max, positions[0], positions[-1]))


def _source(bucket_id, sealed, live=None) -> MergeSource:
    bits = PositionBitmap.of(sealed.indexes.positions) if live is None else live
    return MergeSource(bucket_id, len(sealed.bounds), bits)


def _bucket(ledger, count=10, *, step_ms=30) -> SealedIndexes:
    return _sealed(IndexColumns.of([(1_000 + step_ms * entry, ledger, entry) for entry in range(count)]))


async def _two(bench):
    """Return two catalogued snapshots as sources."""
    await bench.storage.inner.start()
    buckets = [_bucket(1), _bucket(2)]
    return [_source(await bench.put(sealed), sealed) for sealed in buckets]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 500), st.booleans()), min_size=1, max_size=40), min_size=1, max_size=4
    ).filter(lambda buckets: any(alive for rows in buckets for _, alive in rows))
)
def test_the_merged_snapshot_is_the_seal_of_what_counts(buckets):
    """Metadata, segments and catalogue summary of a merge equal those of a seal of the same rows, to the byte."""
    asyncio.run(_merge_equals_seal(buckets))


async def _merge_equals_seal(buckets):
    bench = Bench()
    await bench.storage.inner.start()
    sources, counting = [], []
    for ledger, deadlines in enumerate(buckets):
        rows = [(deliver_at_ms, ledger, entry) for entry, (deliver_at_ms, _) in enumerate(deadlines)]
        alive = [row for row, (_, is_alive) in zip(rows, deadlines, strict=True) if is_alive]
        sealed = _sealed(IndexColumns.of(rows))
        live = PositionBitmap.of(PositionColumns.of([tuple(row[1:]) for row in alive]))
        sources.append(_source(await bench.put(sealed), sealed, live))
        counting += alive
    expected = _sealed(IndexColumns.of(counting))
    encoded = encode_snapshot(expected)

    await bench.perform(bench.effect(*sources))

    ((bucket_id, bounds, snapshot_bytes, live),) = bench.results.merged
    assert await bench.storage.get_bucket_snapshot_metadata(bucket_id) == encoded.metadata
    count = len(expected.bounds)
    assert await bench.storage.get_bucket_snapshot_segments(bucket_id, 1, count) == list(encoded.segments)
    assert bounds.count.tolist() == expected.bounds.count.tolist()
    assert live == PositionBitmap.of(expected.indexes.positions)
    assert snapshot_bytes == encoded.length == await bench.storage.get_bucket_snapshot_length(bucket_id)
    (entry,) = await bench.catalogued()
    assert (entry.bucket_id, entry.first, entry.last) == (bucket_id, (1, 0), (9, 9))
    assert entry.seal_number == SEAL_NUMBER
    summary = decode_summary(entry.summary)
    assert (summary.bits, summary.snapshot_bytes) == (live, snapshot_bytes)
    assert summary.groups.bounds.max_deliver_at_ms.tolist() == expected.bounds.max_deliver_at_ms.tolist()
    # The core deletes the sources' objects, after it has switched to the merged one.
    assert await bench.stored_ids() == [*(source.bucket_id for source in sources), bucket_id]


async def test_hiccups_are_retried_and_the_second_pass_begins_anew():
    """A create that fails in the middle reads its segments again from the first."""
    bench = Bench()
    sources = await _two(bench)
    bench.storage.before["get_bucket_snapshot_segments"] = failing(None, StorageUnavailable("down"))
    bench.storage.after["create_bucket_snapshot"] = failing(StorageUnavailable("down"))
    await bench.perform(bench.effect(*sources))
    ((bucket_id, bounds, snapshot_bytes, _),) = bench.results.merged
    assert bench.counters.storage_retries == 2
    assert snapshot_bytes == await bench.storage.get_bucket_snapshot_length(bucket_id)
    segments = await bench.storage.get_bucket_snapshot_segments(bucket_id, 1, len(bounds))
    assert len(decode_segments(segments)) == 20


@pytest.mark.parametrize("operation", ["get_bucket_snapshot_segments", "create_bucket_snapshot", "list", "replace"])
async def test_a_merge_that_cannot_be_finished_changes_nothing(operation):
    """If any step fails permanently, the catalogue still names the sources, and the result is gone (row 15)."""
    bench = Bench()
    sources = await _two(bench)
    before = await bench.catalogued()
    bench.storage.before[operation] = failing(*[StorageUnavailable("down")] * 3)
    await bench.perform(bench.effect(*sources))
    assert bench.results.merged == []
    assert bench.results.failed == [((), False)]
    assert await bench.catalogued() == before
    assert await bench.stored_ids() == [source.bucket_id for source in sources]
    assert (bench.counters.snapshots_merged, bench.counters.merges_failed) == (0, 1)


async def test_a_catalogue_write_applied_though_reported_failed_is_taken_back():
    """If a catalogue write is applied but reported as failed, the entries of the sources are restored unchanged."""
    bench = Bench()
    sources = await _two(bench)
    before = await bench.catalogued()
    bench.storage.after["replace"] = failing(*[StorageUnavailable("down")] * 3)
    await bench.perform(bench.effect(*sources))
    assert bench.results.failed == [((), False)]
    assert await bench.catalogued() == before
    assert await bench.stored_ids() == [source.bucket_id for source in sources]


async def test_what_cannot_be_taken_back_now_goes_with_the_next_catalogue_write():
    """Until the next catalogue write the complete merged snapshot counts, and a source deleted then stays deleted."""
    bench = Bench()
    sources = await _two(bench)
    first, second = await bench.catalogued()
    bench.storage.after["replace"] = failing(*[StorageUnavailable("down")] * 3)
    bench.storage.before["replace"] = failing(None, None, None, *[StorageUnavailable("down")] * 3)
    await bench.perform(bench.effect(*sources))
    assert bench.results.failed == [((), False)]
    (merged,) = await bench.catalogued()
    assert set(await bench.stored_ids()) == {first.bucket_id, second.bucket_id, merged.bucket_id}
    await bench.perform(DeleteSnapshots(99, EPOCH, (first.bucket_id,)))
    assert await bench.catalogued() == (second,)
    assert first.bucket_id not in await bench.stored_ids()


async def test_what_cannot_be_taken_back_now_is_taken_back_at_the_close():
    """The close restores the entries, since it is the last write before the next recovery."""
    bench = Bench()
    sources = await _two(bench)
    before = await bench.catalogued()
    bench.storage.after["replace"] = failing(*[StorageUnavailable("down")] * 3)
    bench.storage.before["replace"] = failing(None, None, None, *[StorageUnavailable("down")] * 3)
    await bench.perform(bench.effect(*sources))
    assert await bench.catalogued() != before
    await bench.runner.finish()
    assert await bench.catalogued() == before


async def test_a_merge_that_the_core_has_forgotten_is_taken_back():
    """A merge of an earlier epoch is taken back, since the new epoch decides about the sources."""
    bench = Bench()
    sources = await _two(bench)
    before = await bench.catalogued()
    bench.results.known = False
    await bench.perform(bench.effect(*sources))
    assert await bench.catalogued() == before
    assert await bench.stored_ids() == [source.bucket_id for source in sources]
    assert bench.counters.results_forgotten == 1


async def test_nothing_is_merged_while_the_add_log_fails():
    """The catalogue could not name the merged snapshot: none is stored."""
    bench = Bench()
    sources = await _two(bench)
    bench.results.log_error = StorageUnavailable("the add log is away")
    await bench.perform(bench.effect(*sources))
    assert bench.results.failed == [((), False)]
    assert await bench.stored_ids() == [source.bucket_id for source in sources]


async def test_a_merge_under_an_old_epoch_is_fenced():
    """A merge under an old epoch leaves nothing in the catalogue of the new owner."""
    bench = Bench()
    sources = await _two(bench)
    before = await bench.catalogued()
    bench.storage.before["replace"] = failing(SnapshotConflict("newer"))
    await bench.perform(bench.effect(*sources))
    assert bench.results.fenced == [EPOCH]
    assert bench.results.failed == [((), False)]
    assert await bench.catalogued() == before
    assert await bench.stored_ids() == [source.bucket_id for source in sources]


class TestUnfitSources:
    """Sources that cannot be read completely are not merged, and the others stay (row 15)."""

    async def test_a_missing_one_is_named_and_counted(self):
        """The missing source is named and counted, so that the core can merge the others."""
        bench = Bench()
        sources = await _two(bench)
        await bench.storage.delete_bucket_snapshot(sources[1].bucket_id)
        await bench.perform(bench.effect(*sources))
        assert bench.results.failed == [((sources[1].bucket_id,), False)]
        assert (bench.counters.snapshots_missing, bench.counters.snapshots_corrupt) == (1, 0)
        assert await bench.stored_ids() == [sources[0].bucket_id]

    @pytest.mark.parametrize("fault", ["bytes", "order", "rows"])
    async def test_a_corrupt_one_is_named_and_counted(self, fault):
        """Bytes that do not decode, unordered segments and a position without its row make a source corrupt."""
        bench = Bench()
        sources = await _two(bench)
        encoded = list(encode_snapshot(_bucket(2)).segments)
        damaged = {"bytes": [b"?", *encoded[1:]], "order": encoded[::-1], "rows": encoded[1:]}[fault]
        bucket_id = await bench.storage.create_bucket_snapshot(
            b"", _each(damaged), bucket_key="k", topic=KEY[0], cursor=KEY[1], epoch=1
        )
        sources[1] = MergeSource(bucket_id, len(damaged), sources[1].live)
        await bench.perform(bench.effect(*sources))
        assert bench.results.failed == [((bucket_id,), False)]
        assert (bench.counters.snapshots_missing, bench.counters.snapshots_corrupt) == (0, 1)

    @pytest.mark.parametrize("fault", ["order", "rows"])
    async def test_a_foreign_one_that_cannot_be_merged_is_not_lost(self, fault):
        """Its rows are read when they are due, in any order of its segments; another group is merged."""
        bench = Bench()
        sources = await _two(bench)
        encoded = list(encode_snapshot(_bucket(2)).segments)
        written = {"order": encoded[::-1], "rows": encoded[1:]}[fault]
        bucket_id = await bench.storage.create_bucket_snapshot(
            b"", _each(written), bucket_key="k", topic=KEY[0], cursor=KEY[1], epoch=1
        )
        sources[1] = MergeSource(bucket_id, len(written), sources[1].live, is_foreign=True)
        await bench.perform(bench.effect(*sources))
        assert bench.results.failed == [((), True)]
        assert (bench.counters.snapshots_missing, bench.counters.snapshots_corrupt) == (0, 0)

    async def test_one_that_vanishes_between_the_passes_leaves_no_half_snapshot(self):
        """The source's error ends the merge, and no partial snapshot remains."""
        bench = Bench()
        sources = await _two(bench)

        async def vanish(*_args, **_kwargs):
            await bench.storage.inner.delete_bucket_snapshot(sources[0].bucket_id)

        bench.storage.before["create_bucket_snapshot"] = vanish
        await bench.perform(bench.effect(*sources))
        assert bench.results.failed == [((sources[0].bucket_id,), False)]
        assert await bench.stored_ids() == [sources[1].bucket_id]


async def test_a_merge_whose_metadata_would_not_fit_ends_in_the_first_pass():
    """A merge with too large metadata writes nothing."""
    bench = Bench(snapshot_metadata_bytes_max=100)
    sources = await _two(bench)
    bench.storage.calls.clear()
    await bench.perform(bench.effect(*sources))
    assert bench.results.failed == [((), True)]
    assert set(bench.storage.calls) == {"get_bucket_snapshot_segments"}


async def _peak_bytes(path, count):
    """Return the peak memory of a merge of two snapshots of ``count`` indexes, above that of the effect itself."""
    bench = Bench(open_storage(f"sqlite:{path}"))
    await bench.storage.start()
    sources = []
    for ledger in (1, 2):
        rows = IndexColumns(np.arange(count) * 7, np.full(count, ledger), np.arange(count))
        sealed = _sealed(rows, step_ms=3_600_000, count_max=1_000)
        sources.append(_source(await bench.put(sealed), sealed))
    effect = MergeSnapshots(1, EPOCH, tuple(sources), Position(1, 0), Position(2, count), 3_600_000, 1_000, SEAL_NUMBER)
    del rows, sealed
    tracemalloc.start()
    try:
        bench.runner.run([effect])
        await bench.runner.finish()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        await bench.storage.close()
    ((_, bounds, _, live),) = bench.results.merged
    assert int(bounds.count.sum()) == len(live) == 2 * count
    return peak


@pytest.mark.slow
@pytest.mark.parametrize("count", [300_000, pytest.param(1_000_000, marks=pytest.mark.deep)])
def test_memory_of_a_merge_does_not_depend_on_the_size_of_its_buckets(tmp_path, count):
    """The memory of a merge grows only by the metadata, which is limited, and not by the rows.

    The rows of one bucket of 300 thousand or a million indexes alone would take 7 or 24 MB.
    """
    small = asyncio.run(_peak_bytes(tmp_path / "small.db", 10_000))
    large = asyncio.run(_peak_bytes(tmp_path / "large.db", count))
    print(f"peak {small:,} and {large:,} bytes")
    assert large < small + 2 * 2**20
    assert large < 4 * 2**20


async def test_a_reader_takes_few_large_segments_and_many_small_ones():
    """The first read is one segment, and each read is at most twice as large as the one before, up to a target size."""
    bench = Bench()
    await bench.storage.inner.start()
    sealed = _sealed(IndexColumns.of([(10 * entry, 1, entry) for entry in range(2_000)]), count_max=1)
    source = _source(await bench.put(sealed), sealed)
    reads = []

    async def note(_bucket_id, first, last):
        reads.append(last - first + 1)

    bench.storage.before["get_bucket_snapshot_segments"] = note
    await bench.perform(bench.effect(source))
    assert reads[:11] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 977]
