"""Fixed-delay detection: when all messages have the same delay, they fall due in the order they are read.

Then a dispatcher need not read its whole backlog into the tracker: once enough is tracked it may pause until the first
of that is due, and nothing behind can be due earlier. It is a hint, and nothing else depends on it.

Source: Pulsar's ``InMemoryDelayedDeliveryTracker`` (apache/pulsar #17907, ``delayedDeliveryFixedDelayDetectionLookahead``).
"""

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns


class FixedDelayDetector:
    """Whether every deadline came in order so far, give or take a tick.

    It believes so from the start. A deadline more than a tick below the highest seen, or an offer that is due already
    (the message was not delayed, or not by the same), refutes it until the tracker has been emptied.

    Args:
        lookahead: how many must wait before a pause is worth while, >= 1.
        tick_ms: how far a deadline may fall back.
    """

    __slots__ = ("_highest_ms", "_in_order", "_lookahead", "_tick_ms", "_was_empty")

    def __init__(self, *, lookahead: int, tick_ms: int) -> None:
        self._lookahead = lookahead
        self._tick_ms = tick_ms
        self._was_empty = True
        self._forget()

    def _forget(self) -> None:
        self._in_order = True
        self._highest_ms = 0

    def note_tracked(self, tracked_count: int) -> None:
        """Begin anew if the tracker has just been emptied. O(1)."""
        is_empty = not tracked_count
        if is_empty and not self._was_empty:
            self._forget()
        self._was_empty = is_empty

    def note_offered(self, accepted: IndexColumns, *, any_due: bool) -> None:
        """Rows were given deadlines, in this order; others may have been due. O(n), and O(1) once it is refuted."""
        if any_due:
            self._in_order = False
        if not self._in_order or not len(accepted):
            return
        highest = np.maximum.accumulate(np.concatenate(([self._highest_ms], accepted.deliver_at_ms)))
        self._in_order = bool((accepted.deliver_at_ms >= highest[:-1] - self._tick_ms).all())
        self._highest_ms = int(highest[-1])

    def enough_wait(self, waiting_count: int) -> bool:
        """Whether reading on is pointless until one of those that wait is due."""
        return self._in_order and waiting_count >= self._lookahead
