"""Inputs of the benchmarks: columns of indexes in the shapes that determine the costs. Seeds are fixed."""

import enum
from collections.abc import Iterator

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns, PositionColumns, index_columns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.settings.settings import LOAD_INDEXES_MIN, READ_AHEAD_INDEXES
from tests.benchmarks.inputs.scale import Scale

NOW_MS = 1_700_000_000_000
NOW = Instant(NOW_MS, 0)
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
WEEK_MS = 7 * 24 * HOUR_MS
SOON_MS = HOUR_MS
"""Distance of the first deadline when it is added: nothing is due or nearly due."""
BATCH = 1_000


class Shape(enum.Enum):
    """Distribution of deadlines."""

    DENSE = "dense"
    """Over a minute: segments are full, costs per index dominate."""
    WEEK = "7 days"
    """50,000 indexes are about 2,000 segments of 27 at default settings: costs per segment dominate."""
    ONE = "one deadline"
    """All at the same millisecond."""

    @property
    def span_ms(self) -> int:
        """Milliseconds that contain all deadlines."""
        return {Shape.DENSE: MINUTE_MS, Shape.WEEK: WEEK_MS, Shape.ONE: 1}[self]


ALL_DUE_MS = NOW_MS + SOON_MS + WEEK_MS
ALL_DUE = Instant(ALL_DUE_MS, SOON_MS + WEEK_MS)
"""A time at which every index of every shape is due."""


def offered(shape: Shape, count: int, *, per_ledger: int, first_ledger: int = 1, seed: int = 0) -> IndexColumns:
    """Return indexes in position order: every entry of consecutive ledgers is delayed."""
    rng = np.random.default_rng([seed, count])
    row = np.arange(count, dtype=np.int64)
    deadlines = NOW_MS + SOON_MS + rng.integers(0, shape.span_ms, count)
    return index_columns(deadlines, first_ledger + row // per_ledger, row % per_ledger)


def batches(indexes: IndexColumns, size: int = BATCH) -> list[IndexColumns]:
    """Return the rows in calls of ``size``, in order."""
    return [indexes.take(slice(start, start + size)) for start in range(0, len(indexes), size)]


def position_batches(indexes: IndexColumns) -> list[PositionColumns]:
    """Return the positions in calls of ``BATCH``, in a fixed random order."""
    shuffled = indexes.positions.take(np.random.default_rng(1).permutation(len(indexes)))
    return [shuffled.take(slice(start, start + BATCH)) for start in range(0, len(indexes), BATCH)]


def default_limits(scale: Scale) -> TrackerLimits:
    """Return the service's defaults, with buckets of the scale's size."""
    return TrackerLimits(
        min_index_count_per_bucket=scale.bucket,
        load_indexes_min=LOAD_INDEXES_MIN,
        read_ahead_indexes=READ_AHEAD_INDEXES,
    )


def buckets(shape: Shape, scale: Scale, count: int, *, every: int = 1) -> Iterator[IndexColumns]:
    """Yield ``count`` ledgers of one bucket each, in which every n-th entry is delayed."""
    for number in range(count):
        bucket = offered(shape, scale.bucket, per_ledger=scale.bucket, first_ledger=1 + number, seed=number)
        yield IndexColumns(bucket.deliver_at_ms, bucket.ledger_id, bucket.entry_id * every)
