"""Counts what one bookie was asked and what it answered."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

LATENCY_BOUNDS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper ends of the steps in which latencies are counted, in seconds; one more step has all above."""


BOOKIES_MAX: Final = 32
"""Bookies with counts of their own. When another one comes, those without a connection are forgotten; if that is not
enough, it is counted under ``OTHERS``."""
OTHERS: Final = "others"
OUTCOMES_MAX: Final = 24
"""Outcomes of an operation that are told apart; a bookie may answer any number as status. Others are ``OTHER_OUTCOME``."""
OTHER_OUTCOME: Final = "OTHER"


@dataclass(frozen=True, slots=True)
class OperationStats:
    """Counts of one kind of request to one bookie, since the client was made."""

    outcomes: Mapping[str, int]
    """Requests by the status of their reply (``OK``, ``FENCED``), or by the reason of the error that stood in its place
    (``BOOKIE_TIMED_OUT``)."""
    sent_bytes: int
    """Bytes of the requests with an outcome."""
    received_bytes: int
    """Bytes of the entries in their replies."""
    latency_s: float
    """Sum of the seconds from sending to reply, of the requests with a reply."""
    latencies: tuple[int, ...]
    """Requests with a reply, by step of ``LATENCY_BOUNDS_S``."""


@dataclass(frozen=True, slots=True)
class BookieStats:
    """Counts of one bookie at one moment."""

    bookie: str
    operations: Mapping[str, OperationStats]
    """By name of the operation: ``ADD_ENTRY``, ``READ_ENTRY``, ``READ_BATCH``, ``WRITE_LAC``, ``READ_LAC``, ``START_TLS``."""
    connections: int
    """Attempts to connect."""
    replacements: int
    """Times that another bookie took its place in the ensemble of a ledger that was being written."""
    requests_in_flight: int
    """Requests without a reply now."""
    bytes_in_flight: int
    """Bytes of these requests."""


@dataclass(slots=True)
class _Counts:
    outcomes: Counter[str] = field(default_factory=Counter)
    sent_bytes: int = 0
    received_bytes: int = 0
    latency_s: float = 0.0
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_S) + 1))


class BookieCounters:
    """The running counts of one bookie."""

    def __init__(self) -> None:
        self.connections = 0
        self.replacements = 0
        self._operations: dict[str, _Counts] = {}

    def answered(
        self, operation: str, status: str, sent_bytes: int, received_bytes: int, latency_s: float, *, count: int = 1
    ) -> None:
        """Count requests with replies: their bytes in all, and the latency of each."""
        counts = self._counts(operation)
        _add_outcome(counts.outcomes, status, count)
        counts.sent_bytes += sent_bytes
        counts.received_bytes += received_bytes
        counts.latency_s += latency_s * count
        counts.latencies[bisect_left(LATENCY_BOUNDS_S, latency_s)] += count

    def failed(self, operation: str, reason: str, sent_bytes: int) -> None:
        """Count a request that an error ended."""
        counts = self._counts(operation)
        _add_outcome(counts.outcomes, reason, 1)
        counts.sent_bytes += sent_bytes

    def read(self, bookie: str, requests_in_flight: int, bytes_in_flight: int) -> BookieStats:
        """Return the counts of now."""
        operations = {
            name: OperationStats(
                dict(counts.outcomes),
                counts.sent_bytes,
                counts.received_bytes,
                counts.latency_s,
                tuple(counts.latencies),
            )
            for name, counts in self._operations.items()
        }
        return BookieStats(bookie, operations, self.connections, self.replacements, requests_in_flight, bytes_in_flight)

    def _counts(self, operation: str) -> _Counts:
        counts = self._operations.get(operation)
        if counts is None:
            counts = self._operations[operation] = _Counts()
        return counts


def _add_outcome(outcomes: Counter[str], outcome: str, count: int) -> None:
    if outcome not in outcomes and len(outcomes) >= OUTCOMES_MAX:
        outcome = OTHER_OUTCOME
    outcomes[outcome] += count
