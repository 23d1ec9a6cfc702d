"""The gate through which every verb and every effect result reaches the core of one open tracker.

A step checks the state and the epoch, calls the core, passes the core's effects to the runner, arms the next wake-up
and calls the first waiting poll. Nothing awaits inside the gate, so the steps of a core never overlap.

    RECOVERING --open()--> READY --close()--> CLOSED
                           READY --unload()--> UNLOADED --bring_back()--> READY

An idle tracker is unloaded: its core is dropped, and what callers may ask without it is kept (``RestingTracker``).

An unexpected error (a bug, or no memory) may leave the core half changed. The gate then gives up the core: it is not
called again, and nothing of it is recorded. The next open recovers the stored state, as after a crash.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType

import structlog

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import EffectResult, PiecesStored, SnapshotStored
from delayed_tracker.core.engine.effects import DeleteSnapshots, MergeSnapshots
from delayed_tracker.core.inspect.numbers import EVENTS, NOTHING_COUNTED
from delayed_tracker.core.inspect.resting import RestingTracker
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import DelayedTrackerError, InvariantViolation
from delayed_tracker.core.values.instant import Instant, Wakeup
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import Fenced, Recovering, ServiceError, TrackerBroken, TrackerKey, TrackerNotOpen
from delayed_tracker.service.instruments.tracker_rows import NO_ROW
from delayed_tracker.service.storage.durable_changes import DurableChanges
from delayed_tracker.service.storage.runner import EffectRunner
from delayed_tracker.service.telemetry.storage_log import LOAD_FAILED, STORE_FAILED
from delayed_tracker.service.trackers.catalogue_waits import CatalogueWaits
from delayed_tracker.service.trackers.components import HostState, SharedComponents
from delayed_tracker.service.trackers.histories import Histories
from delayed_tracker.service.trackers.polls import PollQueue

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class TrackerGate:
    """State and core of one tracker. Takes the results of the tracker's effects (``EffectResults``)."""

    __slots__ = (
        "_active_at_ms",
        "_broken",
        "_core",
        "_held_count",
        "_load_share",
        "_replay_told_epoch",
        "_resting",
        "_retired",
        "_shared",
        "_stepped_at_ms",
        "catalogue_waits",
        "counters",
        "histories",
        "key",
        "log",
        "owner",
        "polls",
        "row_place",
        "runner",
        "state",
        "unstored",
    )

    def __init__(self, key: TrackerKey, shared: SharedComponents) -> None:
        self.key = key
        self.state = HostState.RECOVERING
        self.owner = ""
        self.row_place = NO_ROW
        account = shared.rows.admit(self)
        self.counters = account.counters
        self.log = None if shared.log is None else DurableChanges(key, lambda: self.epoch, shared.log)
        """Changes that are on their way to the add log; None if there is none."""
        self.runner = EffectRunner(key, shared.access, shared.limits, results=self, account=account)
        self.polls = PollQueue(shared.clock, shared.polls)
        self.unstored = shared.unstored.share()
        self.catalogue_waits = CatalogueWaits()
        self.histories = Histories()
        self._shared = shared
        self._core: TrackerCore | None = None
        self._broken = False
        self._stepped_at_ms = 0  # by the wall clock; set at each step
        self._active_at_ms = 0  # in elapsed time; set at each step and each call
        self._held_count = 0
        self._resting: RestingTracker | None = None
        self._retired: tuple[int, Position] | None = None
        """Epoch and mark-delete position of the core when it was dropped for good."""
        self._load_share = shared.load_room.budget.share()
        self._replay_told_epoch = 0

    # -- opening and closing -----------------------------------------------------------------------------------------

    def open(self, core: TrackerCore, log_bytes: int) -> None:
        """Take over a recovered core, which needs so many bytes of the add log. From here on, steps are possible."""
        assert self.state in {HostState.RECOVERING, HostState.UNLOADED}
        if self.log is not None:
            self.log.begin(core.taken_change, log_bytes)
        self.state = HostState.READY
        self._core, self._resting = core, None
        with self.step() as (ready, now):
            ready.load_within(self._load_share, now)

    def is_idle(self, idle_ms: int) -> bool:
        """Return True if the tracker is unused and recoverable, and nothing falls due soon."""
        core = self.sound_core
        if core is None or self.log is None or not self.is_unused(idle_ms) or not core.can_rest:
            return False
        due_ms = core.falls_due_ms()
        return due_ms is None or due_ms - self.now_ms() > idle_ms

    def is_unused(self, idle_ms: int) -> bool:
        """Return True if the tracker is in memory, nobody has used it for so long, and nothing is under way."""
        if self.state is not HostState.READY or self._shared.clock.elapsed_ms() - self._active_at_ms < idle_ms:
            return False
        runner = self.runner
        is_at_work = runner.in_flight_count or runner.writer.undoing or runner.catalogue_lock.locked()
        return not (is_at_work or self._held_count or self.polls or self.catalogue_waits)

    def unload(self) -> None:
        """Drop the core of an idle tracker whose checkpoint is recorded."""
        assert self.log is not None
        assert self._core is not None
        self._resting = self._core.rest(self.now_ms())
        self.state = HostState.UNLOADED
        self._core = None
        self.log.rest()
        self.unstored.hold(0, 0)
        self._load_share.close()
        self._shared.load_room.notice(self._load_share, self)
        self._shared.rows.changed.add(self)
        self.arm_return()

    def arm_return(self, *, retry_ms: int = 0) -> None:
        """Arm the time at which an unloaded tracker is needed; one that is needed already, after ``retry_ms``."""
        assert self._resting is not None
        due_ms, now = self._resting.falls_due_ms, self.now()
        if due_ms is not None and due_ms <= now.wall_ms:
            self._shared.timers.arm(self, Wakeup(None, now.elapsed_ms + retry_ms))
        else:
            self._shared.timers.arm(self, Wakeup(due_ms, None))

    def bring_back(self, core: TrackerCore, log_bytes: int, *, lost: bool) -> None:
        """Take over a core recovered in the place of the one that was dropped; see ``TrackerCore.resume``."""
        assert self._resting is not None
        core.resume(self._resting, lost=lost)
        self._load_share = self._shared.load_room.budget.share()
        self.open(core, log_bytes)

    def touch(self) -> None:
        """Note that the tracker is being used."""
        self._active_at_ms = int(self._shared.clock.elapsed_ms())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep the core in memory during the block, which may wait."""
        self._held_count += 1
        try:
            yield
        finally:
            self._held_count -= 1

    def close(self, error: Callable[[], ServiceError]) -> None:
        """Refuse all further steps, and end every wait with an error. Results of effects are still applied."""
        self.state = HostState.CLOSED
        self._shared.timers.disarm(self)
        self.end_waits(error)
        self.catalogue_waits.end_all(error)
        if (core := self.sound_core) is not None:
            with suppress(TrackerBroken), self.guarded():
                core.close(self.begin_step())

    def end_waits(self, error: Callable[[], ServiceError]) -> None:
        """End every waiting poll and every reading of one history; let the adds that wait for room look again."""
        self.polls.end_all(error)
        self.histories.end_all(error)
        self.unstored.call_all()

    def retire(self) -> None:
        """Release the tracker's row, its parts of the shared memory bounds, and its core.

        Afterwards only the epoch and the mark-delete position are read: by an import that finds its tracker closed.
        """
        self._shared.rows.retire(self)
        if self.log is not None:
            self.log.retire()
        self._load_share.close()
        self._shared.load_room.notice(self._load_share, self)
        self.unstored.close()
        if self._core is not None:
            self._retired = (self._core.epoch, self._core.mark_delete)
            self._core = None  # the gate and its host refer to each other, and stay until a garbage collection

    # -- looking at the core -----------------------------------------------------------------------------------------

    @property
    def core(self) -> TrackerCore | None:
        """The core, in any state; None before it is recovered and while it is unloaded."""
        return self._core

    @property
    def resting(self) -> RestingTracker | None:
        """Facts about the core that was dropped; None unless the tracker is unloaded, or was when it was closed."""
        return self._resting

    @property
    def sound_core(self) -> TrackerCore | None:
        """The core, in any state; None before it is recovered and after it was given up."""
        return None if self._broken else self._core

    def now_ms(self) -> int:
        """Return the wall clock's time. It may have been set forward or back since the last call."""
        return self._shared.clock.now_ms()

    def now(self) -> Instant:
        """Return the present time by both clocks, which every verb of the core takes."""
        return Instant(self._shared.clock.now_ms(), int(self._shared.clock.elapsed_ms()))

    def begin_step(self) -> Instant:
        """Return the present time by both clocks, for one step."""
        now = self.now()
        self._stepped_at_ms, self._active_at_ms = now.wall_ms, now.elapsed_ms
        return now

    def require_core(self, epoch: int | None = None) -> TrackerCore:
        """Return the core if verbs may use it. With an epoch, require that it is the owner's.

        Raises:
            Recovering: it is being recovered, or not in memory.
            TrackerNotOpen, Fenced: the call is not answered here, or not with this epoch.
        """
        if self.state is HostState.UNLOADED:
            self.require_epoch(epoch)
            raise Recovering(
                f"the tracker of subscription {self.key} is brought back into memory",
                retry_after_ms=self._shared.limits.retry_after_ms,
            )
        if self.state is HostState.RECOVERING:
            raise Recovering(
                f"the tracker of subscription {self.key} is being recovered",
                retry_after_ms=self._shared.limits.retry_after_ms,
            )
        if self.state is HostState.CLOSED or self._core is None:
            raise TrackerNotOpen(self.key)
        self.require_epoch(epoch)
        return self._core

    def require_epoch(self, epoch: int | None) -> None:
        """Raise Fenced unless this is the epoch in force, or None; TrackerNotOpen if it is the epoch of a recovery alone."""
        if epoch is not None and epoch != self.epoch:
            if not self.owner:
                raise TrackerNotOpen(self.key)
            raise Fenced(self.key, given_epoch=epoch, epoch=self.epoch, owner=self.owner)

    def numbers(self) -> tuple[int, ...]:
        """Return the columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`, in any state.

        If the core was given up, only its event counts are not zero.
        """
        if self._core is None:
            return NOTHING_COUNTED if self._resting is None else self._resting.numbers
        if self._broken:
            return (*NOTHING_COUNTED[: -len(EVENTS)], *self._core.events())
        return self._core.numbers(self._shared.clock.now_ms())

    # -- steps ---------------------------------------------------------------------------------------------------------

    def step(self, epoch: int | None = None) -> "_Step":
        """Return a block with the core and the time of one step; at its end, run what the step has caused.

        Raises:
            Recovering, TrackerNotOpen, Fenced: the core may not be used, or the epoch is not the owner's.
            TrackerBroken: the core was given up.
        """
        return _Step(self, epoch)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Give up the core if the block raises an unexpected error.

        Raises:
            TrackerBroken: replaces the unexpected error, which is logged.
        """
        self.begin_use()
        try:
            yield
        except BaseException as error:
            self.end_use(error)
            raise
        self.end_use(None)

    def begin_use(self) -> None:
        """Note that the numbers of this tracker may change: its core is about to be used."""
        self._shared.rows.changed.add(self)

    def end_use(self, error: BaseException | None) -> None:
        """Note the memory that the core uses now, and give it up after an error that no core raises on purpose.

        Raises:
            TrackerBroken: replaces the unexpected error, which is logged.
        """
        try:
            self._note_memory()
        except Exception as failure:
            self._fail(failure)
            raise
        if isinstance(error, Exception):
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        if _is_refusal(error):
            return
        self._give_up(error)
        self._note_memory()
        raise TrackerBroken(self.key) from error

    def _note_memory(self) -> None:
        """Update the shared bounds with the memory that this tracker uses now. O(1)."""
        if self._core is not None and not self._broken:
            self.unstored.hold(*self._core.unstored_counts())
        self._shared.load_room.notice(self._load_share, self)

    def _give_up(self, error: Exception) -> None:
        if self._broken:
            return
        self._broken = True
        self._load_share.stop_waiting()
        _log.error(
            "tracker closed after an internal error, its state in memory is discarded",
            topic=self.key.topic,
            subscription=self.key.subscription,
            exc_info=error,
        )
        self._shared.broken(self.key)

    def finish_step(self, core: TrackerCore) -> None:
        """Run what follows every step of the core, also a refused one: effects, wake-up, waiting polls."""
        if self._broken:
            return
        self.run_effects(core)
        if self._shared.access.failures.lasts(self.key):
            self._forget_failures(core)
        if self.state is not HostState.READY:
            return
        if self.arm(core) or self.has_unreported_replay(core):
            self.polls.notify_first()

    def _forget_failures(self, core: TrackerCore) -> None:
        """Forget failures of what is not tried again, because its positions were consumed meanwhile."""
        failures = self._shared.access.failures
        if not core.has_failed_stores:
            failures.forget(self.key, STORE_FAILED)
        if not core.has_failed_loads:
            failures.forget(self.key, LOAD_FAILED)

    def run_effects(self, core: TrackerCore) -> None:
        """Log the changes that the core has made, and pass the effects that it has requested to the runner."""
        self._log_changes(core)
        if effects := core.take_effects():
            self.runner.run(effects)

    def _log_changes(self, core: TrackerCore) -> None:
        if self.log is not None and (changes := core.take_changes()):
            self.log.record(changes, core.last_change)

    def require_logged(self) -> None:
        """Let the calls that wait for durable changes wait for the last one, too, whatever it is."""
        if self.log is not None:
            self.log.require_all()

    @property
    def window_is_full(self) -> bool:
        """True if nothing may be consumed until the add log has more of what was; False if there is none."""
        return self.log is not None and self.log.window_is_full

    def has_unreported_replay(self, core: TrackerCore) -> bool:
        """Return True if a replay is required and no poll of this epoch has reported it.

        Lost positions may be due already.
        """
        return core.replay_required and self._replay_told_epoch != core.epoch

    def report_replay(self, core: TrackerCore) -> bool:
        """Note that a poll reports whether a replay is required; return True if that is news of this epoch."""
        if not core.replay_required:
            return False
        is_news = self._replay_told_epoch != core.epoch
        self._replay_told_epoch = core.epoch
        return is_news

    def arm(self, core: TrackerCore) -> bool:
        """Arm the next wake-up. Return True if a waiting poll could succeed right now."""
        when_ms, elapsed_ms = core.next_timer()
        due_now = False
        if self.polls and (delivery_ms := core.next_delivery_ms()) is not None:
            # Positions that are due but still being loaded need no wake-up: the result of the load calls the polls.
            due_now = delivery_ms <= self._stepped_at_ms
            if not due_now:
                when_ms = delivery_ms if when_ms is None else min(when_ms, delivery_ms)
        self._shared.timers.arm(self, Wakeup(when_ms, elapsed_ms))
        return due_now

    def wake(self) -> None:
        """Run what time alone triggers: leases expire, segments are loaded ahead, failed effects are tried again."""
        if self.state is HostState.UNLOADED:
            self._shared.needed(self.key)
            return
        # There is no caller to receive the error. The next caller gets TrackerNotOpen.
        with suppress(TrackerBroken), self.step() as (core, now):
            core.wake(now)

    # -- results of effects (EffectResults) --------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Epoch of the core, also of one that was dropped."""
        if self._resting is not None:
            return self._resting.stats.epoch
        if self._retired is not None:
            return self._retired[0]
        assert self._core is not None
        return self._core.epoch

    @property
    def mark_delete(self) -> Position:
        """Mark-delete position of the core, also of one that was dropped."""
        if self._resting is not None:
            return self._resting.stats.mark_delete
        if self._retired is not None:
            return self._retired[1]
        assert self._core is not None
        return self._core.mark_delete

    def apply(self, result: EffectResult) -> bool:
        """Apply the result of an effect; a host that is closing still does, because what became durable stays.

        A core that failed gets no results, nor does one that was dropped when the time to close was over: the snapshots stay
        as they are, as after a crash.
        """
        known = True
        with suppress(TrackerBroken), self.guarded():
            core = self.sound_core
            if core is None:
                return True
            known = core.apply(result, self.begin_step())
            if self.log is not None and self.log.log_bytes and isinstance(result, SnapshotStored | PiecesStored):
                self._shared.log_may_shrink(self.key, self.log.log_bytes)
            if self.state is HostState.READY:
                self.finish_step(core)
            else:
                self._log_changes(core)
                # Snapshots that the result replaces, such as the sources of a merge, are still deleted; nothing else begins.
                self.runner.run([effect for effect in core.take_effects() if isinstance(effect, DeleteSnapshots)])
        return known

    def still_tracked(self, effect: MergeSnapshots) -> PositionBitmap:
        """Return the positions that the sources of a merge track now.

        If the core no longer has a source (after a clear), or was given up, all its positions count as tracked.
        """
        core = self.sound_core
        known = {} if core is None else core.remaining({source.bucket_id for source in effect.sources})
        tracked = PositionBitmap()
        for source in effect.sources:
            tracked.update(known.get(source.bucket_id, source.live))
        return tracked

    def stored_through(self, storing_id: int | None = None) -> Position | None:
        """Return the dispatcher's claim as far as snapshots cover it; None if there is none, or the core was given up."""
        core = self.sound_core
        if core is None or self.log is None or (stored := core.stored_through(storing_id)) == BEFORE_ALL:
            return None
        return stored

    @property
    def log_fails(self) -> bool:
        """True if the last commit to the add log failed."""
        return self.log is not None and self.log.log_fails

    async def until_logged(self) -> None:
        """Return when every change is durable; at once if there is no add log."""
        if self.log is not None:
            await self.log.until_durable()

    async def cut_log(self, through: int) -> bool:
        """Remove the records up to a number from the add log, if there is one. Return False if that failed."""
        return self.log is None or await self.log.cut(through)

    def catalogue_written(self, effect: DeleteSnapshots) -> None:
        """Note that no crash can restore the buckets: the catalogue does not name them. Their objects may remain."""
        self.catalogue_waits.note_written(effect.epoch, effect.bucket_ids)

    def catalogue_fenced(self, epoch: int) -> None:
        """Handle a refused epoch. If it is the newest of this process, another process owns the tracker."""
        if self.state is HostState.READY and epoch >= self.epoch:
            self._shared.fenced(self.key)


def _is_refusal(error: BaseException) -> bool:
    """Return True for an error that a core or its caller raises on purpose."""
    return isinstance(error, DelayedTrackerError) and not isinstance(error, InvariantViolation)


class _Step:
    """Block of one step. Every call of a verb runs it, so it is a class of its own: two generators cost twice as much."""

    __slots__ = ("_core", "_epoch", "_gate")

    def __init__(self, gate: TrackerGate, epoch: int | None) -> None:
        self._gate = gate
        self._epoch = epoch
        self._core: TrackerCore | None = None

    def __enter__(self) -> tuple[TrackerCore, Instant]:
        gate = self._gate
        gate.begin_use()
        try:
            core = self._core = gate.require_core(self._epoch)
            return core, gate.begin_step()
        except BaseException as failure:
            gate.end_use(failure)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        gate, core = self._gate, self._core
        assert core is not None
        # A core that refuses the call has applied nothing, but time has passed.
        if error is None or _is_refusal(error):
            try:
                gate.finish_step(core)
            except BaseException as failure:
                gate.end_use(failure)
                raise
        gate.end_use(error)
