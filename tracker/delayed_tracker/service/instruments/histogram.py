"""Cumulative histograms of single values or of sorted columns, with the last exemplar of each range.

They have one owner and no lock: all measurements are made on the event loop.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.service.instruments.family import Format, label, number

EXEMPLAR_CHARACTERS_MAX: Final = 128
"""Limit of OpenMetrics for the names and values of an exemplar's labels together."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One observation of a range, with labels that identify it elsewhere."""

    labels: Labels
    value: float
    at_ms: int

    def render(self) -> str:
        """Return the text behind a sample. Labels that do not fit are left out, from the end."""
        fitting, left = [], EXEMPLAR_CHARACTERS_MAX
        for name, value in self.labels:
            left -= len(name) + len(value)
            if left < 0:
                break
            fitting.append(label(name, value))
        return f" # {{{','.join(fitting)}}} {number(self.value)} {self.at_ms / 1_000:.3f}"


class Histogram:
    """Counts of observations at or below each bound, and their sum.

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
        """Count of each range alone; the last range is above all bounds."""
        return self._counts

    def observe(self, value: float, count: int = 1) -> int:
        """Record a value ``count`` times, and return the number of its range."""
        place = bisect_left(self.bounds, value)
        self._counts[place] += count
        self.sum += value * count
        return place

    def filled(self, counts: list[int], total: float) -> "Histogram":
        """Replace the counts and the sum by values computed elsewhere, and return the histogram."""
        self._counts, self.sum = counts, total
        return self

    def lines(self, name: str, labels: str, form: Format) -> Iterator[bytes]:
        """Yield the cumulative samples. ``labels`` are those beside ``le``, in the text format."""
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
    """Histogram of the seconds between deadlines and hand-outs of indexes, for sorted columns.

    It counts the values above each bound, which one search in a column gives.
    """

    __slots__ = ("_count", "_edges_ms", "_histogram", "_later", "_sum_ms")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._histogram = Histogram(bounds)
        self._edges_ms = np.array([round(bound * 1_000) for bound in reversed(bounds)], np.int64)
        self._later = np.zeros(len(bounds), np.int64)
        self._count = 0
        self._sum_ms = 0

    def observe(self, deliver_at_ms: Int64Array, now_ms: int, labels: Labels) -> None:
        """Record the indexes that were handed out at one moment.

        Args:
            deliver_at_ms: ascending deadlines, at least one; those in the future count as not late.
            now_ms: time of the hand-out.
            labels: identify the first index, which is the latest.
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
        """Return the histogram with the present counts."""
        return self._histogram.filled(
            np.diff(self._later, prepend=0, append=self._count)[::-1].tolist(), self._sum_ms / 1_000
        )
