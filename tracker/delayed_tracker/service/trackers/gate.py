"""The gate through which every verb and every effect result reaches the core of one open tracker.

A step checks the state and the epoch, calls the core, passes the core's effects to the runner, arms the next wake-up
and calls the first waiting poll. Nothing awaits inside the gate, so the steps of a core never overlap.

An unexpected error (a bug, or no memory) may leave the core half changed. The gate then gives up the core: it is not
called again, and nothing of it is recorded. The next open recovers the stored state, as after a crash.
"""

import asyncio
import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import structlog

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.inspect.numbers import EVENTS, NOTHING_COUNTED
from delayed_tracker.core.values.errors import DelayedTrackerError, InvariantViolation
from delayed_tracker.core.values.instant import Instant, Wakeup
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import Fenced, Recovering, TrackerBroken, TrackerKey, TrackerNotOpen
from delayed_tracker.service.instruments.instruments import Instruments
from delayed_tracker.service.instruments.tracker_rows import NO_ROW, TrackerRows
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.runner import EffectRunner
from delayed_tracker.service.trackers.load_room import LoadRoom
from delayed_tracker.service.trackers.polls import PollQueue, PollTally
from delayed_tracker.service.trackers.timer_queue import TimerQueue
from delayed_tracker.service.trackers.unstored import UnstoredBound

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class HostState(enum.Enum):
    """State of a host."""

    RECOVERING = "recovering"
    READY = "ready"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Shared:
    """Components that all trackers of one process share."""

    clock: Clock
    limits: ServiceLimits
    access: StorageAccess
    timers: TimerQueue
    polls: PollTally
    unstored: UnstoredBound
    load_room: LoadRoom
    instruments: Instruments
    rows: TrackerRows
    fenced: Callable[[TrackerKey], None]
    """Called when the catalogue of an open tracker has an epoch of another process."""
    broken: Callable[[TrackerKey], None]
    """Called when the core of an open tracker was given up."""


class HostGate:
    """Base of a host: state, core, and the gate for every step of an open tracker."""

    __slots__ = (
        "_account",
        "_awaiting_durable",
        "_broken",
        "_core",
        "_durable_epoch",
        "_load_share",
        "_polls",
        "_replay_told_epoch",
        "_runner",
        "_shared",
        "_stepped_at_ms",
        "_unclaimed",
        "counters",
        "key",
        "owner",
        "row_place",
        "state",
        "unstored",
    )

    _runner: EffectRunner
    """Created by the subclass that receives its results."""

    def __init__(self, key: TrackerKey, shared: Shared) -> None:
        self.key = key
        self.state = HostState.RECOVERING
        self.owner = ""
        self.row_place = NO_ROW
        self._account = shared.rows.admit(self)
        self.counters = self._account.counters
        self._shared = shared
        self._core: TrackerCore | None = None
        self._broken = False
        self._polls = PollQueue(shared.clock, shared.polls)
        self._stepped_at_ms = 0  # by the wall clock; set at each step
        self._load_share = shared.load_room.budget.share()
        self.unstored = shared.unstored.share()
        self._replay_told_epoch = 0
        self._unclaimed = True
        # A clear waits until its epoch is recorded and these buckets are deleted.
        self._awaiting_durable: tuple[tuple[int, frozenset[int], asyncio.Future[None]], ...] = ()

    def now_ms(self) -> int:
        """Return the wall clock's time. It may have been set forward or back since the last call."""
        return self._shared.clock.now_ms()

    def now(self) -> Instant:
        """Return the present time by both clocks, which every verb of the core takes."""
        return Instant(self._shared.clock.now_ms(), int(self._shared.clock.elapsed_ms()))

    def _begin_step(self) -> Instant:
        now = self.now()
        self._stepped_at_ms = now.wall_ms
        return now

    def _require_core(self, epoch: int | None = None) -> TrackerCore:
        """Return the core if verbs may use it. With an epoch, require that it is the owner's."""
        if self.state is HostState.RECOVERING:
            raise Recovering(
                f"the tracker of subscription {self.key} is being recovered",
                retry_after_ms=self._shared.limits.retry_after_ms,
            )
        if self.state is HostState.CLOSED or self._core is None:
            raise TrackerNotOpen(self.key)
        if epoch is not None and epoch != self._core.epoch:
            raise Fenced(self.key, given_epoch=epoch, epoch=self._core.epoch, owner=self.owner)
        return self._core

    def numbers(self) -> tuple[int, ...]:
        """Return the columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`, in any state.

        If the core was given up, only its event counts are not zero.
        """
        if self._core is None:
            return NOTHING_COUNTED
        if self._broken:
            return (*NOTHING_COUNTED[: -len(EVENTS)], *self._core.events())
        return self._core.numbers(self._shared.clock.now_ms())

    def require_owner(self, epoch: int) -> None:
        """Raise Fenced, Recovering or TrackerNotOpen unless this is the owner's epoch."""
        self._require_core(epoch)

    @contextmanager
    def _step(self, epoch: int | None = None) -> Iterator[tuple[TrackerCore, Instant]]:
        with self._whole():
            core = self._require_core(epoch)
            try:
                yield core, self._begin_step()
            except InvariantViolation:
                raise
            except DelayedTrackerError:
                # The core refused the call: nothing was applied, but time has passed.
                self._settle(core)
                raise
            self._settle(core)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Give up the core if the block raises an unexpected error.

        Raises:
            TrackerBroken: replaces the unexpected error, which is logged.
        """
        self._shared.rows.changed.add(self)
        try:
            try:
                yield
            finally:
                self._note_memory()
        except Exception as error:
            if isinstance(error, DelayedTrackerError) and not isinstance(error, InvariantViolation):
                raise
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
            "tracker given up, its state is not to be trusted",
            topic=self.key.topic,
            subscription=self.key.subscription,
            exc_info=error,
        )
        self._shared.broken(self.key)

    def _settle(self, core: TrackerCore) -> None:
        """Run what follows every step of the core, also a refused one: effects, wake-up, waiting polls."""
        if self._broken:
            return
        if effects := core.take_effects():
            self._runner.run(effects)
        if self.state is not HostState.READY:
            return
        if self._arm(core) or self._has_news(core):
            self._polls.call_first()

    def _has_news(self, core: TrackerCore) -> bool:
        """Return True if a replay is required and no poll of this epoch has reported it.

        Lost positions may be due already.
        """
        return core.replay_required and self._replay_told_epoch != core.epoch

    def _arm(self, core: TrackerCore) -> bool:
        """Arm the next wake-up. Return True if a waiting poll could succeed right now."""
        when_ms, elapsed_ms = core.next_timer()
        due_now = False
        if self._polls and (delivery_ms := core.next_delivery_ms()) is not None:
            # Positions that are due but still being loaded need no wake-up: the result of the load calls the polls.
            due_now = delivery_ms <= self._stepped_at_ms
            if not due_now:
                when_ms = delivery_ms if when_ms is None else min(when_ms, delivery_ms)
        self._shared.timers.arm(self, Wakeup(when_ms, elapsed_ms))
        return due_now

    def wake(self) -> None:
        """Run what time alone triggers: leases expire, segments are loaded ahead, failed effects are tried again."""
        # There is no caller to receive the error. The next caller gets TrackerNotOpen.
        with suppress(TrackerBroken), self._step() as (core, now):
            core.wake(now)
