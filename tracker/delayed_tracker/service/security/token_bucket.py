"""A rate with a burst of one second, as a bucket of tokens that may be overdrawn."""

import math
from typing import Final

BURST_SECONDS: Final = 1


class TokenBucket:
    """Tokens that come at a fixed rate. Who takes more than there are leaves a debt, which later callers wait for.

    So the size of what is taken need not be known before, and the average is the rate whatever the sizes are.

    Args:
        per_second: tokens that come in a second, 1 or more; the bucket holds as many.
        now_ms: elapsed milliseconds of a clock that is never set, in all calls.
    """

    __slots__ = ("_at_ms", "_per_ms", "_tokens", "_tokens_max")

    def __init__(self, per_second: int, now_ms: float) -> None:
        self._per_ms = per_second / 1_000
        self._tokens_max = float(per_second * BURST_SECONDS)
        self._tokens = self._tokens_max
        self._at_ms = now_ms

    def wait_ms(self, now_ms: float) -> int:
        """Return the milliseconds until there is a token; 0 if there is one."""
        self._refill(now_ms)
        return 0 if self._tokens >= 1 else math.ceil((1 - self._tokens) / self._per_ms)

    def take(self, count: int, now_ms: float) -> None:
        """Take tokens, also those that have not come yet."""
        self._refill(now_ms)
        self._tokens -= count

    def _refill(self, now_ms: float) -> None:
        self._tokens = min(self._tokens + (now_ms - self._at_ms) * self._per_ms, self._tokens_max)
        self._at_ms = now_ms
