"""Shared access to one storage: slots, worker threads and retries.

Only this module retries. Retries are bounded, with jitter from an injected random source; backends and their SDKs do
not retry.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from typing import Final, ParamSpec, TypeVar

from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.load_lead import LoadLead
from delayed_tracker.service.storage.turns import Turns
from delayed_tracker.service.telemetry.storage_log import FailureLog
from delayed_tracker.storage.add_log import AddLog, require_log_id
from delayed_tracker.storage.capabilities import entry_bytes_max
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import NO_LOG, SnapshotStore

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

_STORES_BESIDES: Final = 2
"""Buckets sorted, encoded and stored at a time, besides those of one tracker, which may hang. All of 80 trackers that seal
together would be in memory twice.
"""
_STORE_LOOK_MS: Final = 1_000
"""A bucket that takes longer waits for its storage, and others begin beside it."""


class StorageAccess:
    """Access to one storage, shared by all trackers.

    ``load_slots`` bounds how many loads use the storage at once, ``slots`` the other effects, and ``store_turns`` those
    that store a bucket. ``failures`` logs storage failures. A log that ``log_is_apart`` belongs to this instance, and not
    to the storage.
    """

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
        log: AddLog | None = None,
        logs_changes: bool = True,
        log_is_apart: bool = False,
    ) -> None:
        self.storage = storage
        self.log = log
        """The add log beside the storage; None if there is none."""
        self.logs_changes = log is not None and logs_changes
        """False if an add log of earlier is only read, and emptied."""
        self.log_id = ""
        """Id of the log as catalogues record it; empty if it is the storage's own, ``NO_LOG`` if there is none."""
        self._log_is_apart = log_is_apart
        self.loads = loads
        """Budget of the snapshot rows in memory."""
        self._load_lead = LoadLead(loads)
        loads_max = max(1, limits.storage_operations_max // 2)
        # Apart, so that loads of due segments never wait for merges, each of which reads for seconds.
        self.load_slots = asyncio.Semaphore(loads_max)
        self.slots = asyncio.Semaphore(max(1, limits.storage_operations_max - loads_max))
        self.store_turns = Turns(limits.tracker_operations_max + _STORES_BESIDES, _STORE_LOOK_MS, clock)
        """Turns of the effects that store a bucket."""
        self.writer = f"{rng.getrandbits(64):016x}"
        """Name of this process in catalogues.

        It distinguishes an epoch of this process from the same epoch of another one.
        """
        self.failures = FailureLog(clock, retry_ms=retry_ms)
        self.retry_ms = retry_ms
        """Pause before the service repeats what failed after all attempts, in milliseconds."""
        self._limits = limits
        self._clock = clock
        self._rng = rng
        self._workers = workers

    @property
    def entry_bytes_max(self) -> int | None:
        """Bytes of the largest entry that the storage takes; None without a maximum."""
        return entry_bytes_max(self.storage)

    def load_succeeded(self, begun_ms: float) -> None:
        """Record that a load has succeeded that was requested at this time of the clock's elapsed milliseconds."""
        self._load_lead.took(self._clock.elapsed_ms() - begun_ms)

    async def start(self) -> None:
        """Start the storage and its log. Raises the errors of their starts."""
        await self.storage.start()
        if self.log is None:
            self.log_id = NO_LOG
            return
        await self.log.start()
        if self._log_is_apart:
            self.log_id = await self.log.log_id()
            require_log_id(self.log_id)

    async def offload(
        self, function: Callable[Arguments, Answer], *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Answer:
        """Run a pure function in a worker thread.

        Use it for work that would block the event loop for more than a millisecond.
        """
        future = self._workers.submit(function, *args, **kwargs)
        return await asyncio.wrap_future(future)

    async def attempt(
        self,
        operation: Callable[[], Awaitable[Answer]],
        counters: EffectCounters,
        *,
        give_up: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """Perform an idempotent operation, and repeat it if the storage is unavailable.

        Args:
            operation: makes the call; called once for each attempt.
            counters: each retry is counted here.
            give_up: called before each retry; no retry follows if it returns True.
        Raises:
            StorageUnavailable: the last attempt failed. Any of the attempts may have had an effect.
        """
        backoff_ms = float(self._limits.storage_backoff_ms)
        for attempts_left in reversed(range(self._limits.storage_attempts_max)):
            try:
                return await operation()
            except StorageUnavailable:
                if not attempts_left or give_up():
                    raise
            counters.storage_retries += 1
            # A random part, from half to all of the backoff, so that trackers that failed together do not retry
            # together.
            await pause(self._clock, backoff_ms * (0.5 + self._rng.random() / 2))
            backoff_ms *= 2
        raise AssertionError("the last attempt returns or raises")
