"""Registry of the open trackers, (topic, subscription) -> host; opens and closes them, and drains all of them.

Callers that open the same tracker share one recovery, which continues if a caller goes away. Closing and effects of one
tracker never wait for those of another.
"""

import asyncio
import enum
import random
from collections import Counter
from collections.abc import Coroutine, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar

from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.service.admission.call_admission import CallAdmission
from delayed_tracker.service.clock import Clock, SystemClock
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import Overloaded, ShuttingDown, TrackerBroken, TrackerKey, TrackerNotOpen
from delayed_tracker.service.instruments.instruments import Instruments
from delayed_tracker.service.instruments.tracker_rows import TrackerRows
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.process.background_threads import background_threads
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.in_flight import SnapshotsInFlight
from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.trackers.components import HostState, SharedComponents
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.load_room import LoadRoom
from delayed_tracker.service.trackers.log_keeper import LogKeeper
from delayed_tracker.service.trackers.polls import PollLimiter
from delayed_tracker.service.trackers.principals import PrincipalTrackers
from delayed_tracker.service.trackers.recoveries import Recoveries
from delayed_tracker.service.trackers.results import Opened
from delayed_tracker.service.trackers.timer_queue import TimerQueue
from delayed_tracker.service.trackers.tracker_events import TrackerEvents
from delayed_tracker.service.trackers.unloading import IdleTrackers
from delayed_tracker.service.trackers.unstored import UnstoredBound
from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.protocol import SnapshotStore

Answer = TypeVar("Answer")

_UNDO_MS: Final = 5_000
"""Time in which effects that the grace period has cut off may undo what they have begun."""


class _Phase(enum.Enum):
    NEW = "new"
    SERVING = "serving"
    DRAINING = "draining"
    CLOSED = "closed"


