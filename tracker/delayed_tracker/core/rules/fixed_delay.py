"""Fixed-delay detection: if all messages have the same delay, they become due in the order in which they are read.

Then a dispatcher need not read its whole backlog into the tracker. Once enough positions are tracked, it may pause
until the first of them is due: no later message can be due earlier. The result is a hint; nothing else depends on it.

Source: Pulsar's ``InMemoryDelayedDeliveryTracker`` (apache/pulsar #17907,
``delayedDeliveryFixedDelayDetectionLookahead``).
"""

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns


class FixedDelayDetector:
    """Detects if every deadline so far came in order, with a tolerance of one tick.

    It assumes so at the start. The assumption ends with a deadline more than a tick below the highest one, or with an
    offer that is already due (the message had no delay, or another one). It is restored when the tracker is empty.

    Args:
        lookahead: number of waiting positions that makes a pause worthwhile, >= 1.
        tick_ms: tolerance for a deadline below the highest one.
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
        """Restore the assumption if the tracker has just become empty. O(1)."""
        is_empty = not tracked_count
        if is_empty and not self._was_empty:
            self._forget()
        self._was_empty = is_empty

    def note_offered(self, accepted: IndexColumns, *, any_due: bool) -> None:
        """Record accepted rows, in the order of their offer; ``any_due`` is True if others were due.

        O(n), O(1) once out of order.
        """
        if any_due:
            self._in_order = False
        if not self._in_order or not len(accepted):
            return
        highest = np.maximum.accumulate(np.concatenate(([self._highest_ms], accepted.deliver_at_ms)))
        self._in_order = bool((accepted.deliver_at_ms >= highest[:-1] - self._tick_ms).all())
        self._highest_ms = int(highest[-1])

    def enough_wait(self, waiting_count: int) -> bool:
        """Return True if reading more is pointless until one of the waiting positions is due."""
        return self._in_order and waiting_count >= self._lookahead
