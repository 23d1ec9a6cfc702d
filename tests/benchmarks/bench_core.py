"""The core and the codec, without storage or network: add, seal and encode, decode, contains, pop.

Two shapes: *dense*, where a bucket is a few full segments, and *7 days*, where 50,000 indexes over a week in steps of
300 s are about 2,000 segments of 27, so that costs per segment rule.
"""

import numpy as np
import pytest

from snapshot_storage.codec import decode_segments, encode_snapshot
from tests.benchmarks.measure import machine, measure
from tracker.core.columns import IndexColumns, PositionColumns, index_columns
from tracker.core.core import TrackerCore
from tracker.core.effects import StoreSnapshot
from tracker.core.limits import TrackerLimits
from tracker.core.seal import FrozenIndexes, seal

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * 24 * HOUR_MS
BATCH = 1_000
BUCKET = 50_000
SHAPES = {"dense": HOUR_MS // 60, "7 days": WEEK_MS}


@pytest.fixture(scope="module", autouse=True)
def title() -> None:
    print(f"\n{machine()}")


def offered(count: int, span_ms: int, *, first_ledger: int = 1, per_ledger: int = BUCKET) -> IndexColumns:
    rng = np.random.default_rng(count)
    sequence = np.arange(count, dtype=np.int64)
    deadlines = NOW_MS + HOUR_MS + rng.integers(0, span_ms, count)
    return index_columns(deadlines, first_ledger + sequence // per_ledger, sequence % per_ledger)


def batches(indexes: IndexColumns) -> list[IndexColumns]:
    return [indexes.take(slice(start, start + BATCH)) for start in range(0, len(indexes), BATCH)]


def frozen_bucket(span_ms: int) -> FrozenIndexes:
    core = TrackerCore(TrackerLimits())
    core.add(offered(BUCKET, span_ms), NOW_MS)
    core.seal_now(NOW_MS)
    (effect,) = [effect for effect in core.take_effects() if isinstance(effect, StoreSnapshot)]
    return effect.frozen


@pytest.mark.parametrize("count", [10_000, 100_000, 1_000_000])
def test_add(count: int):
    """Batches of 1,000 into one ledger; nothing is sealed on the way."""
    limits = TrackerLimits(mutable_indexes_max=2 * count)
    parts = batches(offered(count, WEEK_MS, per_ledger=count))

    def add(core: TrackerCore) -> None:
        for part in parts:
            core.add(part, NOW_MS)

    measure(
        "add, batches of 1,000",
        count,
        prepare=lambda: TrackerCore(limits),
        run=add,
        verify=lambda core: len(core) == count,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_seal_and_encode(shape: str):
    """Sort, cut, bitmaps and encoding of a bucket, as it happens off the caller's path."""
    results: list[int] = []
    measure(
        f"seal and encode, {shape}",
        BUCKET,
        prepare=lambda: frozen_bucket(SHAPES[shape]),
        run=lambda frozen: results.append(encode_snapshot(seal(frozen)).length),
        verify=lambda _: results[-1] > BUCKET,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_decode(shape: str):
    """All segments of a bucket in one pass."""
    sealed = seal(frozen_bucket(SHAPES[shape]))
    segments = encode_snapshot(sealed).segments
    results: list[IndexColumns] = []
    measure(
        f"decode, {shape}",
        BUCKET,
        prepare=results.clear,
        run=lambda _: results.append(decode_segments(segments)),
        verify=lambda _: bool(np.array_equal(results[0].deliver_at_ms, sealed.indexes.deliver_at_ms)),
    )


def test_contains():
    """Batches of 1,000 positions, all tracked."""
    count = 100_000
    indexes = offered(count, WEEK_MS, per_ledger=count)
    core = TrackerCore(TrackerLimits(min_index_count_per_bucket=2 * count))
    core.add(indexes, NOW_MS)
    parts: list[PositionColumns] = [part.positions for part in batches(indexes)]
    answers: list[bool] = []
    measure(
        "contains, batches of 1,000",
        count,
        prepare=answers.clear,
        run=lambda _: answers.extend(bool(core.contains(part).all()) for part in parts),
        verify=lambda _: all(answers) and len(answers) == len(parts),
    )


def test_pop_and_expire():
    """Lease everything in batches of 1,000 once it is due, and let the leases expire."""
    count = 100_000
    indexes = offered(count, WEEK_MS, per_ledger=count)
    later_ms = NOW_MS + HOUR_MS + WEEK_MS
    popped: list[int] = []

    def loaded() -> TrackerCore:
        popped.clear()
        core = TrackerCore(TrackerLimits(min_index_count_per_bucket=2 * count))
        core.add(indexes, NOW_MS)
        return core

    def drain(core: TrackerCore) -> None:
        while len(delivery := core.pop_due(BATCH, later_ms, lease_ms=30_000).indexes):
            popped.append(len(delivery))
        assert core.expire_leases(later_ms + 30_000) == count

    measure(
        "pop in batches of 1,000, leases expire",
        count,
        prepare=loaded,
        run=drain,
        verify=lambda core: sum(popped) == count == len(core),
    )


@pytest.mark.parametrize("lease_ms", [0, 30_000], ids=["hand-off", "lease"])
def test_pop_over_100_runs(lease_ms: int):
    """One run for each of 100 sealed buckets, deadlines interleaved; batches of 1,000."""
    runs, length = 100, 2_000
    count = runs * length
    limits = TrackerLimits(prefetch_window_ms=2 * WEEK_MS, loaded_indexes_max=2 * count)
    last_ms = NOW_MS + HOUR_MS + WEEK_MS
    parts = [
        offered(count, WEEK_MS, per_ledger=length).take(slice(start, start + length))
        for start in range(0, count, length)
    ]
    popped: list[IndexColumns] = []

    def loaded() -> TrackerCore:
        popped.clear()
        core = TrackerCore(limits)
        for number, part in enumerate(parts):
            core.add(part, NOW_MS)
            core.seal_now(NOW_MS)
            (effect,) = [effect for effect in core.take_effects() if isinstance(effect, StoreSnapshot)]
            sealed = seal(effect.frozen)
            core.snapshot_stored(effect.effect_id, number, sealed, snapshot_bytes=1, now_ms=NOW_MS)
        assert core.stats().loaded_count == count
        return core

    def drain(core: TrackerCore) -> None:
        while len(indexes := core.pop_due(BATCH, last_ms, lease_ms=lease_ms).indexes):
            popped.append(indexes)

    def in_order(core: TrackerCore) -> bool:
        deadlines = np.concatenate([part.deliver_at_ms for part in popped])
        left = 0 if lease_ms == 0 else count
        return len(deadlines) == count and bool((np.diff(deadlines) >= 0).all()) and len(core) == left

    name = "hand-off" if lease_ms == 0 else "lease"
    measure(f"pop over 100 runs, {name}", count, prepare=loaded, run=drain, verify=in_order)
