"""The gate through which every verb and every result of an effect reaches the core of one open tracker.

Check state and epoch, let the core act, hand its effects to the runner, arm the next wake-up, call the first waiting
poll. Nothing awaits inside the gate, so the core sees one step after the other.

A step that ends with an error nobody raised on purpose (a bug, no memory) may have changed half of the core. Such a core
is given up: it is asked nothing more, nothing of it is recorded, and the next open recovers what is stored, as after a
crash.
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
from delayed_tracker.service.trackers.timer_queue import WakeupQueue
from delayed_tracker.service.trackers.unstored import UnstoredBound

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class HostState(enum.Enum):
    """Where a host stands in its life."""

    RECOVERING = "recovering"
    READY = "ready"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Shared:
    """What all trackers of one process share."""

    clock: Clock
    limits: ServiceLimits
    access: StorageAccess
    wakeups: WakeupQueue
    polls: PollTally
    unstored: UnstoredBound
    load_room: LoadRoom
    instruments: Instruments
    rows: TrackerRows
    fenced: Callable[[TrackerKey], None]
    """Called when the catalogue of an open tracker turns out to belong to somebody else."""
    broken: Callable[[TrackerKey], None]
    """Called when the core of an open tracker was given up."""


class HostGate:
    """What every step of an open tracker goes through."""

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
    """Made by who takes its reports."""

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
        self._stepped_at_ms = 0  # by the wall clock
        self._load_share = shared.load_room.budget.share()
        self.unstored = shared.unstored.share()
        self._replay_told_epoch = 0
        self._unclaimed = True
        # A clear waits for: an epoch on record, and these buckets deleted.
        self._awaiting_durable: tuple[tuple[int, frozenset[int], asyncio.Future[None]], ...] = ()

    def now_ms(self) -> int:
        """The wall clock, which may have been stepped since the last look."""
        return self._shared.clock.now_ms()

    def now(self) -> Instant:
        """The moment by both clocks: what every verb of the core is given."""
        return Instant(self._shared.clock.now_ms(), int(self._shared.clock.elapsed_ms()))

    def _begin_step(self) -> Instant:
        now = self.now()
        self._stepped_at_ms = now.wall_ms
        return now

    def _require_core(self, epoch: int | None = None) -> TrackerCore:
        """The core, if verbs may reach it; with an epoch, only for who opened the tracker last."""
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
        """The columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`, in any state; of a core that was given up, what has happened."""
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
                # Refused: nothing was applied, but time has passed.
                self._settle(core)
                raise
            self._settle(core)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Give the core up if what is done with it ends halfway.

        Raises:
            TrackerBroken: in place of the error that did it, which is logged.
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
        """Tell the bounds that all trackers share what this one has in memory now. O(1)."""
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
        """What follows every step of the core, also a refused one."""
        if self._broken:
            return
        if effects := core.take_effects():
            self._runner.run(effects)
        if self.state is not HostState.READY:
            return
        if self._arm(core) or self._has_news(core):
            self._polls.call_first()

    def _has_news(self, core: TrackerCore) -> bool:
        """Whether a replay is required and no poll of this epoch has answered so: what was lost may be due by now."""
        return core.replay_required and self._replay_told_epoch != core.epoch

    def _arm(self, core: TrackerCore) -> bool:
        """Arrange the next wake-up; tells whether a waiting poll could succeed right now."""
        when_ms, elapsed_ms = core.next_timer()
        due_now = False
        if self._polls and (delivery_ms := core.next_delivery_ms()) is not None:
            # What is due but still being loaded needs no wake-up: the load's report is one.
            due_now = delivery_ms <= self._stepped_at_ms
            if not due_now:
                when_ms = delivery_ms if when_ms is None else min(when_ms, delivery_ms)
        self._shared.wakeups.arm(self, Wakeup(when_ms, elapsed_ms))
        return due_now

    def wake(self) -> None:
        """Do what time alone causes: leases end, segments are fetched ahead, failed effects are tried again."""
        # Nobody called: whoever does next learns that it is closed.
        with suppress(TrackerBroken), self._step() as (core, now):
            core.wake(now)
