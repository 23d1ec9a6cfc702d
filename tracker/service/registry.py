"""Which trackers are open: (topic, subscription) -> host. Signatures first; the body follows."""

import random
from dataclasses import dataclass

from snapshot_storage.protocol import SnapshotStore
from tracker.core.columns import Position
from tracker.core.limits import TrackerLimits
from tracker.service.clock import Clock
from tracker.service.counters import EffectCounters
from tracker.service.errors import TrackerKey
from tracker.service.limits import ServiceLimits


@dataclass(frozen=True, slots=True)
class Opened:
    """What an open gives: the epoch to carry, and where to replay from."""

    epoch: int
    mark_delete: Position
    recovered_count: int
    bucket_count: int


class TrackerRegistry:
    """Every open tracker of this process, over one storage."""

    storage: SnapshotStore
    clock: Clock
    limits: TrackerLimits
    service_limits: ServiceLimits
    counters: EffectCounters

    def __init__(
        self,
        storage: SnapshotStore,
        limits: TrackerLimits,
        *,
        service_limits: ServiceLimits | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
    ) -> None: ...

    async def start(self) -> None:
        """Start the storage; from here on trackers can be opened."""

    async def open(self, key: TrackerKey, *, owner: str, mark_delete: Position | None) -> Opened:
        """Open a tracker and own it."""
        raise NotImplementedError

    async def drain(self, grace_ms: int) -> None:
        """Refuse new calls, end waiting polls, finish effects within the grace period, close every tracker."""

    async def close(self) -> None:
        """Drain if that has not happened, and close the storage."""

    @property
    def serving(self) -> bool:
        """Whether calls are accepted."""
        raise NotImplementedError

    @property
    def tracker_count(self) -> int:
        """Trackers open now."""
        raise NotImplementedError

    @property
    def waiting_poll_count(self) -> int:
        """Polls waiting now."""
        raise NotImplementedError
