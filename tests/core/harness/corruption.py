"""Corruptions of one part of a busy tracker; the name of each describes it and names its test."""

from collections.abc import Callable

from delayed_tracker.core.values.columns import PositionColumns
from tests.core.harness.busy_tracker import BusyTracker

Corruption = Callable[[BusyTracker], object]


class Corruptions(dict[str, Corruption]):
    """Corruptions by name."""

    def add(self, function: Corruption) -> Corruption:
        """Register a corruption; a decorator."""
        self[function.__name__] = function
        return function


def one(ledger: int, entry: int) -> PositionColumns:
    return PositionColumns.of([(ledger, entry)])
