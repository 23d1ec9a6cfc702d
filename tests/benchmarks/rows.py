"""Row of the report: a measurement beside the peer's number and the goal."""

import enum
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.goals import Peer, goal_of, peer_of
from tests.benchmarks.inputs.shapes import Shape
from tests.benchmarks.measure import Reading

HEADER = (
    "| what | shape | indexes | ours: median (lowest to highest) | CPU | peak memory | peer | ratio | goal | |\n"
    "| --- | --- | ---: | --- | ---: | ---: | --- | ---: | --- | --- |"
)


class Unit(enum.Enum):
    """Unit of a number."""

    NS_PER_INDEX = "ns per index"
    US_PER_CALL = "us per call"
    MS = "ms"
    BYTES_PER_INDEX = "bytes per index"
    MB = "MB"
    MILLION_PER_S = "M indexes/s"
    MILLION_ENTRIES_PER_S = "M entries/s"
    MB_PER_S = "MB/s"
    RATIO = "of the empty tracker's rate"
    SHARE = "of the rate without"
    TIMES_INFLATING = "times inflating alone"
    TIMES_READING = "times reading alone"
    TIMES_ONE_CORE = "times one core's rate"
    ENTRIES = "entries touched"
    COUNT = "in all"
    OF_A_CORE = "of a core"

    @property
    def more_is_better(self) -> bool:
        """True if a higher number is better."""
        return self in {
            Unit.MILLION_PER_S,
            Unit.MILLION_ENTRIES_PER_S,
            Unit.MB_PER_S,
            Unit.RATIO,
            Unit.SHARE,
            Unit.TIMES_ONE_CORE,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """A number with its spread.

    ``key`` names goal and peer in ``goals.py``; several rows may share one.
    """

    key: str
    what: str
    unit: Unit
    samples: tuple[float, ...]
    """One number for each repeat, not empty."""
    count: int
    """Indexes that were worked on, or that were pending."""
    shape: Shape | None = None
    cpu: float | None = None
    """Median processor time, in nanoseconds for each index."""
    peak_bytes: int | None = None
    """Peak memory above the start, over all repeats."""

    @property
    def median(self) -> float:
        """The number that is compared."""
        return statistics.median(self.samples)

    def ratio(self, peers: dict[str, Peer]) -> float | None:
        """Return the factor by which the row is better than the peer; None without one."""
        peer = peer_of(self.key, self.shape, peers)
        if peer is None or not peer.value or not self.median:
            return None
        return self.median / peer.value if self.unit.more_is_better else peer.value / self.median

    def is_met(self, peers: dict[str, Peer]) -> bool | None:
        """Return True if the goal is reached; None if there is none, or if it needs a peer that was not measured."""
        goal = goal_of(self.key, self.shape)
        if goal is None:
            return None
        met = True
        if goal.value is not None:
            met = self.median >= goal.value if self.unit.more_is_better else self.median <= goal.value
        if goal.times_peer is None:
            return met
        ratio = self.ratio(peers)
        return None if ratio is None else met and ratio >= goal.times_peer

    def markdown(self, peers: dict[str, Peer]) -> str:
        """Return the row of a table under ``HEADER``."""
        peer, ratio, goal = peer_of(self.key, self.shape, peers), self.ratio(peers), goal_of(self.key, self.shape)
        wanted = []
        if goal is not None and goal.value is not None:
            wanted.append(f"{'>=' if self.unit.more_is_better else '<='} {_number(goal.value)}")
        if goal is not None and goal.times_peer is not None:
            wanted.append(f"{goal.times_peer:g} x peer")
        cells = (
            self.what,
            self.shape.value if self.shape else "",
            f"{self.count:,}",
            f"{self._spread()} {self.unit.value}",
            f"{_number(self.cpu)} ns" if self.cpu is not None else "",
            f"{self.peak_bytes / 1e6:,.1f} MB" if self.peak_bytes is not None else "",
            f"{_number(peer.value)} ({peer.name}, {'this run' if peer.is_measured else 'stated'})" if peer else "",
            f"{ratio:.2g} x" if ratio is not None else "",
            ", ".join(wanted),
            {None: "", True: "met", False: "**not met**"}[self.is_met(peers)],
        )
        return "| " + " | ".join(cells) + " |"

    def __str__(self) -> str:
        shape = f", {self.shape.value}" if self.shape else ""
        return f"{self.what}{shape}, {self.count:,}: {self._spread()} {self.unit.value}"

    def _spread(self) -> str:
        if len(self.samples) == 1:
            return _number(self.median)
        return f"{_number(self.median)} ({_number(min(self.samples))} to {_number(max(self.samples))})"


def per_index(key: str, what: str, readings: Sequence[Reading], count: int, shape: Shape | None = None) -> Row:
    """Return a row of wall time for each index."""
    return Row(
        key,
        what,
        Unit.NS_PER_INDEX,
        tuple(reading.wall_ns / count for reading in readings),
        count,
        shape,
        cpu=_cpu(readings, count),
        peak_bytes=_peak(readings),
    )


def per_second(
    key: str,
    what: str,
    readings: Sequence[Reading],
    count: int,
    shape: Shape | None = None,
    *,
    unit: Unit = Unit.MILLION_PER_S,
) -> Row:
    """Return a row of a rate, in millions a second."""
    return Row(
        key,
        what,
        unit,
        tuple(count * 1e3 / reading.wall_ns for reading in readings),
        count,
        shape,
        cpu=_cpu(readings, count),
        peak_bytes=_peak(readings),
    )


def _cpu(readings: Sequence[Reading], count: int) -> float:
    return statistics.median(reading.cpu_ns / count for reading in readings)


def _peak(readings: Sequence[Reading]) -> int:
    return max(reading.peak_bytes for reading in readings)


def _number(value: float) -> str:
    """Return a number with three significant digits."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"
