"""Brings trackers into memory, in turns: recovers those that are opened, and brings unloaded ones back.

All callers of one tracker share one task, which continues if a caller goes away. ``storage/turns`` has the order.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context
from typing import Final, Protocol

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.errors import Fenced, TrackerKey
from delayed_tracker.service.storage.recovery import TrackerRecovery
from delayed_tracker.service.storage.turns import Turns
from delayed_tracker.service.telemetry.storage_log import RECOVERY_FAILED, RELOAD_FAILED
from delayed_tracker.service.trackers.components import HostState, SharedComponents
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.log_keeper import LogKeeper
from delayed_tracker.service.trackers.tracker_events import TrackerEvents
from delayed_tracker.service.trackers.unloading import IdleTrackers

RECOVERIES_AT_ONCE: Final = 16
"""Recoveries under way at a time: their commits in SQLite are one, and so are wake-ups of the loop, so that the first of many
takes as long as with 2, and all of them less than half as long. See ``storage/turns``."""
_LOOK_MS: Final = 30
"""A recovery that takes longer waits for its storage, and others begin beside it."""


class Hosts(Protocol):
    """Open trackers, as far as their recoveries are concerned."""

    def forget(self, host: TrackerHost) -> None:
        """Remove a tracker that was not recovered."""
        ...

    def fenced(self, key: TrackerKey) -> None:
        """Close a tracker that another process owns."""
        ...

    def is_closing(self, key: TrackerKey) -> bool:
        """Return True if the tracker is being closed."""
        ...


class Recoveries:
    """Recoveries and returns under way, and those that wait for their turn.

    Args:
        shared: components of all trackers.
        limits: settings of every tracker's core.
        events: log of what happens to trackers.
        hosts: the open trackers.
        log_keeper: learns the size of the records of each tracker; None without an add log.
        idle: the unloaded trackers; None without an add log.
        outcome: returns the result of a task that callers share.
    """

    def __init__(
        self,
        shared: SharedComponents,
        limits: TrackerLimits,
        events: TrackerEvents,
        *,
        hosts: Hosts,
        log_keeper: LogKeeper | None,
        idle: IdleTrackers | None,
        outcome: Callable[[asyncio.Task[None]], Awaitable[None]],
    ) -> None:
        self._shared = shared
        self._limits = limits
        self._events = events
        self._hosts = hosts
        self._log_keeper = log_keeper
        self._idle = idle
        self._outcome = outcome
        self._turns = Turns(RECOVERIES_AT_ONCE, _LOOK_MS, shared.clock)
        self._recoveries: dict[TrackerKey, asyncio.Task[None]] = {}
        self._reloads: dict[TrackerHost, asyncio.Task[None]] = {}
        """Returns by host: that of a tracker that was closed meanwhile may hang, and is not for its next host."""

    @property
    def recovering_count(self) -> int:
        """Trackers being recovered now, or waiting for it."""
        return len(self._recoveries)

    def tasks(self) -> list[asyncio.Task[None]]:
        """Return the recoveries and the returns."""
        return [*self._recoveries.values(), *self._reloads.values()]

    def is_recovering(self, key: TrackerKey) -> bool:
        """Return True if a tracker is being recovered, or waits for it."""
        return key in self._recoveries

    async def until_over(self, host: TrackerHost) -> None:
        """Return when the recovery of a tracker has ended, which may have failed. A call waits for it."""
        self._turns.ask(host)
        await asyncio.wait([self._recoveries[host.key]])

    def ask(self, host: TrackerHost) -> None:
        """Let a tracker go first: a call has asked for it."""
        self._turns.ask(host)

    async def until_ready(self, host: TrackerHost) -> None:
        """Return when a tracker is in memory, or closed because another process owns it.

        Raises: the error of the recovery.
        """
        if (recovery := self._recoveries.get(host.key)) is not None:
            with self._turns.awaited(host):
                await self._outcome(recovery)
        if host.state is HostState.UNLOADED:
            reload = self.bring_back(host)
            with suppress(Fenced), self._turns.awaited(host):
                await self._outcome(reload)

    # -- recoveries ---------------------------------------------------------------------------------------------------

    def begin(self, host: TrackerHost, mark_delete: Position | None) -> None:
        """Recover a tracker that is new in this process."""
        self._turns.join(host)
        task = asyncio.get_running_loop().create_task(self._recover(host, mark_delete))
        self._recoveries[host.key] = task
        task.add_done_callback(lambda task: self._recovery_ended(host, task))

    async def _recover(self, host: TrackerHost, mark_delete: Position | None) -> None:
        recovery = TrackerRecovery(host.key, self._shared.access, host.counters)
        await self._turns.until_turn(host)
        with self._shared.instruments.recoveries.measured(), self._events.recovering(host, recovery):
            core = await recovery.run(self._limits, mark_delete=mark_delete, now=host.now())
            if self._log_keeper is not None:
                self._log_keeper.opened(host.key, recovery.log_bytes)
            host.ownership.add_log_missing = recovery.is_log_missing
            host.attach_core(core, recovery.log_bytes)
        if self._idle is not None:
            self._idle.watch()
        self._shared.access.failures.succeeded(host.key, RECOVERY_FAILED)

    def _recovery_ended(self, host: TrackerHost, task: asyncio.Task[None]) -> None:
        del self._recoveries[host.key]
        self._turns.leave(host)
        if host.state is HostState.READY or self._hosts.is_closing(host.key):
            return
        if not task.cancelled() and task.exception() is None:
            return  # closed in the turn in which it was recovered
        # Remove the host. The error goes to every caller that waits for this task, and the next open begins a new
        # recovery.
        self._hosts.forget(host)
        if task.cancelled():
            return
        if isinstance(error := task.exception(), DelayedTrackerError):
            self._shared.access.failures.failed(host.key, RECOVERY_FAILED, error, retried=False)
            return
        task.get_loop().call_exception_handler(
            {"message": f"recovery of the tracker of subscription {host.key} failed", "exception": error}
        )

    # -- returns of unloaded trackers ---------------------------------------------------------------------------------

    def bring_back(self, host: TrackerHost) -> asyncio.Task[None]:
        """Return the task that brings an unloaded tracker back, which all callers share."""
        if (task := self._reloads.get(host)) is None:
            # An empty context: the task does not belong to the call that begins it.
            self._turns.join(host, due_ms=host.falls_due_ms)
            task = asyncio.get_running_loop().create_task(self._bring_back(host), context=Context())
            self._reloads[host] = task
            task.add_done_callback(lambda task: self._reload_ended(host, task))
        return task

    async def _bring_back(self, host: TrackerHost) -> None:
        assert self._idle is not None
        assert self._log_keeper is not None
        recovery = TrackerRecovery(host.key, self._shared.access, host.counters)
        await self._turns.until_turn(host)
        if host.state is not HostState.UNLOADED:  # closed meanwhile, and perhaps opened anew
            return
        core = await recovery.resume(self._limits, epoch=host.epoch, mark_delete=host.mark_delete, now=host.now())
        if host.state is HostState.UNLOADED:  # not closed meanwhile
            self._log_keeper.opened(host.key, recovery.log_bytes)
            host.bring_back(core, recovery.log_bytes, lost=recovery.has_losses)
            self._idle.returned(host.key)
            self._shared.access.failures.succeeded(host.key, RELOAD_FAILED)

    def _reload_ended(self, host: TrackerHost, task: asyncio.Task[None]) -> None:
        del self._reloads[host]
        self._turns.leave(host)
        if task.cancelled() or (error := task.exception()) is None or host.state is not HostState.UNLOADED:
            return
        if isinstance(error, Fenced):
            self._hosts.fenced(host.key)
            return
        host.arm_return(retry_ms=self._limits.retry_backoff_ms)
        if isinstance(error, DelayedTrackerError):
            self._shared.access.failures.failed(host.key, RELOAD_FAILED, error)
        else:
            message = f"the return of the tracker of subscription {host.key} failed"
            task.get_loop().call_exception_handler({"message": message, "exception": error})
