"""Decides how much is asked of bookies at a time, by how they answer. No input and output.

Brokers read and write at the same bookies, and come first. So the bytes on their way grow slowly while bookies answer fast,
shrink to a half when they are slow, and reading stops for a while when one refuses requests or leaves them unanswered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from delayed_tracker.bookkeeper.stats import BookieStats

BYTES_AHEAD_MAX: Final = 4 * 2**20
"""Bytes that are asked for at a time while bookies answer fast."""
BYTES_AHEAD_MIN: Final = 64 * 2**10
SLOW_S: Final = 0.25
"""Mean time of an answer from which a bookie is slow. Pulsar's reads take a few milliseconds on a healthy one."""
PAUSE_MIN_S: Final = 0.1
PAUSE_MAX_S: Final = 10.0
_READS: Final = ("READ_ENTRY", "READ_BATCH")
_OVERLOADED: Final = frozenset({"TOO_MANY_REQUESTS", "BOOKIE_TIMED_OUT", "BOOKIE_TOO_MANY_IN_FLIGHT"})


@dataclass(frozen=True, slots=True)
class Answers:
    """Counts of answers to reads."""

    answered: int = 0
    overloaded: int = 0
    """Reads that a bookie refused because it has too many, or did not answer."""
    latency_s: float = 0.0
    """Sum of the seconds of those answered."""

    @classmethod
    def of(cls, stats: Iterable[BookieStats]) -> "Answers":
        """Return the counts of all bookies together."""
        reads = [one.operations[name] for one in stats for name in _READS if name in one.operations]
        overloaded = sum(_count(read.outcomes) for read in reads)
        return cls(sum(sum(read.latencies) for read in reads), overloaded, sum(read.latency_s for read in reads))

    def since(self, earlier: "Answers") -> "Answers":
        """Return the counts of the time after ``earlier``."""
        return Answers(
            self.answered - earlier.answered,
            self.overloaded - earlier.overloaded,
            self.latency_s - earlier.latency_s,
        )


def _count(outcomes: Mapping[str, int]) -> int:
    return sum(count for outcome, count in outcomes.items() if outcome in _OVERLOADED)


class Pace:
    """Bytes to ask for at a time, and pauses between them."""

    def __init__(self) -> None:
        self.bytes_ahead = BYTES_AHEAD_MIN
        """``BYTES_AHEAD_MIN`` to ``BYTES_AHEAD_MAX``."""
        self.pause_s = 0.0
        """Seconds to wait before the next entries; 0 while no bookie is overloaded."""

    def note(self, answers: Answers) -> None:
        """Take the answers of the last entries into account."""
        if answers.overloaded:
            self.back_off()
            return
        self.pause_s = 0.0
        if not answers.answered:
            return
        if answers.latency_s / answers.answered >= SLOW_S:
            self.bytes_ahead = max(self.bytes_ahead // 2, BYTES_AHEAD_MIN)
        else:
            self.bytes_ahead = min(self.bytes_ahead * 2, BYTES_AHEAD_MAX)

    def back_off(self) -> None:
        """Wait twice as long as after the failure before, from 0.1 s to 10 s, and ask for half as much."""
        self.pause_s = min(max(2 * self.pause_s, PAUSE_MIN_S), PAUSE_MAX_S)
        self.bytes_ahead = max(self.bytes_ahead // 2, BYTES_AHEAD_MIN)
