"""A shell around the core for unit tests: keeps effects until a test decides their results."""

from dataclasses import dataclass, field
from typing import TypeVar

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import (
    SegmentLoadFailed,
    SegmentsLoaded,
    SnapshotFailed,
    SnapshotsDeleted,
    SnapshotStored,
)
from delayed_tracker.core.engine.effects import DeleteSnapshots, Effect, LoadSegments, StoreSnapshot
from delayed_tracker.core.rules.seal import SealedIndexes, seal
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.verb_results import AddOutcome, Delivery
from tests.core.harness.two_clocks import TwoClocks

Row = tuple[int, int, int]
E = TypeVar("E", StoreSnapshot, LoadSegments, DeleteSnapshots)

START_MS = 1_000
DUE_MS = START_MS + 100
LATER_MS = START_MS + 60_000
STRICT = TrackerLimits(strict=True)


def positions(*pairs: tuple[int, int]) -> PositionColumns:
    return PositionColumns.of(pairs)


@dataclass
class Shell(TwoClocks):
    """One core, a clock that a test moves, and a storage that is a dictionary."""

    core: TrackerCore
    now_ms: int = START_MS
    pending: list[Effect] = field(default_factory=list)
    snapshots: dict[int, SealedIndexes] = field(default_factory=dict)
    last_bucket_id: int = 0

    @classmethod
    def with_limits(cls, limits: TrackerLimits) -> "Shell":
        return cls(TrackerCore(limits, epoch=1))

    def add(self, *rows: Row) -> AddOutcome:
        return self.core.add(IndexColumns.of(rows), self.now)

    def pop(self, count: int = 1_000, *, lease_ms: int = 0) -> Delivery:
        return self.core.pop_due(count, self.now, lease_ms=lease_ms)

    def pop_rows(self, count: int = 1_000, *, lease_ms: int = 0) -> list[Row]:
        return list(self.pop(count, lease_ms=lease_ms).indexes)

    def contains(self, *pairs: tuple[int, int]) -> list[bool]:
        return self.core.contains(positions(*pairs)).tolist()

    def pass_time(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        self.core.wake(self.now)

    def asked(self, kind: type[E]) -> list[E]:
        """Return the effects of one kind that wait for their result."""
        self.pending += self.core.take_effects()
        return [effect for effect in self.pending if isinstance(effect, kind)]

    def next(self, kind: type[E]) -> E:
        """Remove and return the first waiting effect of one kind."""
        effect = self.asked(kind)[0]
        self.pending.remove(effect)
        return effect

    def store(self) -> int:
        """Let the first waiting store succeed; return the bucket id."""
        effect = self.next(StoreSnapshot)
        self.last_bucket_id += 1
        sealed = seal(effect.frozen)
        self.snapshots[self.last_bucket_id] = sealed
        self.core.apply(SnapshotStored(effect.effect_id, self.last_bucket_id, sealed, snapshot_bytes=100), self.now)
        return self.last_bucket_id

    def fail_store(self) -> None:
        self.core.apply(SnapshotFailed(self.next(StoreSnapshot).effect_id), self.now)

    def segments(self, effect: LoadSegments) -> IndexColumns:
        sealed = self.snapshots[effect.bucket_id]
        starts = sealed.bounds.starts
        return sealed.indexes.take(slice(int(starts[effect.first]), int(starts[effect.last + 1])))

    def load(self) -> LoadSegments:
        """Let the first waiting load succeed."""
        effect = self.next(LoadSegments)
        self.core.apply(SegmentsLoaded(effect.effect_id, self.segments(effect)), self.now)
        return effect

    def fail_load(self, *, lost: bool = False) -> None:
        self.core.apply(SegmentLoadFailed(self.next(LoadSegments).effect_id, lost=lost), self.now)

    def perform_all(self) -> None:
        """Let all requested effects succeed, and those that follow from them."""
        while True:
            if self.asked(StoreSnapshot):
                self.store()
            elif self.asked(LoadSegments):
                self.load()
            elif self.asked(DeleteSnapshots):
                effect = self.next(DeleteSnapshots)
                for bucket_id in effect.bucket_ids:
                    self.snapshots.pop(bucket_id, None)
                self.core.apply(SnapshotsDeleted(effect.effect_id), self.now)
            else:
                return

    def drain(self) -> list[Row]:
        """Let time pass and effects succeed until no position is tracked; return the rows in delivery order."""
        rows: list[Row] = []
        while len(self.core):
            self.perform_all()
            wakeup_ms = self.next_wakeup_ms()
            assert wakeup_ms is not None
            self.pass_time(max(0, wakeup_ms - self.now_ms))
            self.perform_all()
            rows += self.pop_rows()
        return rows


def due_shell(count: int = 3, limits: TrackerLimits = STRICT) -> Shell:
    """Return a shell with positions (1, 0), (1, 1), ... that have just become due, and one that is not due."""
    shell = Shell.with_limits(limits)
    shell.add(*[(DUE_MS, 1, entry) for entry in range(count)], (LATER_MS, 2, 0))
    shell.now_ms = limits.due_from_ms(DUE_MS)
    return shell
