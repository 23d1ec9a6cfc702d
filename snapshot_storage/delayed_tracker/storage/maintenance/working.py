"""Repeats operations on a storage that is unavailable for a moment."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from delayed_tracker.storage.errors import StorageUnavailable

Answer = TypeVar("Answer")

ATTEMPTS_MAX: Final = 5
"""Attempts of an operation while the storage is unavailable; backends and their SDKs do not retry."""
BACKOFF_S: Final = 0.2
"""Mean pause before the second attempt; it doubles with each further one."""

Progress = Callable[[int, int], None]
"""Called with the amount done and the total, which may grow; each job documents its unit."""
Sleep = Callable[[float], Awaitable[None]]


class Retries:
    """Repeats operations while the storage is unavailable; an ``Attempt``.

    Args:
        sleep: waits, in seconds.
        chance: source of random pauses, so that operations that failed together do not retry together.
    """

    def __init__(self, *, sleep: Sleep = asyncio.sleep, chance: random.Random | None = None) -> None:
        self._sleep = sleep
        self._chance = chance or random.SystemRandom()

    async def __call__(self, operation: Callable[[], Awaitable[Answer]], /) -> Answer:
        """Perform an idempotent operation. Raises StorageUnavailable if the last attempt failed."""
        for attempt in range(1, ATTEMPTS_MAX):
            try:
                return await operation()
            except StorageUnavailable:
                await self._sleep(BACKOFF_S * 2 ** (attempt - 1) * self._chance.uniform(0.5, 1.5))
        return await operation()
