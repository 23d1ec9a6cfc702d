"""The gate through which every verb and every result of an effect reaches the core of one open tracker.

Check state and epoch, let the core act, hand its effects to the runner, arm the next wake-up, call the first waiting
poll. Nothing awaits inside the gate, so the core sees one step after the other.
"""

import asyncio
import enum
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tracker.core.core import TrackerCore
from tracker.core.effects import DeleteSnapshots
from tracker.service.clock import Clock
from tracker.service.counters import EffectCounters
from tracker.service.errors import Fenced, Recovering, TrackerKey, TrackerNotOpen
from tracker.service.limits import ServiceLimits
from tracker.service.polls import PollQueue, PollTally
from tracker.service.runner import EffectRunner
from tracker.service.storage_access import StorageAccess
from tracker.service.wakeups import WakeupQueue


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
    fenced: Callable[[TrackerKey], None]
    """Called when the catalogue of an open tracker turns out to belong to somebody else."""


class HostGate:
    """What every step of an open tracker goes through."""

    __slots__ = (
        "_awaiting_durable",
        "_core",
        "_durable_epoch",
        "_latest_ms",
        "_polls",
        "_replay_told_epoch",
        "_runner",
        "_shared",
        "_unclaimed",
        "counters",
        "key",
        "owner",
        "state",
    )

    _runner: EffectRunner
    """Made by who takes its reports."""

    def __init__(self, key: TrackerKey, shared: Shared) -> None:
        self.key = key
        self.state = HostState.RECOVERING
        self.owner = ""
        self.counters = EffectCounters()
        self._shared = shared
        self._core: TrackerCore | None = None
        self._polls = PollQueue(shared.clock, shared.polls)
        self._latest_ms = 0
        self._replay_told_epoch = 0
        self._unclaimed = True
        # A clear waits for: an epoch on record, and these buckets deleted.
        self._awaiting_durable: list[tuple[int, frozenset[int], asyncio.Future[None]]] = []

    def now_ms(self) -> int:
        """The wall clock. If it was set back, deadlines wait for it, and durations do not: leases and retries move along."""
        earlier_ms, self._latest_ms = self._latest_ms, self._shared.clock.now_ms()
        if self._latest_ms < earlier_ms and self._core is not None:
            self._core.set_clock_back(earlier_ms - self._latest_ms)
            if self.state is HostState.READY:
                self._arm(self._core)
        return self._latest_ms

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

    def require_owner(self, epoch: int) -> None:
        """Raise Fenced, Recovering or TrackerNotOpen unless this is the owner's epoch."""
        self._require_core(epoch)

    @contextmanager
    def _step(self, epoch: int | None = None) -> Iterator[tuple[TrackerCore, int]]:
        core = self._require_core(epoch)
        try:
            yield core, self.now_ms()
        finally:
            self._settle(core)

    def _settle(self, core: TrackerCore) -> None:
        """What follows every step of the core, also a refused one."""
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
        when_ms = core.next_timer_ms()
        due_now = False
        if self._polls and (delivery_ms := core.next_delivery_ms()) is not None:
            # What is due but still being loaded needs no wake-up: the load's report is one.
            due_now = delivery_ms <= self._latest_ms
            if not due_now:
                when_ms = delivery_ms if when_ms is None else min(when_ms, delivery_ms)
        self._shared.wakeups.arm(self, when_ms)
        return due_now

    def wake(self) -> None:
        """Do what time alone causes: leases end, segments are fetched ahead, failed effects are tried again."""
        with self._step() as (core, now_ms):
            core.wake(now_ms)

    @contextmanager
    def _result(self) -> Iterator[tuple[TrackerCore, int]]:
        """The gate for results, which a closing host still takes: what became durable stays."""
        assert self._core is not None
        try:
            yield self._core, self.now_ms()
        finally:
            if self.state is HostState.READY:
                self._settle(self._core)
            else:
                # What the result has put out of use (the sources of a merge) is still deleted; nothing new is begun.
                effects = self._core.take_effects()
                self._runner.run([effect for effect in effects if isinstance(effect, DeleteSnapshots)])
