"""Keeps reads below a rate. No input and output: the clock is an argument."""

from collections.abc import Callable


class Throttle:
    """Rate of one reader.

    In any period of ``t`` seconds it lets through at most ``rate * t`` bytes and the last entry before its end.

    Args:
        bytes_per_second_max: the rate, from 1; None for no limit.
        clock: returns seconds that never go back.
    """

    def __init__(self, bytes_per_second_max: int | None, clock: Callable[[], float]) -> None:
        self.bytes_per_second_max = bytes_per_second_max
        self._clock = clock
        self._paid_until = clock()

    def take(self, count: int) -> float:
        """Count bytes that were read, and return the seconds to wait before the next ones are read."""
        if self.bytes_per_second_max is None:
            return 0.0
        now = self._clock()
        # Time in which nothing was read is not saved up: a reader that was idle does not burst.
        self._paid_until = max(self._paid_until, now) + count / self.bytes_per_second_max
        return self._paid_until - now
