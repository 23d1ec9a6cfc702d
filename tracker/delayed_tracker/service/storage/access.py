"""One storage as all trackers share it: slots, worker threads and retries.

Retries live here only, bounded, with jitter from an injected random source; backends and their SDKs make none.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import ParamSpec, TypeVar

from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.telemetry.failures import TroubleLog
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import SnapshotStore

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")


class StorageAccess:
    """The way to one storage. ``slots`` bounds how many effects use it at once; ``trouble`` tells what fails."""

    def __init__(
        self,
        storage: SnapshotStore,
        limits: ServiceLimits,
        *,
        clock: Clock,
        rng: random.Random,
        workers: Executor,
        loads: LoadBudget,
        retry_ms: int = 1_000,
    ) -> None:
        self.storage = storage
        self.loads = loads
        """Rows that were read and are in memory."""
        self.slots = asyncio.Semaphore(limits.storage_operations_max)
        self.writer = f"{rng.getrandbits(64):016x}"
        """Under this name this process writes to catalogues: an epoch that another process recorded is not ours."""
        self.trouble = TroubleLog(clock, retry_ms=retry_ms)
        self._limits = limits
        self._clock = clock
        self._rng = rng
        self._workers = workers

    async def offload(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """Run a pure function in a worker thread: for what would hold the event loop for more than a millisecond."""
        future = self._workers.submit(function, *args, **kwargs)
        return await asyncio.wrap_future(future)

    async def attempt(
        self,
        operation: Callable[[], Awaitable[Answer]],
        counters: EffectCounters,
        *,
        give_up: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """Perform an operation that may be repeated, again if the storage is unavailable.

        Args:
            operation: makes the call anew each time.
            counters: where repetitions are counted.
            give_up: asked before each repetition; true ends them.
        Raises:
            StorageUnavailable: the last attempt's; it is not known whether an attempt had an effect.
        """
        backoff_ms = float(self._limits.storage_backoff_ms)
        for attempts_left in reversed(range(self._limits.storage_attempts_max)):
            try:
                return await operation()
            except StorageUnavailable:
                if not attempts_left or give_up():
                    raise
            counters.storage_retries += 1
            # Between half and the whole of it, so that trackers that failed together do not return together.
            await pause(self._clock, backoff_ms * (0.5 + self._rng.random() / 2))
            backoff_ms *= 2
        raise AssertionError("the last attempt returns or raises")
