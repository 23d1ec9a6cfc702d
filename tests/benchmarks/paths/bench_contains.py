"""Membership queries on the core: with all indexes in it, and with half of them handed out."""

from collections.abc import Iterator

import numpy as np

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, PositionColumns
from tests.benchmarks.inputs.shapes import (
    BATCH,
    NOW_MS,
    SOON_MS,
    WEEK_MS,
    Shape,
    buckets,
    default_limits,
    position_batches,
)
from tests.benchmarks.measure import Run
from tests.benchmarks.rows import Row, per_index
from tests.core.harness.shell import Shell

ABOUT = (
    "Batches of 1,000 positions of 20 sealed buckets over 7 days: in the order in which a dispatcher reads them, and at "
    "random, as the peer was asked. Half drained means that half a week has passed. Bitmap by bitmap, a step for each "
    "ledger of a batch took nearly all of it: 350 ns at random, 529 half drained. Nothing changes while this is measured, "
    "so all but the first batch ask a flat copy of the bitmaps; making it takes about a microsecond for each ledger."
)


def rows(run: Run) -> Iterator[Row]:
    """Measure a full core and a half-drained one, in order and at random."""
    indexes = IndexColumns.concat(list(buckets(Shape.WEEK, run.scale, run.scale.buckets)))
    half_ms = NOW_MS + SOON_MS + WEEK_MS // 2
    for key, what, now_ms in (
        ("contains", "contains, full", NOW_MS),
        ("contains half drained", "contains, half drained", half_ms),
    ):
        core, cutoff_ms = _drained_until(run, now_ms)
        for order, asked in (
            ("in order", _in_order(indexes.positions)),
            ("at random", position_batches(indexes)),
        ):
            yield _contains(run, key, f"{what}, {order}", core, asked=asked, model=_tracked(indexes, asked, cutoff_ms))


def _drained_until(run: Run, now_ms: int) -> tuple[TrackerCore, int]:
    limits = default_limits(run.scale)
    shell = Shell(TrackerCore(limits), now_ms=NOW_MS)
    for bucket in buckets(Shape.WEEK, run.scale, run.scale.buckets):
        shell.core.add(bucket, shell.now)
        shell.core.seal_mutable_bucket(shell.now)
        shell.perform_all()
    shell.pass_time(now_ms - NOW_MS)
    shell.perform_all()
    while len(shell.pop(BATCH).indexes):
        shell.perform_all()
    return shell.core, limits.cutoff_ms(now_ms)


def _in_order(positions: PositionColumns) -> list[PositionColumns]:
    return [positions.take(slice(start, start + BATCH)) for start in range(0, len(positions), BATCH)]


def _tracked(indexes: IndexColumns, asked: list[PositionColumns], cutoff_ms: int) -> BoolArray:
    """Return the answers of the model: an index that is not due by the cutoff is tracked."""
    left = indexes.take(indexes.deliver_at_ms > cutoff_ms)
    keys = _keys(left.positions)
    return np.isin(_keys(_concat(asked)), keys)


def _concat(parts: list[PositionColumns]) -> PositionColumns:
    return PositionColumns(
        np.concatenate([part.ledger_id for part in parts]), np.concatenate([part.entry_id for part in parts])
    )


def _keys(positions: PositionColumns) -> np.ndarray:
    return positions.ledger_id << 32 | positions.entry_id


def _contains(
    run: Run, key: str, what: str, core: TrackerCore, *, asked: list[PositionColumns], model: BoolArray
) -> Row:
    answers: list[BoolArray] = []
    readings = run.measure(
        what,
        prepare=answers.clear,
        run=lambda _: answers.extend(core.contains(part) for part in asked),
        verify=lambda _: np.array_equal(np.concatenate(answers), model),
    )
    return per_index(key, what, readings, len(model), Shape.WEEK)
