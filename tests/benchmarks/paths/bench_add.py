"""Adding to the core: the cost of an index, and the duration of the call that begins a seal."""

from collections.abc import Iterator
from time import perf_counter_ns

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from tests.benchmarks.inputs.shapes import NOW, Shape, batches, offered
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit, per_index

ABOUT = "Batches of 1,000 into the core, in one ledger unless they seal. Sealing itself happens elsewhere: see the next part."


def rows(run: Run) -> Iterator[Row]:
    """Measure adds that seal nothing, then the longest add that begins a seal, at a ledger's end and in mid-ledger."""
    for shape in Shape:
        yield _plain(run, shape)
    scale = run.scale
    for shape in Shape:
        limits = TrackerLimits(min_index_count_per_bucket=scale.bucket, mutable_indexes_max=2 * scale.adds)
        indexes = offered(shape, scale.adds, per_ledger=scale.bucket)
        what = f"longest add that begins to seal {scale.bucket:,}"
        yield _sealing(run, "add that seals", what, shape, indexes=indexes, limits=limits)
        limits = TrackerLimits(min_index_count_per_bucket=2 * scale.adds, mutable_indexes_max=scale.adds)
        indexes = offered(shape, scale.adds + 1, per_ledger=scale.adds + 1)
        what = f"add that begins to seal {scale.adds:,} of one ledger"
        yield _sealing(run, "add that seals 1M", what, shape, indexes=indexes, limits=limits)


def _plain(run: Run, shape: Shape) -> Row:
    count = run.scale.adds
    limits = TrackerLimits(min_index_count_per_bucket=2 * count, mutable_indexes_max=2 * count)
    indexes = offered(shape, count, per_ledger=count)
    parts = batches(indexes)

    def add(core: TrackerCore) -> None:
        for part in parts:
            core.add(part, NOW)

    readings = run.measure(
        f"add, {shape.value}",
        prepare=lambda: TrackerCore(limits),
        run=add,
        verify=lambda core: len(core) == count and bool(core.contains(indexes.positions).all()),
    )
    return per_index("add", "add, batches of 1,000", readings, count, shape)


def _sealing(run: Run, key: str, what: str, shape: Shape, *, indexes: IndexColumns, limits: TrackerLimits) -> Row:
    parts = batches(indexes)
    longest_ms: list[float] = []
    for counts in run.repeats(f"{what}, {shape.value}"):
        core = TrackerCore(limits)
        sealing_ns = []
        for part in parts:
            started_ns = perf_counter_ns()
            core.add(part, NOW)
            elapsed_ns = perf_counter_ns() - started_ns
            if any(isinstance(effect, StoreSnapshot) for effect in core.take_effects()):
                sealing_ns.append(elapsed_ns)
        require(what, bool(sealing_ns) and len(core) == len(indexes))
        if counts:
            longest_ms.append(max(sealing_ns) / 1e6)
    return Row(key, what, Unit.MS, tuple(longest_ms), len(indexes), shape)
