"""Operations on bucket snapshots: how many succeeded and failed, and how long they took.

A tracker whose series have labels of their own has an account of its own; all others share one, so that nothing has to be
added up when somebody looks, and tens of thousands of idle trackers need no memory for it.
"""

from bisect import bisect_left
from typing import Final

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.instruments.histogram import Exemplar, Histogram, Labels

OPERATIONS: Final = ("create", "load", "delete", "merge")
"""PIP-195's values of the label ``type``."""
LATENCY_RANGES_MS: Final = (50, 100, 500, 1_000, 5_000, 30_000, 60_000)
"""Upper ends, included, of PIP-195's ranges; what took longer is in the range ``overflow``."""
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
"""(type, state), as PIP-195 names them, and which of ``EffectCounters`` it is."""
STATES: Final = ("succeed", "failed", "all")
"""PIP-195's values of the label ``state``; ``all`` is the sum of the others."""


class LatencyRanges:
    """For each type of operation, how many that succeeded took so long; none is in two ranges."""

    __slots__ = ("by_type",)

    def __init__(self) -> None:
        self.by_type: dict[str, list[int]] = {}
        """Of types that have happened."""

    def add(self, kind: str, took_ms: float, count: int) -> None:
        """Note operations that took so long."""
        ranges = self.by_type.setdefault(kind, [0] * len(QUANTILES))
        ranges[bisect_left(LATENCY_RANGES_MS, took_ms)] += count


class EffectAccount:
    """Where what becomes of effects is noted: those of one tracker, or of many together.

    Args:
        clock: measures.
        durations: where all note how long operations took, by type.
        shows_all: whether types of operations that have not happened are shown, too.
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
        """The types of operations that have happened, or are shown anyway."""
        counted = (kind for (kind, _), name in COUNTERS.items() if getattr(self.counters, name))
        happened = {*counted, *self.ranges.by_type}
        return [kind for kind in OPERATIONS if kind in happened]

    def begin(self) -> float:
        """When an operation begins; for :meth:`succeeded`."""
        return self._clock.elapsed_ms()

    def succeeded(self, kind: str, begun_ms: float, labels: Labels, *, count: int = 1) -> None:
        """Note that operations were carried out together.

        Args:
            kind: one of ``OPERATIONS``.
            begun_ms: before they waited for their turn.
            labels: what finds them in the log.
            count: how many buckets they were about.
        """
        took_ms = self._clock.elapsed_ms() - begun_ms
        durations = self._durations[kind]
        number = durations.observe(took_ms / 1_000, count)
        durations.exemplars[number] = Exemplar(labels, took_ms / 1_000, self._clock.now_ms())
        self.ranges.add(kind, took_ms, count)
