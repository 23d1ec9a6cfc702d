"""Histogram of deadlines: counted for positions in memory, estimated from segment bounds for the others.

The estimate spreads the rows of a segment evenly from its first deadline to its last. The positions consumed since a
bucket was sealed are not known for each segment, so all unloaded counts are scaled down together. Before + bars + after
is always exactly the number of tracked positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.inspect.inspection import UnloadedSegments
from delayed_tracker.core.values.columns import INT63_MAX, Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.trackers.host import TrackerHost

BARS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Bars:
    """Bars of ``step_ms`` each; the first begins at ``from_ms``."""

    from_ms: int
    step_ms: int
    count: int

    def __post_init__(self) -> None:
        """Refuse values that a histogram does not allow."""
        if not 0 <= self.from_ms <= INT63_MAX:
            raise InvalidInput("from_ms", self.from_ms, "give 0 or more")
        if not 1 <= self.count <= BARS_MAX:
            raise InvalidInput("bar_count", self.count, f"give 1 to {BARS_MAX}")
        widest_ms = (INT63_MAX - self.from_ms) // self.count
        if not widest_ms:
            raise InvalidInput(
                "from_ms", self.from_ms, f"give at most {INT63_MAX - self.count}: {self.count} bars follow"
            )
        if not 1 <= self.step_ms <= widest_ms:
            raise InvalidInput(
                "step_ms", self.step_ms, f"give 1 to {widest_ms} ms, so that {self.count} bars end in range"
            )

    @property
    def edges(self) -> Int64Array:
        """Beginnings of all bars, and the end of the last one, in milliseconds since 1970, UTC."""
        return self.from_ms + self.step_ms * np.arange(self.count + 1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Histogram:
    """Numbers of positions before, in and after the bars, and the number of positions that are estimated."""

    before_count: int
    counts: Int64Array
    after_count: int
    estimated_count: int


async def delivery_histogram(host: TrackerHost, access: StorageAccess, bars: Bars) -> Histogram:
    """Return the histogram at one moment. Reads nothing from the storage."""
    tracker = host.core_for_reading()
    loaded, _ = tracker.loaded_between(0, None)
    return await access.offload(
        build_histogram, loaded.deliver_at_ms, tracker.unloaded(), len(tracker) - len(loaded), bars
    )


def build_histogram(
    loaded_ms: Int64Array, unloaded: Sequence[UnloadedSegments], unloaded_count: int, bars: Bars
) -> Histogram:
    """Compute the histogram as the module describes. Pure.

    Args:
        loaded_ms: deadlines in memory, ascending.
        unloaded: segments that are not in memory.
        unloaded_count: positions that are tracked and not in memory.
        bars: to fill.
    """
    edges = bars.edges
    # All counts are cumulative: the number of positions below each edge.
    below = np.searchsorted(loaded_ms, edges).astype(np.float64)
    total = len(loaded_ms) + unloaded_count
    estimated = 0
    sealed = sum(int(bucket.bounds.count.sum()) for bucket in unloaded)
    if sealed and unloaded_count:
        scale = unloaded_count / sealed
        spread_over_bars = 0.0
        for bucket in unloaded:
            bounds = bucket.bounds
            below += scale * _below(edges, bounds.count, bounds.min_deliver_at_ms, bounds.max_deliver_at_ms)
            first = np.searchsorted(edges, bounds.min_deliver_at_ms, side="right")
            last = np.searchsorted(edges, bounds.max_deliver_at_ms, side="right")
            spread_over_bars += float(bounds.count[first != last].sum())
        estimated = unloaded_count if sealed != unloaded_count else round(spread_over_bars)
    whole = np.minimum(np.rint(below).astype(np.int64), total)
    return Histogram(int(whole[0]), np.diff(whole), int(total - whole[-1]), estimated)


def _below(edges: Int64Array, count: Int64Array, first_ms: Int64Array, last_ms: Int64Array) -> NDArray[np.float64]:
    """Return the estimated number of rows below each edge. The segments are in time order."""
    starts = np.concatenate(([0], np.cumsum(count)))
    # The last segment that begins below the edge; all segments before it end below the edge.
    segment = np.searchsorted(first_ms, edges) - 1
    inside = np.maximum(segment, 0)
    span = (last_ms - first_ms).astype(np.float64)[inside] + 1
    share = np.clip((edges - first_ms[inside]) / span, 0, 1)
    return np.where(segment < 0, 0.0, starts[inside] + count[inside] * share)
