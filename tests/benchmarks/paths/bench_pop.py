"""Pops of due indexes from the core: from 100 loaded runs, one for each sealed bucket, deadlines interleaved."""

from collections.abc import Iterator

import numpy as np

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from tests.benchmarks.inputs.shapes import ALL_DUE, BATCH, NOW_MS, WEEK_MS, Shape, offered
from tests.benchmarks.measure import Run
from tests.benchmarks.paths.bench_codec import same_rows
from tests.benchmarks.rows import Row, per_index
from tests.core.harness.shell import Shell

ABOUT = (
    "Batches of 1,000; the order of what comes out is verified row by row. A lease is what the service gives unless asked "
    "for a hand-off, which clears bits as well. By the profile merging ahead takes two thirds of a hand-off, a step for "
    "each run more than the kernel; clearing takes the rest, a third of it inside CRoaring, which gives up the entries of "
    "a container at 9 to 14 ns each. Tried: merging 16,000 or 8,000 rows at a time instead of 65,536 (1.7 and 3 times as "
    "long, because steps for runs are paid more often); at least 256 rows of each run ahead (no difference); numpy's sort "
    "of ledger and entry in one number (5 times the radix sort); bitmaps written by a kernel from sorted columns (half "
    "the time of that step, 5 to 15 ns of the whole in one round and none in the next: not kept)."
)
LEASE_MS = 30_000


def rows(run: Run) -> Iterator[Row]:
    """Measure hand-offs, then leases, for each shape."""
    for lease_ms in (0, LEASE_MS):
        for shape in Shape:
            yield _pop(run, shape, lease_ms)


def _pop(run: Run, shape: Shape, lease_ms: int) -> Row:
    count = run.scale.runs * run.scale.run_length
    indexes = offered(shape, count, per_ledger=run.scale.run_length)
    model = indexes.take(np.lexsort((indexes.entry_id, indexes.ledger_id, indexes.deliver_at_ms)))
    limits = TrackerLimits(prefetch_window_ms=2 * WEEK_MS, load_indexes_max=count, loaded_indexes_max=2 * count)
    popped: list[IndexColumns] = []

    def prepare() -> TrackerCore:
        popped.clear()
        shell = Shell(TrackerCore(limits), now_ms=NOW_MS)
        for start in range(0, count, run.scale.run_length):
            shell.core.add(indexes.take(slice(start, start + run.scale.run_length)), shell.now)
            shell.core.seal_mutable_bucket(shell.now)
            shell.perform_all()
        assert shell.core.stats().loaded_count == count
        return shell.core

    def drain(core: TrackerCore) -> None:
        while len(block := core.pop_due(BATCH, ALL_DUE, lease_ms=lease_ms).indexes):
            popped.append(block)

    def verify(core: TrackerCore) -> bool:
        left = count if lease_ms else 0
        return same_rows(IndexColumns.concat(popped), model) and len(core) == left

    what = f"pop over {run.scale.runs} runs, {'lease' if lease_ms else 'hand-off'}"
    readings = run.measure(f"{what}, {shape.value}", prepare=prepare, run=drain, verify=verify)
    return per_index("pop", what, readings, count, shape)
