"""A tracker in a scenario: with a manual clock, a storage that is a dictionary, and faults on request.

``A(ledger, entry, in_ms)`` offers a position, ``due(n)`` hands out, ``restart()`` keeps only what the catalogue lists,
``rescan()`` offers every unacknowledged position again as a dispatcher does. Effects are performed at once, unless
their kind is in ``held``; kinds in ``failing`` fail.
"""

from collections.abc import Iterable
from dataclasses import replace

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import (
    DeleteFailed,
    MergeFailed,
    SegmentLoadFailed,
    SegmentsLoaded,
    SnapshotFailed,
    SnapshotsDeleted,
    SnapshotsMerged,
    SnapshotStored,
)
from delayed_tracker.core.engine.effects import DeleteSnapshots, Effect, LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.rules.recovery import RecoverableBucket, plan_recovery
from delayed_tracker.core.rules.seal import SealedIndexes, seal
from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import AddOutcome
from tests.core.harness.two_clocks import TwoClocks
from tests.core.harness.unseen import check_unseen

CREATE, LOAD, DELETE, MERGE = StoreSnapshot, LoadSegments, DeleteSnapshots, MergeSnapshots


class Desk(TwoClocks):
    """One tracker, its clock, its storage and its catalogue."""

    def __init__(
        self, *, seal_at: int = 50_000, seg: int = 5_000, tick_ms: int = 0, strict: bool = False, **limits: int
    ) -> None:
        self.limits = TrackerLimits(
            min_index_count_per_bucket=seal_at,
            max_indexes_per_segment=seg,
            tick_ms=tick_ms,
            strict=strict,
            **{"prefetch_window_ms": 0, "retry_backoff_ms": 10, **limits},
        )
        self.now_ms = 1_000_000
        self.core = TrackerCore(self.limits, epoch=1)
        self.held: set[type[Effect]] = set()
        self.failing: set[type[Effect]] = set()
        self.waiting: list[Effect] = []
        self.snapshots: dict[int, SealedIndexes] = {}
        self.catalogue: list[int] = []
        self.seal_numbers: dict[int, int] = {}
        """Seal numbers of all buckets that were ever stored."""
        self.performed: list[Effect] = []
        self.rows_read = 0
        self.unacked: dict[Position, int] = {}

    # -- what a dispatcher does

    def A(self, ledger_id: int, entry_id: int, in_ms: int) -> AddOutcome:
        return self.add([(ledger_id, entry_id, in_ms)])

    def add(self, rows: Iterable[tuple[int, int, int]]) -> AddOutcome:
        table = [(self.now_ms + in_ms, ledger_id, entry_id) for ledger_id, entry_id, in_ms in rows]
        for deliver_at_ms, ledger_id, entry_id in table:
            self.unacked.setdefault(Position(ledger_id, entry_id), deliver_at_ms)
        return self.offer(IndexColumns.of(table))

    def offer(self, indexes: IndexColumns) -> AddOutcome:
        outcome = self.core.add(indexes, self.now)
        self.perform()
        return outcome

    def due(self, count: int = 1_000, *, lease_ms: int = 0) -> list[Position]:
        delivery = self.core.pop_due(count, self.now, lease_ms=lease_ms)
        self.perform()
        return list(delivery.indexes.positions)

    def sleep(self, delta_ms: int) -> None:
        """Let time pass; call the tracker at each of its wake-ups."""
        end_ms = self.now_ms + delta_ms
        while (timer_ms := self.next_timer_ms()) is not None and timer_ms <= end_ms:
            self.now_ms = max(self.now_ms, timer_ms)
            self.core.wake(self.now)
            self.perform()
        self.now_ms = end_ms
        self.core.wake(self.now)
        self.perform()

    def drain(self) -> list[Position]:
        """Return all remaining positions in delivery order, by acting only on wake-ups."""
        handed_out: list[Position] = []
        while (wakeup_ms := self.next_wakeup_ms()) is not None:
            before = (self.now_ms, len(handed_out), len(self.performed))
            self.sleep(max(0, wakeup_ms - self.now_ms))
            handed_out += self.due()
            if before == (self.now_ms, len(handed_out), len(self.performed)):
                timer_ms = self.next_timer_ms()
                assert timer_ms is not None, "something is tracked without a wake-up"
                self.sleep(timer_ms - self.now_ms)
        return handed_out

    def tracked(self, *positions: tuple[int, int]) -> list[bool]:
        return self.core.contains(PositionColumns.of(positions)).tolist()

    def mark_delete(self, ledger_id: int, entry_id: int = -1) -> int:
        outcome = self.core.advance_mark_delete(Position(ledger_id, entry_id), self.now)
        self.unacked = {p: at for p, at in self.unacked.items() if p > (ledger_id, entry_id)}
        self.perform()
        return outcome.trimmed_count

    def rescan(self) -> list[Position]:
        """Replay every unacknowledged position; return those that the dispatcher must send now."""
        if not self.unacked:
            return []
        rows = [(at, *position) for position, at in sorted(self.unacked.items())]
        outcome = self.offer(IndexColumns.of(rows))
        return [Position(*rows[offset][1:]) for offset in outcome.due.tolist()]

    @property
    def count(self) -> int:
        return len(self.core)

    # -- the world

    def perform(self) -> None:
        """Perform effects until none but the held ones is left; check every invariant after each."""
        check_unseen(self.core)
        self.waiting += self.core.take_effects()
        while ready := [effect for effect in self.waiting if type(effect) not in self.held]:
            for effect in ready:
                self.waiting.remove(effect)
                self._perform(effect)
            check_unseen(self.core)
            self.waiting += self.core.take_effects()

    def release(self, *kinds: type[Effect]) -> None:
        self.held -= set(kinds)
        self.perform()

    def perform_newest(self, kind: type[Effect]) -> None:
        """Perform the newest held effect of one kind, before the older ones."""
        newest = [effect for effect in self.waiting if type(effect) is kind][-1]
        self.waiting.remove(newest)
        self._perform(newest)
        self.perform()

    def _perform(self, effect: Effect) -> None:
        self.performed.append(effect)
        fails = type(effect) in self.failing
        match effect:
            case StoreSnapshot() if fails:
                self.core.apply(SnapshotFailed(effect.effect_id), self.now)
            case StoreSnapshot():
                bucket_id = len(self.performed)
                sealed = seal(effect.frozen)
                self.snapshots[bucket_id] = sealed
                self.catalogue.append(bucket_id)
                self.seal_numbers[bucket_id] = effect.seal_number
                known = self.core.apply(SnapshotStored(effect.effect_id, bucket_id, sealed, snapshot_bytes=1), self.now)
                if not known:
                    self.catalogue.remove(bucket_id)
                    del self.snapshots[bucket_id]
            case LoadSegments() if effect.bucket_id not in self.snapshots:
                self.core.apply(SegmentLoadFailed(effect.effect_id, lost=True), self.now)
            case LoadSegments() if fails:
                self.core.apply(SegmentLoadFailed(effect.effect_id, lost=False), self.now)
            case LoadSegments():
                starts = self.snapshots[effect.bucket_id].bounds.starts
                rows = slice(int(starts[effect.first]), int(starts[effect.last + 1]))
                loaded = self.snapshots[effect.bucket_id].indexes.take(rows)
                self.rows_read += len(loaded)
                self.core.apply(SegmentsLoaded(effect.effect_id, loaded), self.now)
            case MergeSnapshots() if fails or any(source.bucket_id not in self.snapshots for source in effect.sources):
                self.core.apply(MergeFailed(effect.effect_id), self.now)
            case MergeSnapshots():
                self._merge(effect)
            case DeleteSnapshots() if fails:
                self.core.apply(DeleteFailed(effect.effect_id), self.now)
            case DeleteSnapshots():
                for bucket_id in effect.bucket_ids:
                    if bucket_id in self.catalogue:
                        self.catalogue.remove(bucket_id)
                    self.snapshots.pop(bucket_id, None)
                self.core.apply(SnapshotsDeleted(effect.effect_id), self.now)

    def _merge(self, effect: MergeSnapshots) -> None:
        parts = [
            indexes.take(source.live.contains(indexes.positions))
            for source in effect.sources
            if (indexes := self.snapshots[source.bucket_id].indexes)
        ]
        rows = IndexColumns.concat(parts).sorted()
        bounds = cut_segments(rows.deliver_at_ms, step_ms=effect.step_ms, count_max=effect.count_max)
        bucket_id = len(self.performed)
        self.snapshots[bucket_id] = SealedIndexes(rows, bounds, effect.first, effect.last)
        self.seal_numbers[bucket_id] = effect.seal_number
        # One update of the catalogue: removes the sources, adds the merged bucket.
        gone = {source.bucket_id for source in effect.sources}
        self.catalogue = [known for known in self.catalogue if known not in gone] + [bucket_id]
        stored = PositionBitmap.of(rows.positions)
        if not self.core.apply(
            SnapshotsMerged(effect.effect_id, bucket_id, bounds, snapshot_bytes=1, stored=stored), self.now
        ):
            self.catalogue.remove(bucket_id)
            del self.snapshots[bucket_id]

    def restart(self, **limits: int) -> None:
        """Discard the tracker; build a new one over the same snapshots and catalogue, optionally with other limits."""
        self.limits = replace(self.limits, **limits)
        buckets, lost = [], []
        for bucket_id in self.catalogue:
            sealed = self.snapshots.get(bucket_id)
            if sealed is None:
                lost.append(bucket_id)
                continue
            segments = [sealed.segment(number).positions for number in range(len(sealed.bounds))]
            buckets.append(
                RecoverableBucket(
                    bucket_id,
                    sealed.first,
                    sealed.last,
                    SegmentGroups.of(sealed.bounds),
                    segment_bits=[PositionBitmap.of(positions) for positions in segments],
                    seal_number=self.seal_numbers[bucket_id],
                )
            )
        mark_delete = self.core.mark_delete
        plan = plan_recovery(buckets, mark_delete=mark_delete, cutoff_ms=self.limits.cutoff_ms(self.now_ms))
        self.core = TrackerCore.recovered(
            self.limits,
            plan,
            epoch=self.core.epoch + 1,
            mark_delete=mark_delete,
            now=self.now,
            lost_bucket_ids=lost,
            last_seal_number=max((self.seal_numbers[bucket_id] for bucket_id in self.catalogue), default=0),
        )
        self.waiting.clear()
        self.perform()
