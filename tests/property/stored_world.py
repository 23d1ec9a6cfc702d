"""A tracker beside its model, and a storage of dictionaries: every fate of an effect, and the state after a crash."""

from collections import Counter

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
from tests.core.harness.two_clocks import TwoClocks
from tests.core.harness.unseen import check_unseen
from tests.property.model import Model, Row


class StoredWorld(TwoClocks):
    """The core, its model, and the stored content; ``hits`` counts the rare paths that were taken."""

    def __init__(self, limits: TrackerLimits) -> None:
        self.limits = limits
        self.now_ms = 1_000
        self.core = TrackerCore(limits, epoch=1)
        self.model = Model(limits)
        self.pending: list[Effect] = []
        self.stored: dict[int, SealedIndexes] = {}
        self.catalogue: dict[int, SealedIndexes] = {}
        self.seal_numbers: dict[int, int] = {}
        """Seal numbers of the buckets of the catalogue, except foreign ones."""
        self.consumed: dict[int, PositionBitmap] = {}
        """Positions of buckets of the catalogue that are on record as consumed: those of a move of the cursor."""
        self.foreign: set[int] = set()
        """Buckets of the catalogue that another kind of tracker wrote."""
        self.in_force: dict[Position, tuple[int, int]] = {}
        """Deadline of each tracked position, and the highest seal number before the position got it.

        Only snapshots with a higher number can have stored it, though an older one may have the same deadline.
        """
        self.passed_over: set[Position] = set()
        """Positions that a recovery found due in some bucket: an older bucket may have brought them back since."""
        self.catalogue_epoch = 1
        self.next_bucket_id = 1
        self.last_lease_id = 0
        self.hits: Counter[str] = Counter()
        self._last_seal_number = 0
        """Highest seal number at the end of the last call."""

    def settle(self) -> None:
        """Drain effects after each call, and make the cheap comparisons."""
        self.pending += self.core.take_effects()
        assert len(self.core) == len(self.model.tracked)
        self._note_in_force()
        if self.core._state.defers:
            # Looking at the counts puts bits in their places: what holds before is seen now or never.
            check_unseen(self.core)
        stats = self.core.stats()
        assert stats.leased_count == len(self.model.leased)
        assert stats.pending_count == len(self.model.tracked) - len(self.model.leased)

    def _note_in_force(self) -> None:
        before, self.in_force = self.in_force, {}
        for position, deliver_at_ms in self.model.tracked.items():
            known = before.get(position)
            is_same = known is not None and known[0] == deliver_at_ms
            self.in_force[position] = known if is_same else (deliver_at_ms, self._last_seal_number)
        self._last_seal_number = self.core._state.last_seal_number

    def finish_effect(self, number: int, fate: str) -> None:
        """Make one pending effect succeed, fail, or find its snapshot lost."""
        if not self.pending:
            return
        effect = self.pending.pop(number % len(self.pending))
        match effect:
            case StoreSnapshot():
                self._store(effect, fate)
            case LoadSegments():
                self._load(effect, fate)
            case DeleteSnapshots():
                self._delete(effect, fate)
            case MergeSnapshots():
                self._merge(effect, fate)
        self.settle()

    def fail_next_store(self) -> None:
        """Fail the oldest store in flight."""
        for number, effect in enumerate(self.pending):
            if isinstance(effect, StoreSnapshot):
                self.finish_effect(number, "fail")
                return

    def _store(self, effect: StoreSnapshot, fate: str) -> None:
        stale = effect.epoch < self.catalogue_epoch
        if fate != "ok" or stale:
            self.hits["failed store"] += fate != "ok"
            self.hits["stale epoch"] += stale
            self.core.apply(SnapshotFailed(effect.effect_id), self.now)
            return
        bucket_id, self.next_bucket_id = self.next_bucket_id, self.next_bucket_id + 1
        sealed = seal(effect.frozen)
        self.stored[bucket_id] = self.catalogue[bucket_id] = sealed
        self.seal_numbers[bucket_id] = effect.seal_number
        if not self.core.apply(SnapshotStored(effect.effect_id, bucket_id, sealed, snapshot_bytes=100), self.now):
            self.hits["stale epoch"] += 1
            del self.stored[bucket_id], self.catalogue[bucket_id]

    def _load(self, effect: LoadSegments, fate: str) -> None:
        if fate == "ok" and effect.bucket_id in self.stored:
            sealed = self.stored[effect.bucket_id]
            starts = sealed.bounds.starts
            rows = sealed.indexes.take(slice(int(starts[effect.first]), int(starts[effect.last + 1])))
            self.hits["load"] += self.core.apply(SegmentsLoaded(effect.effect_id, rows), self.now)
            return
        lost = fate == "lost" or effect.bucket_id not in self.stored
        dropped = self.core.stats().dropped_as_corrupt_count
        if self.core.apply(SegmentLoadFailed(effect.effect_id, lost=lost), self.now) and lost:
            sealed = self.stored[effect.bucket_id]
            unread = sealed.indexes.take(slice(int(sealed.bounds.starts[effect.first]), None))
            behind = {(ledger_id, entry_id) for _, ledger_id, entry_id in unread}
            for position in [p for p in self.model.tracked if tuple(p) in behind]:
                if not self.core.contains(PositionColumns.of([position]))[0]:
                    self.model.forget(position)
                    dropped += 1
                    self.hits["lost snapshot"] += 1
            assert self.core.replay_required
        assert self.core.stats().dropped_as_corrupt_count == dropped

    def _delete(self, effect: DeleteSnapshots, fate: str) -> None:
        if fate != "ok" or effect.epoch < self.catalogue_epoch:
            self.core.apply(DeleteFailed(effect.effect_id), self.now)
            return
        self.catalogue_epoch = effect.epoch
        for bucket_id in effect.bucket_ids:
            self.catalogue.pop(bucket_id, None)
            self.stored.pop(bucket_id, None)
        self.core.apply(SnapshotsDeleted(effect.effect_id), self.now)

    def _merge(self, effect: MergeSnapshots, fate: str) -> None:
        ids = [source.bucket_id for source in effect.sources]
        stale = effect.epoch < self.catalogue_epoch
        if fate == "lost":
            tracked = dict(self.model.tracked)
            if self.core.apply(MergeFailed(effect.effect_id, lost_bucket_ids=tuple(ids[:1])), self.now):
                for position in tracked:
                    if not self.core.contains(PositionColumns.of([position]))[0]:
                        self.model.forget(position)
                        self.hits["lost snapshot"] += 1
            return
        if fate != "ok" or stale or any(bucket_id not in self.catalogue for bucket_id in ids):
            self.hits["failed merge"] += 1
            self.core.apply(MergeFailed(effect.effect_id), self.now)
            return
        parts = [self.stored[source.bucket_id].indexes for source in effect.sources]
        live = [
            part.take(source.live.contains(part.positions)) for part, source in zip(parts, effect.sources, strict=True)
        ]
        rows = IndexColumns.concat(live).sorted()
        bounds = cut_segments(rows.deliver_at_ms, step_ms=effect.step_ms, count_max=effect.count_max)
        bucket_id, self.next_bucket_id = self.next_bucket_id, self.next_bucket_id + 1
        self.stored[bucket_id] = self.catalogue[bucket_id] = SealedIndexes(rows, bounds, effect.first, effect.last)
        self.seal_numbers[bucket_id] = effect.seal_number
        for source_id in ids:
            del self.catalogue[source_id]
        stored = PositionBitmap.of(rows.positions)
        if self.core.apply(
            SnapshotsMerged(effect.effect_id, bucket_id, bounds, snapshot_bytes=100, stored=stored), self.now
        ):
            self.hits["merge"] += 1
        else:
            self.hits["stale epoch"] += 1
            del self.stored[bucket_id], self.catalogue[bucket_id]

    def restart(self) -> None:
        """Crash: only the catalogue and its snapshots are left."""
        cutoff_ms = self.limits.cutoff_ms(self.now_ms)
        buckets, expected = [], {}
        stored_now = set()
        for bucket_id, sealed in sorted(self.catalogue.items(), key=self._precedence):
            groups = SegmentGroups.of(sealed.bounds, self.limits.segment_groups_max)
            segments = [sealed.segment(number) for number in range(len(sealed.bounds))]
            buckets.append(
                RecoverableBucket(
                    bucket_id,
                    sealed.first,
                    sealed.last,
                    groups,
                    segment_bits=[PositionBitmap.of(segment.positions) for segment in segments],
                    consumed=self.consumed.get(bucket_id, PositionBitmap()),
                    seal_number=self.seal_numbers.get(bucket_id),
                    is_foreign=bucket_id in self.foreign,
                )
            )
            alive = False
            for number, segment in enumerate(segments):
                alive = alive or int(groups.bounds.max_deliver_at_ms[number // groups.each]) > cutoff_ms
                for deliver_at_ms, ledger_id, entry_id in segment if alive else ():
                    if self._is_consumed(bucket_id, Position(ledger_id, entry_id)):
                        self.hits["consumed at a move"] += Position(ledger_id, entry_id) > self.model.mark_delete
                    elif Position(ledger_id, entry_id) > self.model.mark_delete:
                        self.hits["overlapping recovery"] += (ledger_id, entry_id) in expected
                        self.hits["foreign recovery"] += bucket_id in self.foreign
                        expected.setdefault(Position(ledger_id, entry_id), deliver_at_ms)
                        known_ms, before = self.in_force.get(Position(ledger_id, entry_id), (None, 0))
                        if deliver_at_ms == known_ms and self.seal_numbers.get(bucket_id, 0) > before:
                            stored_now.add(Position(ledger_id, entry_id))
                if not alive:
                    self.passed_over.update(segment.positions)
        for position in stored_now - self.passed_over:
            assert expected[position] == self.model.tracked[position], "what was in force and is stored stays in force"
        plan = plan_recovery(buckets[::-1], mark_delete=self.model.mark_delete, cutoff_ms=cutoff_ms)
        self.catalogue_epoch += 1
        self.core = TrackerCore.recovered(
            self.limits,
            plan,
            epoch=self.catalogue_epoch,
            mark_delete=self.model.mark_delete,
            now=self.now,
            last_seal_number=max((self.seal_numbers.get(bucket_id, 0) for bucket_id in self.catalogue), default=0),
        )
        self.hits["restart with buckets"] += bool(expected)
        self.model.tracked = expected
        self.in_force = {position: (deliver_at_ms, 0) for position, deliver_at_ms in expected.items()}
        self.model.void_leases()
        self.pending.clear()
        self.stored = dict(self.catalogue)
        self.last_lease_id = 0
        self.settle()

    def _is_consumed(self, bucket_id: int, position: Position) -> bool:
        return bucket_id in self.consumed and self.consumed[bucket_id].has(position)

    def record_cursor(self) -> None:
        """Record what is consumed of every bucket of the catalogue, under the present epoch, as the service does."""
        remaining = self.core.remaining()
        for bucket_id, sealed in self.catalogue.items():
            self.consumed[bucket_id] = PositionBitmap.of(sealed.indexes.positions)
            self.consumed[bucket_id].subtract(remaining.get(bucket_id, PositionBitmap()))
        self.catalogue_epoch = self.core.epoch

    def store_and_restart(self) -> None:
        """Let every effect in flight succeed, then crash."""
        while self.pending:
            self.finish_effect(0, "ok")
        self.restart()

    def _precedence(self, bucket: tuple[int, SealedIndexes]) -> tuple[int, ...]:
        """Return the order of precedence of a bucket's copies.

        Our buckets come before foreign ones: ours by latest seal number, foreign ones by widest range.
        """
        bucket_id, sealed = bucket
        if bucket_id not in self.foreign:
            return (0, -self.seal_numbers[bucket_id])
        return (1, *sealed.first, *(-part for part in sealed.last), bucket_id)

    def restart_beside_foreign(self, rows: list[Row]) -> None:
        """Crash, and find one more bucket in the catalogue, whatever it overlaps."""
        table = {(ledger_id, entry_id): self.now_ms + delay_ms for delay_ms, ledger_id, entry_id in rows}
        indexes = IndexColumns.of([(at_ms, *place) for place, at_ms in table.items()]).sorted()
        limits = self.limits
        bounds = cut_segments(
            indexes.deliver_at_ms, step_ms=limits.max_step_per_segment_ms, count_max=limits.max_indexes_per_segment
        )
        bucket_id, self.next_bucket_id = self.next_bucket_id, self.next_bucket_id + 1
        self.catalogue[bucket_id] = SealedIndexes(indexes, bounds, Position(*min(table)), Position(*max(table)))
        self.foreign.add(bucket_id)
        self.restart()
