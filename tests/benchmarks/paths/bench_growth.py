"""Cost of adds and pops as the number of pending indexes grows."""

import statistics
from collections.abc import Iterator

import numpy as np

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import IndexColumns, index_columns
from delayed_tracker.core.values.instant import Instant
from tests.benchmarks.inputs.shapes import BATCH, NOW_MS, Shape, batches, buckets, default_limits
from tests.benchmarks.measure import Reading, Run, Stopwatch, require
from tests.benchmarks.rows import Row, Unit, per_index
from tests.core.harness.shell import Shell

ABOUT = (
    "The core with nothing pending, then with 1 M and 10 M in sealed buckets over 7 days. 40,000 indexes of a new ledger "
    "are added in batches of 1,000, and popped when they are due."
)
SPAN_MS = 60_000


def rows(run: Run) -> Iterator[Row]:
    """Measure the costs at each number of pending indexes, and the ratio of the rates with most and with none."""
    shell = Shell(TrackerCore(default_limits(run.scale)), now_ms=NOW_MS)
    adding: list[list[Reading]] = []
    popping: list[list[Reading]] = []
    for pending in (0, *run.scale.pending):
        _fill(run, shell, pending)
        adds, pops = _add_and_pop(run, shell, pending)
        adding.append(adds)
        popping.append(pops)
        count = run.scale.growth_adds
        yield per_index("growth add", f"add with {pending:,} pending", adds, count, Shape.WEEK)
        yield per_index("growth pop", f"pop, hand-off, with {pending:,} pending", pops, count, Shape.WEEK)
    for what, readings in (("add", adding), ("pop", popping)):
        for pending, loaded in zip(run.scale.pending, readings[1:], strict=True):
            yield _ratio(f"{what} rate with {pending:,} pending", readings[0], loaded, pending)


def _fill(run: Run, shell: Shell, pending: int) -> None:
    there = len(shell.core) // run.scale.bucket
    run.note(f"filling up to {pending:,} pending")
    for number, bucket in enumerate(buckets(Shape.WEEK, run.scale, pending // run.scale.bucket), start=1):
        if number > there:
            shell.core.add(bucket, shell.now)
            shell.core.seal_mutable_bucket(shell.now)
            shell.perform_all()
    require(f"{pending:,} pending", len(shell.core) == pending)


def _add_and_pop(run: Run, shell: Shell, pending: int) -> tuple[list[Reading], list[Reading]]:
    """Measure adds to a separate ledger, which each repeat takes out again, so that the next has the same state."""
    count = run.scale.growth_adds
    adds, pops = [], []
    ledger = 10_000_000 + pending
    all_due = Instant(NOW_MS + 11 * SPAN_MS, 11 * SPAN_MS)
    for counts in run.repeats(f"add and pop with {pending:,} pending"):
        ledger += 1
        deadlines = NOW_MS + 10 * SPAN_MS + np.random.default_rng(ledger).integers(0, SPAN_MS, count)
        indexes = index_columns(deadlines, np.full(count, ledger), np.arange(count))
        parts = batches(indexes)
        popped: list[IndexColumns] = []
        with Stopwatch() as adding:
            for part in parts:
                shell.core.add(part, shell.now)
        require("add", len(shell.core) == pending + count)
        with Stopwatch() as popping:
            while len(block := shell.core.pop_due(BATCH, all_due, lease_ms=0).indexes):
                popped.append(block)
        taken = IndexColumns.concat(popped)
        require("pop", np.array_equal(np.sort(taken.entry_id), indexes.entry_id) and len(shell.core) == pending)
        if counts:
            adds.append(adding.reading)
            pops.append(popping.reading)
    return adds, pops


def _ratio(what: str, empty: list[Reading], loaded: list[Reading], pending: int) -> Row:
    base = statistics.median(reading.wall_ns for reading in empty)
    return Row("growth", what, Unit.RATIO, tuple(base / reading.wall_ns for reading in loaded), pending, Shape.WEEK)
