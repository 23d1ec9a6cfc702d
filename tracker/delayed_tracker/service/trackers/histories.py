"""Readings of one tracker that take several steps, and must not mix what was tracked before and after a barrier."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from delayed_tracker.service.errors import ServiceError


class History:
    """Time of a tracker from one barrier to the next: clear, reset, import, close, or another owner."""

    __slots__ = ("_ended",)

    def __init__(self) -> None:
        self._ended: ServiceError | None = None

    def require(self) -> None:
        """Raise the error that ended the history: PollEnded, ShuttingDown or TrackerBroken."""
        if self._ended is not None:
            raise self._ended

    def end(self, error: ServiceError) -> None:
        """End the history; the first error counts."""
        self._ended = self._ended or error


class Histories:
    """Readings of one tracker."""

    __slots__ = ("_readings",)

    def __init__(self) -> None:
        # A tuple: an empty list of its own would cost each idle tracker 56 bytes.
        self._readings: tuple[History, ...] = ()

    @contextmanager
    def follow(self) -> Iterator[History]:
        """Yield the present history, which a barrier ends."""
        history = History()
        self._readings = (*self._readings, history)
        try:
            yield history
        finally:
            self._readings = tuple(other for other in self._readings if other is not history)

    def end_all(self, error: Callable[[], ServiceError]) -> None:
        """End the history of every reading, each with a new error."""
        for history in self._readings:
            history.end(error())