class TrackerRegistry:
    """All open trackers of this process, over one storage.

    Args:
        storage: not started; the registry starts and closes it.
        limits: settings of every tracker's core.
        service_limits: settings of the service around the cores.
        clock: the only source of time.
        rng: the only source of randomness (retry jitter).
        workers: runs sealing, encoding and decoding; shut down at close. None creates worker threads.
        add_log: not started; the registry starts and closes it. None: adds are durable when their bucket is.
        logs_changes: False only empties the add log: its records are recovered, and none is added.
        log_is_apart: True if the log belongs to this instance instead of the storage, which others share.
    """

    def __init__(
        self,
        storage: SnapshotStore,
        limits: TrackerLimits,
        *,
        service_limits: ServiceLimits | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        workers: Executor | None = None,
        add_log: AddLog | None = None,
        logs_changes: bool = True,
        log_is_apart: bool = False,
    ) -> None:
        self.storage = storage
        self.limits = limits
        self.service_limits = service_limits or ServiceLimits()
        self.clock: Clock = clock or SystemClock()
        self.calls = CallAdmission(self.service_limits, self.clock)
        self._workers = workers or background_threads(self.service_limits.worker_threads)
        self._polls = PollLimiter(self.service_limits)
        self.loads = LoadBudget(limits.loaded_indexes_max)
        """Budget of the snapshot rows that all trackers have in memory."""
        self.unstored = UnstoredBound(self.service_limits, limits.kind, self.hosts, self.clock)
        """Bound on the unstored indexes of all trackers."""
        self.instruments = Instruments(self.clock)
        self.events = TrackerEvents(self.clock)
        self.rows = TrackerRows(self.service_limits.labelled_trackers_max, self.clock, self.instruments.operations)
        rng = rng or random.Random()  # noqa: S311  # jitter, not a secret
        access = StorageAccess(
            storage,
            self.service_limits,
            clock=self.clock,
            rng=rng,
            workers=self._workers,
            retry_ms=limits.retry_backoff_ms,
            loads=self.loads,
            log=add_log,
            logs_changes=logs_changes and limits.kind is TrackerKind.BUCKET,
            log_is_apart=log_is_apart,
        )
        self.log: LogWriter | None = None
        """Writer of the add log; None if adds are durable when their bucket is."""
        self.log_keeper: LogKeeper | None = None
        self.idle: IdleTrackers | None = None
        """Unloads idle trackers; None without an add log, from which they could not be recovered."""
        if add_log is not None and access.logs_changes:
            self.log = LogWriter(
                add_log,
                self.service_limits,
                clock=self.clock,
                rng=rng,
                writer=access.writer,
                fenced=self.fenced,
            )
            self.log_keeper = LogKeeper(
                self.log,
                self.hosts,
                self._ready_host,
                self._relieve_log,
                clock=self.clock,
                retry_ms=limits.retry_backoff_ms,
            )
            self.idle = IdleTrackers(
                self.service_limits,
                self.clock,
                self.log_keeper,
                self.hosts,
                find=self._ready_host,
                is_free=self._is_free,
                close=lambda host: self.begin_close(host, "CLOSED"),
            )
        self._shared = SharedComponents(
            clock=self.clock,
            limits=self.service_limits,
            access=access,
            timers=TimerQueue(self.clock),
            polls=self._polls,
            unstored=self.unstored,
            load_room=LoadRoom(self.loads),
            instruments=self.instruments,
            rows=self.rows,
            log=self.log,
            log_may_shrink=self._log_may_shrink,
            empty_log=self._empty_log,
            needed=self._reload_needed,
            fenced=self.fenced,
            broken=self._close_broken,
        )
        self._phase = _Phase.NEW
        self._hosts: dict[TrackerKey, TrackerHost] = {}
        self.principals = PrincipalTrackers()
        self._recoveries = Recoveries(
            self._shared,
            limits,
            self.events,
            hosts=self,
            log_keeper=self.log_keeper,
            idle=self.idle,
            outcome=self._outcome,
        )
        self._closings: dict[TrackerKey, asyncio.Task[None]] = {}
        self._removals: dict[TrackerKey, asyncio.Task[Any]] = {}
        self.begun_deletions: dict[TrackerKey, tuple[int, int]] = {}
        """Epochs before and of deletions that have begun and not ended; one that failed stays until it is repeated or opened."""
        self._use_counts: Counter[TrackerKey] = Counter()
        """Operations that use a tracker, opened or not."""
        self._background: set[asyncio.Task[None]] = set()
        self.imports: dict[TrackerKey, int | None] = {}
        """Imports in flight. The value is the epoch under which an import stores snapshots; None until it is known."""
        self.unloaded_counters = EffectCounters()
        """Counters of operations on trackers that are not loaded."""

    # -- state and counts ---------------------------------------------------------------------------------------------

    @property
    def serving(self) -> bool:
        """True if calls are accepted."""
        return self._phase is _Phase.SERVING

    @property
    def tracker_count(self) -> int:
        """Trackers open now, including those being recovered and those that are unloaded."""
        return len(self._hosts)

    @property
    def recovering_count(self) -> int:
        """Trackers being recovered now, or waiting for it."""
        return self._recoveries.recovering_count

    @property
    def waiting_poll_count(self) -> int:
        """Polls waiting now."""
        return self._polls.waiting_count

    @property
    def counters(self) -> EffectCounters:
        """Sums over all trackers since the start. O(trackers with their own metrics)."""
        return EffectCounters.total([self.unloaded_counters, self.rows.effects()])

    @property
    def access(self) -> StorageAccess:
        """Access to the storage, shared by all trackers."""
        return self._shared.access

    def hosts(self) -> Iterator[TrackerHost]:
        """Return the trackers that are in memory and answer verbs now, in the order they were opened."""
        return (host for host in self._hosts.values() if host.state is HostState.READY)

    def _ready_host(self, key: TrackerKey) -> TrackerHost | None:
        host = self._hosts.get(key)
        return host if host is not None and host.state is HostState.READY else None

    # -- trackers -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start the storage; from here on, trackers can be opened. Raises the errors of the storage's start."""
        assert self._phase is _Phase.NEW
        await self._shared.access.start()
        if self.log is not None and self.log_keeper is not None:
            for extent in await self.log.log.extents():
                self.log_keeper.unloaded[TrackerKey(extent.topic, extent.cursor)] = extent.record_bytes
                self.log.log_bytes += extent.record_bytes
        self._phase = _Phase.SERVING
        if self.log_keeper is not None:  # a full log takes nothing that would be the occasion
            self.log_keeper.make_room_in_time()

    def limits_changed(self) -> None:
        """Let those look again who wait for a limit that may be higher now."""
        self.unstored.call_next()
        if self.log is not None and self.log_keeper is not None:
            self.log.call_window_waiters()
            self.log_keeper.make_room_in_time()
        if self.idle is not None:
            self.idle.limits_changed()

    def require_serving(self) -> None:
        """Raise ShuttingDown unless calls are accepted."""
        if self._phase is not _Phase.SERVING:
            raise self._stopping()

    def _stopping(self) -> ShuttingDown:
        return ShuttingDown("the service is stopping", retry_after_ms=self.service_limits.retry_after_ms)

    def host(self, key: TrackerKey) -> TrackerHost:
        """Return the host of an open tracker, which may be unloaded: see :meth:`loaded_host`.

        Raises:
            TrackerNotOpen: it was not opened, or is closed.
            ShuttingDown: no more calls are accepted.
        """
        self.require_serving()
        host = self._hosts.get(key)
        if host is None or host.state is HostState.CLOSED:
            raise TrackerNotOpen(key)
        if host.state is HostState.RECOVERING:
            self._recoveries.ask(host)  # the call is refused, and repeated
        return host

    async def loaded_host(self, key: TrackerKey) -> TrackerHost:
        """Return the host of an open tracker. If it is unloaded, bring it back first, once for all callers.

        There is no await for a tracker that is in memory, and verbs called before the next await find its core.

        Raises:
            TrackerNotOpen: it was not opened, or is closed.
            Fenced: another process owns the tracker.
            StorageUnavailable: it could not be brought back, and stays unloaded; try again.
            ShuttingDown: no more calls are accepted.
        """
        while (host := self.host(key)).state is HostState.UNLOADED:
            reload = self._recoveries.bring_back(host)
            self._recoveries.ask(host)
            await self._outcome(reload)
        host.touch()
        return host

    def find_host(self, key: TrackerKey) -> TrackerHost | None:
        """Return the host of a tracker that is open, also unloaded, or being recovered; None if it is neither."""
        host = self._hosts.get(key)
        return None if host is None or host.state is HostState.CLOSED else host

    def in_flight(self, key: TrackerKey) -> SnapshotsInFlight:
        """Return the snapshots in flight of a tracker, loaded or not."""
        if key in self._removals:
            return SnapshotsInFlight(sweeping=True)
        host = self._hosts.get(key)
        in_flight = SnapshotsInFlight() if host is None else host.in_flight()
        if (epoch := self.imports.get(key)) is None:
            return in_flight
        return replace(in_flight, storing_epochs=in_flight.storing_epochs | {epoch})

    async def known_keys(self) -> set[TrackerKey]:
        """Return the keys of all trackers that are loaded or have a catalogue.

        Raises:
            StorageUnavailable: try again.
            ShuttingDown: no more calls are accepted.
        """
        self.require_serving()
        stored = await self._shared.access.attempt(self.storage.trackers, self.unloaded_counters)
        loaded = [key for key in self._hosts if self.find_host(key) is not None]
        return await self.access.offload(lambda: {TrackerKey(*names) for names in stored}.union(loaded))

    async def open(self, key: TrackerKey, *, owner: str, mark_delete: Position | None) -> Opened:
        """Open a tracker for an owner. Recover it if it is not loaded.

        Args:
            key: of the tracker, which need not exist.
            owner: name of the new owner.
            mark_delete: the cursor's, if known.
        Raises:
            StorageUnavailable: it could not be recovered, or the new epoch was not recorded; try again.
            SnapshotConflict: another process writes to the tracker's catalogue.
            Overloaded: too many trackers are open.
            ShuttingDown: no more calls are accepted.
        """
        if mark_delete == BEFORE_ALL:
            mark_delete = None
        while True:
            await self.until_not_leaving(key)
            # Work that is done with a tracker closes it, unless somebody else uses it: this open may wait for the same recovery.
            with self._used(key):
                host = self._hosts.get(key)
                if host is None:
                    host = self._begin_recovery(key, mark_delete)
                await self._recoveries.until_ready(host)
                if host.state is HostState.READY:
                    # If it was closed while the epoch was being recorded, recover it again.
                    with suppress(TrackerNotOpen):
                        previous, opened = host.owner, await host.ownership.claim(owner, mark_delete)
                        self.events.opened(key, opened, owner=owner, previous_owner=previous)
                        return opened

    async def load(self, key: TrackerKey) -> TrackerHost:
        """Return the host of a tracker.

        Recover it, without an owner, if it is not loaded. Raises the errors of :meth:`open`.
        """
        while True:
            await self.until_not_leaving(key)
            host = self._hosts.get(key) or self._begin_recovery(key, None)
            self._recoveries.ask(host)
            await self._recoveries.until_ready(host)
            if host.state is HostState.READY:
                host.touch()
                return host

    @contextmanager
    def in_use(self, key: TrackerKey) -> Iterator[None]:
        """Keep a tracker that nobody has opened in memory during the block; it is closed when its last user has ended."""
        try:
            with self._used(key):
                yield
        finally:
            self.in_background(self._close_unused(key))

    @contextmanager
    def _used(self, key: TrackerKey) -> Iterator[None]:
        """Keep :meth:`_close_unused` from closing a tracker during the block."""
        self._use_counts[key] += 1
        try:
            yield
        finally:
            self._use_counts[key] -= 1
            if not self._use_counts[key]:
                del self._use_counts[key]

    async def _close_unused(self, key: TrackerKey) -> None:
        """Close a tracker that nobody has opened, unless it is in use; first wait for work that has lost its caller."""
        with suppress(ShuttingDown):
            await self.until_recovered(key)
        host = self._hosts.get(key)
        if host is None or host.state is not HostState.READY or key in self._use_counts:
            return
        if host.ownership.is_unclaimed:
            self.begin_close(host, "CLOSED")

    async def run_exclusive(self, key: TrackerKey, work: Coroutine[None, None, Answer]) -> Answer:
        """Run ``work`` on a settled tracker and return its result.

        The tracker cannot be opened, cleared or deleted meanwhile. The work continues if the caller goes away.
        """
        assert key not in self._removals
        task = asyncio.get_running_loop().create_task(work)
        self._removals[key] = task
        task.add_done_callback(lambda _: self._removals.pop(key))
        return await self._outcome(task)

    def in_background(self, work: Coroutine[None, None, None]) -> None:
        """Run ``work`` in a task. Only :meth:`drain` waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _outcome(self, shared: asyncio.Task[Answer]) -> Answer:
        """Return the result of a shared task. If the caller goes away, the task continues for its other callers."""
        await asyncio.wait([shared])
        if shared.cancelled():
            raise self._stopping()
        return shared.result()

    def _begin_recovery(self, key: TrackerKey, mark_delete: Position | None) -> TrackerHost:
        if len(self._hosts) >= self.service_limits.trackers_max:
            raise Overloaded(
                f"{len(self._hosts)} trackers are open, which is the limit",
                retry_after_ms=self.service_limits.retry_after_ms,
            )
        self.begun_deletions.pop(key, None)
        host = self._hosts[key] = TrackerHost(key, self._shared)
        self._recoveries.begin(host, mark_delete)
        return host

    def _is_free(self, key: TrackerKey) -> bool:
        return self.serving and not (key in self.imports or key in self._removals or key in self._use_counts)

    def _reload_needed(self, key: TrackerKey) -> None:
        if self.serving:
            self._recoveries.bring_back(self._hosts[key])

    # -- closing ------------------------------------------------------------------------------------------------------

    def forget(self, host: TrackerHost) -> None:
        """Remove a tracker that is closed, or was not recovered."""
        del self._hosts[host.key]
        self.principals.forget(host)
        if self.log_keeper is not None and host.has_core:
            self.log_keeper.closed(host.key, host.log_bytes)
        host.retire()

    async def close_tracker(self, key: TrackerKey, epoch: int) -> None:
        """Unload a tracker; return when its effects have ended. The closing continues if the caller goes away.

        Raises:
            TrackerNotOpen, Recovering, Fenced, ShuttingDown: nothing was closed.
        """
        host = self.host(key)
        host.require_owner(epoch)
        await self._outcome(self.begin_close(host, "CLOSED"))

    def begin_close(self, host: TrackerHost, reason: str) -> asyncio.Task[None]:
        """Begin to close a tracker and return the task, also of a close that is under way, whose reason stays.

        Args:
            host: of the tracker.
            reason: why its waits end, as :meth:`TrackerHost.begin_close` takes it.
        """
        closing = self._closings.get(host.key)
        if closing is None:
            host.begin_close(reason)
            if self.idle is not None:
                self.idle.closed(host.key)
            self.events.closing(host.key, reason)
            closing = asyncio.get_running_loop().create_task(host.finish_close())
            self._closings[host.key] = closing
            closing.add_done_callback(lambda _: self._closing_ended(host))
        return closing

    def _closing_ended(self, host: TrackerHost) -> None:
        del self._closings[host.key]
        self._shared.access.failures.forget(host.key)
        self.forget(host)

    def is_closing(self, key: TrackerKey) -> bool:
        """Return True if the tracker is being closed."""
        return key in self._closings

    def fenced(self, key: TrackerKey) -> None:
        """Close a tracker that another process owns."""
        self.begin_close(self._hosts[key], "FENCED")

    def _close_broken(self, key: TrackerKey) -> None:
        # A tracker that is closing already needs no second close.
        if (host := self._hosts[key]).state is HostState.READY:
            self.begin_close(host, TrackerBroken.reason)

    async def until_not_leaving(self, key: TrackerKey) -> None:
        """Wait until the tracker is neither closing nor being removed by an earlier call."""
        self.require_serving()
        while (leaving := self._closings.get(key) or self._removals.get(key)) is not None:
            await asyncio.wait([leaving])
            self.require_serving()

    async def until_recovered(self, key: TrackerKey) -> None:
        """Wait until the tracker is neither being recovered, closing nor removed. The recovery may have failed."""
        await self.until_not_leaving(key)
        while self._recoveries.is_recovering(key):
            await self._recoveries.until_over(self._hosts[key])
            await self.until_not_leaving(key)

    # -- the add log --------------------------------------------------------------------------------------------------

    def log_emptied(self, key: TrackerKey) -> None:
        """Note that the add log has nothing of an unloaded tracker any more."""
        if self.log_keeper is not None:
            self.log_keeper.emptied(key)

    def _log_may_shrink(self, key: TrackerKey, log_bytes: int) -> None:
        if self.log_keeper is not None:
            self.log_keeper.stored(key, log_bytes)

    def _empty_log(self, key: TrackerKey) -> None:
        if self.log_keeper is not None:
            self.log_keeper.empty(key)

    async def _relieve_log(self, key: TrackerKey) -> None:
        """Store what the add log has of a tracker that nobody has open. It is closed afterwards, which cuts the log.

        Records of a tracker that another instance has taken over are void, and are cut at once; or they are that one's.
        """
        if await self._is_without_records(key):
            return
        with self.in_use(key):
            host = await self.load(key)
            host.seal_open_buckets()
        await self._close_unused(key)
        if (closing := self._closings.get(key)) is not None:
            await asyncio.wait([closing])

    async def _is_without_records(self, key: TrackerKey) -> bool:
        """Return True if this instance's log has nothing more of a tracker that is not open; void records are cut."""
        access = self._shared.access
        assert self.log is not None
        # Before the catalogue is read: what is logged after an open here, meanwhile, has higher numbers.
        extents = await self.log.log.extents()
        through = max((extent.last_number for extent in extents if (extent.topic, extent.cursor) == key), default=None)
        if through is not None:
            state = await access.attempt(lambda: self.storage.list(*key), self.unloaded_counters)
            if key in self._hosts or state.log_mark.log in {"", access.log_id}:
                return False
            await self.log.log.cut([(*key, through)])
        elif key in self._hosts:
            return False
        # Without an extent, a log that instances share has the records for another one, from which an open would take them.
        self.log_emptied(key)
        return True

    # -- drain and close ----------------------------------------------------------------------------------------------

    async def drain(self, grace_ms: int) -> None:
        """Refuse new calls, end waiting polls, finish effects, close every tracker.

        Args:
            grace_ms: time in all. Its last quarter, five seconds at most, is for effects that are cut off to undo what they
                have begun; the storage keeps of each either nothing or a whole snapshot. At 0, they have the five seconds.
        """
        if self._phase is _Phase.SERVING:
            self._phase = _Phase.DRAINING
            self.calls.stop()
            if self.log_keeper is not None:
                self.in_background(self.log_keeper.close())
            if self.idle is not None:
                self.in_background(self.idle.close())
            for recovery in self._recoveries.tasks():
                recovery.cancel()
            for host in list(self._hosts.values()):
                if host.state in {HostState.READY, HostState.UNLOADED}:
                    self.begin_close(host, ShuttingDown.reason)
        leaving: list[asyncio.Task[Any]] = [
            *self._closings.values(),
            *self._removals.values(),
            *self._recoveries.tasks(),
            *self._background,
        ]
        undo_ms = min(_UNDO_MS, grace_ms // 4) if grace_ms else _UNDO_MS
        if await self._ended_within(grace_ms - undo_ms if grace_ms else 0, leaving):
            return
        self.events.cut_off(len(self._hosts))
        abandoned = [task for host in self._hosts.values() for task in host.abandon()]
        for task in leaving:
            task.cancel()
        await self._ended_within(undo_ms, [*leaving, *abandoned])

    async def _ended_within(self, ms: float, tasks: list[asyncio.Task[Any]]) -> bool:
        """Wait for tasks, at most for a time, and return whether all have ended."""
        if not tasks:
            return True
        ending = asyncio.ensure_future(asyncio.wait(tasks))

        def out_of_time() -> None:
            ending.cancel()

        timer = self.clock.call_later(ms, out_of_time)
        await asyncio.wait([ending])
        timer.cancel()
        return not ending.cancelled()

    async def close(self) -> None:
        """Drain at once, if that has not happened, and close the storage. A second call is harmless."""
        await self.drain(0)
        if self._phase is _Phase.CLOSED:
            return
        self._phase = _Phase.CLOSED
        if self.log is not None:
            await self.log.close()
        self._workers.shutdown(wait=False, cancel_futures=True)
        if (log := self._shared.access.log) is not None:
            await log.close()
        await self.storage.close()
