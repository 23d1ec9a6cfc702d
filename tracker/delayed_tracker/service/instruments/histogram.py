"""A cumulative histogram, observed one by one or a sorted column at a time; with the last exemplar of each range.

One owner, no lock: everything that is measured here is measured on the event loop.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.service.instruments.family import Format, label, number

EXEMPLAR_CHARACTERS_MAX: Final = 128
"""What OpenMetrics allows for names and values of an exemplar's labels together."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One observation of a range, with what finds it elsewhere."""

    labels: Labels
    value: float
    at_ms: int

    def render(self) -> str:
        """As it stands behind a sample; labels that no longer fit are left out, the last first."""
        fitting, left = [], EXEMPLAR_CHARACTERS_MAX
        for name, value in self.labels:
            left -= len(name) + len(value)
            if left < 0:
                break
            fitting.append(label(name, value))
        return f" # {{{','.join(fitting)}}} {number(self.value)} {self.at_ms / 1_000:.3f}"


class Histogram:
    """Counts of observations at or below each of the bounds, and their sum.

    Args:
        bounds: ascending; a last range without an end is added.
    """

    __slots__ = ("_counts", "bounds", "exemplars", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.exemplars: list[Exemplar | None] = [None] * len(self._counts)
        self.sum = 0.0

    @property
    def counts(self) -> Sequence[int]:
        """For each range alone, the last one above all bounds."""
        return self._counts

    def observe(self, value: float, count: int = 1) -> int:
        """Note a value, so many times; returns the place of its range."""
        place = bisect_left(self.bounds, value)
        self._counts[place] += count
        self.sum += value * count
        return place

    def filled(self, counts: list[int], total: float) -> "Histogram":
        """Itself, with counts that were made elsewhere."""
        self._counts, self.sum = counts, total
        return self

    def lines(self, name: str, labels: str, form: Format) -> Iterator[bytes]:
        """The samples, cumulative; ``labels`` are those beside ``le``, as they are written."""
        prefix = f"{labels}," if labels else ""
        shows = form is Format.OPENMETRICS
        total = 0
        for bound, count, exemplar in zip((*self.bounds, float("inf")), self.counts, self.exemplars, strict=True):
            total += count
            behind = exemplar.render() if shows and exemplar is not None else ""
            yield f'{name}_bucket{{{prefix}le="{number(float(bound))}"}} {total}{behind}\n'.encode()
        braces = f"{{{labels}}}" if labels else ""
        yield f"{name}_sum{braces} {number(self.sum)}\n{name}_count{braces} {total}\n".encode()


class LatenessHistogram:
    """How long after their deadlines indexes were handed out, in seconds: a histogram that takes sorted columns.

    It keeps how many were later than each bound, which a column tells in one look.
    """

    __slots__ = ("_count", "_edges_ms", "_histogram", "_later", "_sum_ms")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._histogram = Histogram(bounds)
        self._edges_ms = np.array([round(bound * 1_000) for bound in reversed(bounds)], np.int64)
        self._later = np.zeros(len(bounds), np.int64)
        self._count = 0
        self._sum_ms = 0

    def observe(self, deliver_at_ms: Int64Array, now_ms: int, labels: Labels) -> None:
        """Note what was handed out at one moment.

        Args:
            deliver_at_ms: ascending deadlines, at least one; those that are still ahead count as not late.
            now_ms: when they were handed out.
            labels: what finds the first of them, which is the latest.
        """
        self._count += len(deliver_at_ms)
        # A deadline before now - bound is later than the bound.
        self._later += deliver_at_ms.searchsorted(now_ms - self._edges_ms)
        late = deliver_at_ms
        if int(late[-1]) > now_ms:
            late = late[: int(late.searchsorted(now_ms, side="right"))]
        self._sum_ms += len(late) * now_ms - int(late.sum())
        latest_s = max(now_ms - int(deliver_at_ms[0]), 0) / 1_000
        self._histogram.exemplars[bisect_left(self._histogram.bounds, latest_s)] = Exemplar(labels, latest_s, now_ms)

    def histogram(self) -> Histogram:
        """All of it, as it is now."""
        return self._histogram.filled(
            np.diff(self._later, prepend=0, append=self._count)[::-1].tolist(), self._sum_ms / 1_000
        )
