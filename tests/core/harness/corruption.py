"""Ways to corrupt one thing of a busy tracker; the name of each says what, and is the name of its test."""

from collections.abc import Callable

from delayed_tracker.core.values.columns import PositionColumns
from tests.core.harness.busy_tracker import BusyTracker

Corruption = Callable[[BusyTracker], object]


class Corruptions(dict[str, Corruption]):
    """By name."""

    def add(self, function: Corruption) -> Corruption:
        """A decorator."""
        self[function.__name__] = function
        return function


def one(ledger: int, entry: int) -> PositionColumns:
    return PositionColumns.of([(ledger, entry)])
