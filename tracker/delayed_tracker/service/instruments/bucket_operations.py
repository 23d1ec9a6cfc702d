"""Operations on bucket snapshots: how many succeeded and failed, and how long they took.

A tracker whose series have labels of their own has an account of its own. All others share one, so that a scrape adds
up nothing, and tens of thousands of idle trackers need no memory for it.
"""

from bisect import bisect_left
from typing import Final

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.instruments.histogram import Exemplar, Histogram, Labels

OPERATIONS: Final = ("create", "load", "delete", "merge")
"""PIP-195's values of the label ``type``."""
LATENCY_RANGES_MS: Final = (50, 100, 500, 1_000, 5_000, 30_000, 60_000)
"""Upper ends, included, of PIP-195's ranges. Longer operations are in the range ``overflow``."""
QUANTILES: Final = (*map(str, LATENCY_RANGES_MS), "overflow")
"""PIP-195's values of the label ``quantile``."""

COUNTERS: Final = {
    ("create", "succeed"): "snapshots_stored",
    ("create", "failed"): "snapshots_failed",
    ("load", "succeed"): "segment_loads",
    ("load", "failed"): "segment_loads_failed",
    ("delete", "succeed"): "snapshots_deleted",
    ("delete", "failed"): "deletes_failed",
    ("merge", "succeed"): "snapshots_merged",
    ("merge", "failed"): "merges_failed",
}
"""The attribute of ``EffectCounters`` for each (type, state) of PIP-195."""
STATES: Final = ("succeed", "failed", "all")
"""PIP-195's values of the label ``state``; ``all`` is the sum of the others."""


class LatencyRanges:
    """Counts of successful operations by type and latency range. The ranges do not overlap."""

    __slots__ = ("by_type",)

    def __init__(self) -> None:
        self.by_type: dict[str, list[int]] = {}
        """Counts by range, for the types that have occurred."""

    def add(self, kind: str, took_ms: float, count: int) -> None:
        """Add operations that took ``took_ms``."""
        ranges = self.by_type.setdefault(kind, [0] * len(QUANTILES))
        ranges[bisect_left(LATENCY_RANGES_MS, took_ms)] += count


class EffectAccount:
    """Counts and latencies of the effects of one tracker, or of many together.

    Args:
        clock: measures the durations.
        durations: histograms of all trackers together, by type.
        shows_all: True to include types of operations that have not occurred.
    """

    __slots__ = ("_clock", "_durations", "counters", "ranges")

    def __init__(self, clock: Clock, durations: dict[str, Histogram], *, shows_all: bool = False) -> None:
        self.counters = EffectCounters()
        self.ranges = LatencyRanges()
        if shows_all:
            for kind in OPERATIONS:
                self.ranges.add(kind, 0, 0)
        self._clock = clock
        self._durations = durations

    def types(self) -> list[str]:
        """Return the types of operations that have occurred; all types with ``shows_all``."""
        counted = (kind for (kind, _), name in COUNTERS.items() if getattr(self.counters, name))
        happened = {*counted, *self.ranges.by_type}
        return [kind for kind in OPERATIONS if kind in happened]

    def begin(self) -> float:
        """Return the time at which an operation begins, for :meth:`succeeded`."""
        return self._clock.elapsed_ms()

    def succeeded(self, kind: str, begun_ms: float, labels: Labels, *, count: int = 1) -> None:
        """Record operations that succeeded together.

        Args:
            kind: one of ``OPERATIONS``.
            begun_ms: time before they waited for their turn.
            labels: identify them in the log.
            count: number of buckets.
        """
        took_ms = self._clock.elapsed_ms() - begun_ms
        durations = self._durations[kind]
        number = durations.observe(took_ms / 1_000, count)
        durations.exemplars[number] = Exemplar(labels, took_ms / 1_000, self._clock.now_ms())
        self.ranges.add(kind, took_ms, count)
