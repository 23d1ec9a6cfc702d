"""The core beside a naive model, and a storage that is just dictionaries: what random verbs are played on."""

from collections import Counter
from dataclasses import dataclass, field

from tracker.core.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from tracker.core.core import TrackerCore
from tracker.core.effects import DeleteSnapshots, Effect, LoadSegments, MergeSnapshots, StoreSnapshot
from tracker.core.limits import TrackerLimits
from tracker.core.position_bitmap import PositionBitmap
from tracker.core.recovery import RecoverableBucket, plan_recovery
from tracker.core.seal import SealedIndexes, seal
from tracker.core.segment import cut_segments

Row = tuple[int, int, int]


@dataclass
class Model:
    """A dict and a sort: what the tracker must be equal to."""

    limits: TrackerLimits
    tracked: dict[Position, int] = field(default_factory=dict)
    leased: dict[Position, int] = field(default_factory=dict)
    expiry: dict[Position, int] = field(default_factory=dict)
    """When the lease of a leased position ends."""
    mark_delete: Position = BEFORE_ALL

    def add(self, rows: list[Row], now_ms: int) -> tuple[list[int], list[int], list[int]]:
        """Offsets answered due, duplicate, below mark-delete."""
        due, duplicate, below, seen = [], [], [], set()
        for offset, (deliver_at_ms, ledger_id, entry_id) in enumerate(rows):
            position = Position(ledger_id, entry_id)
            if position <= self.mark_delete:
                below.append(offset)
            elif position in seen or position in self.leased:
                duplicate.append(offset)
            elif deliver_at_ms <= self.limits.cutoff_ms(now_ms):
                due.append(offset)
                self.tracked.pop(position, None)
            elif position in self.tracked:
                duplicate.append(offset)
            else:
                self.tracked[position] = deliver_at_ms
            seen.add(position)
        return due, duplicate, below

    def due(self, now_ms: int) -> list[Row]:
        cutoff_ms = self.limits.cutoff_ms(now_ms)
        return sorted(
            (deliver_at_ms, *position)
            for position, deliver_at_ms in self.tracked.items()
            if position not in self.leased and deliver_at_ms <= cutoff_ms
        )

    def expire(self, now_ms: int) -> None:
        self.leased = {
            position: lease_id for position, lease_id in self.leased.items() if self.expiry[position] > now_ms
        }

    def void_leases(self) -> None:
        self.leased.clear()

    def forget(self, position: Position) -> None:
        self.tracked.pop(position, None)
        self.leased.pop(position, None)


class World:
    """Plays verbs on the core and the model and compares; ``hits`` counts the rare paths that were taken."""

    def __init__(self, limits: TrackerLimits) -> None:
        self.limits = limits
        self.now_ms = 1_000
        self.core = TrackerCore(limits, epoch=1)
        self.model = Model(limits)
        self.pending: list[Effect] = []
        self.stored: dict[int, SealedIndexes] = {}
        self.catalogue: dict[int, SealedIndexes] = {}
        self.catalogue_epoch = 1
        self.next_bucket_id = 1
        self.last_lease_id = 0
        self.hits: Counter[str] = Counter()

    def settle(self) -> None:
        """After each step: drain effects, verify the invariants, compare what can be compared."""
        self.pending += self.core.take_effects()
        self.core.check()
        assert len(self.core) == len(self.model.tracked)
        stats = self.core.stats()
        assert stats.leased_count == len(self.model.leased)
        assert stats.pending_count == len(self.model.tracked) - len(self.model.leased)

    def add(self, rows: list[Row]) -> None:
        frontier = self.core._state.members.frontier()
        due, duplicate, below = self.model.add(rows, self.now_ms)
        sealing = sum(isinstance(effect, StoreSnapshot) for effect in self.pending)
        outcome = self.core.add(IndexColumns.of(rows), self.now_ms)
        assert outcome.due.tolist() == due
        assert outcome.duplicate.tolist() == duplicate
        assert outcome.below_mark_delete.tolist() == below
        assert outcome.added_count == len(rows) - len(due) - len(duplicate) - len(below)
        refused = {*due, *duplicate, *below}
        if any((row[1], row[2]) <= frontier for offset, row in enumerate(rows) if offset not in refused):
            self.hits["late add"] += 1
        self.settle()
        if sum(isinstance(effect, StoreSnapshot) for effect in self.pending) > sealing:
            self.hits["seal"] += 1
        if any(home.memory is not None and home.memory.redated for home in self.core._state.members.homes.values()):
            self.hits["re-dated"] += 1

    def pop(self, count: int, lease_ms: int) -> None:
        self.model.expire(self.now_ms)
        due = self.model.due(self.now_ms)
        unloaded_min = self.core._state.segments.first_min_ms()
        delivery = self.core.pop_due(count, self.now_ms, lease_ms=lease_ms)
        rows = list(delivery.indexes)
        assert rows == sorted(set(rows)), "in order, each once"
        assert set(rows) <= set(due), "only what is due, under its own deadline, and not leased"
        if unloaded_min is None or unloaded_min > self.limits.cutoff_ms(self.now_ms):
            assert rows == due[:count], "all that is due, earliest first"
        else:
            self.hits["pop while unloaded"] += 1
        for _, ledger_id, entry_id in rows:
            position = Position(ledger_id, entry_id)
            if lease_ms:
                self.model.leased[position] = delivery.lease_id
                self.model.expiry[position] = self.now_ms + lease_ms
            else:
                self.model.forget(position)
        self.last_lease_id = max(self.last_lease_id, delivery.lease_id)
        self.settle()

    def pop_at_next_delivery(self, count: int, lease_ms: int) -> None:
        """Do what a long poll does: wait until a poll succeeds."""
        next_ms = self.core.next_delivery_ms()
        if next_ms is not None:
            self.pass_time(max(0, next_ms - self.now_ms))
            self.pop(count, lease_ms)

    def fill_buckets(self, delay_ms: int) -> None:
        """Add ledger after ledger and let every store succeed, so that there is something to merge."""
        for ledger_id in range(6):
            self.add([(self.now_ms + delay_ms + 7 * entry_id, ledger_id, entry_id) for entry_id in range(4)])
            for number in reversed(range(len(self.pending))):
                if isinstance(self.pending[number], StoreSnapshot):
                    self.finish_effect(number, "ok")

    def take_and_date_anew(self, delay_ms: int) -> None:
        """Poll when something is due, and give it back for later."""
        self.pop_at_next_delivery(3, 20)
        self.nack(1, [], delay_ms)

    def take_and_extend(self, lease_ms: int, whole: bool) -> None:
        """Poll when something is due, and ask for more time for one of it, or for all."""
        self.pop_at_next_delivery(3, 20)
        self.extend(1, [], lease_ms, whole)

    def send_and_date_anew(self, number: int, delay_ms: int) -> None:
        """Offer a tracked position when it is due, so that the dispatcher sends it, and then with a new deadline."""
        free = sorted(position for position in self.model.tracked if position not in self.model.leased)
        if free:
            position = free[number % len(free)]
            self.add([(0, *position)])
            self.add([(self.now_ms + delay_ms, *position)])

    def _lease(self, number: int) -> int | None:
        held = sorted(set(self.model.leased.values()))
        if held and number % 3:
            return held[number % len(held)]
        return max(1, self.last_lease_id - number) if self.last_lease_id else None

    def _with_some_of(self, lease_id: int, positions: list[Position]) -> list[Position]:
        held = [position for position, holder in self.model.leased.items() if holder == lease_id]
        return list(dict.fromkeys([*positions, *held[:3]]))

    def ack(self, number: int, positions: list[Position]) -> None:
        lease_id = self._lease(number)
        if lease_id is None:
            return
        positions = self._with_some_of(lease_id, positions)
        stale = [o for o, p in enumerate(positions) if self.model.leased.get(p, lease_id) != lease_id]
        unknown = [o for o, p in enumerate(positions) if p not in self.model.tracked]
        outcome = self.core.ack(lease_id, PositionColumns.of(positions), self.now_ms)
        assert outcome.stale.tolist() == stale
        assert outcome.unknown.tolist() == unknown
        assert outcome.changed_count == len(positions) - len(stale) - len(unknown)
        if stale:
            self.hits["stale ack"] += 1
        for offset, position in enumerate(positions):
            if offset not in stale:
                self.model.forget(position)
        self.settle()

    def nack(self, number: int, positions: list[Position], delay_ms: int | None) -> None:
        lease_id = self._lease(number)
        if lease_id is None:
            return
        positions = self._with_some_of(lease_id, positions)
        held = [o for o, p in enumerate(positions) if self.model.leased.get(p) == lease_id]
        unknown = [o for o, p in enumerate(positions) if p not in self.model.tracked]
        deliver_at_ms = None if delay_ms is None else self.now_ms + delay_ms
        outcome = self.core.nack(lease_id, PositionColumns.of(positions), self.now_ms, deliver_at_ms=deliver_at_ms)
        assert outcome.changed_count == len(held)
        assert outcome.unknown.tolist() == unknown
        assert outcome.stale.tolist() == [o for o in range(len(positions)) if o not in held and o not in unknown]
        for offset in held:
            del self.model.leased[positions[offset]]
            if deliver_at_ms is not None:
                self.model.tracked[positions[offset]] = deliver_at_ms
                self.hits["nack to a new deadline"] += 1
        self.settle()

    def pass_time(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        before = len(self.model.leased)
        self.model.expire(self.now_ms)
        if len(self.model.leased) < before:
            self.hits["lease expiry"] += 1
        self.core.wake(self.now_ms)
        self.settle()

    def set_clock_back(self, by_ms: int) -> None:
        self.now_ms -= by_ms
        self.core.set_clock_back(by_ms)
        self.model.expiry = {position: at_ms - by_ms for position, at_ms in self.model.expiry.items()}
        self.core.wake(self.now_ms)
        self.settle()

    def advance_mark_delete(self, position: Position) -> None:
        outcome = self.core.advance_mark_delete(position, self.now_ms)
        if any(isinstance(effect, StoreSnapshot) for effect in self.pending):
            self.hits["trim during create"] += position > self.model.mark_delete
        self.model.mark_delete = max(self.model.mark_delete, position)
        gone = [p for p in self.model.tracked if p <= self.model.mark_delete]
        for dropped in gone:
            self.model.forget(dropped)
        assert outcome.mark_delete == self.model.mark_delete
        assert outcome.trimmed_count == len(gone)
        if gone:
            self.hits["trim"] += 1
        self.settle()

    def cancel(self, positions: list[Position], number: int) -> None:
        tracked = sorted(self.model.tracked)
        positions = list(dict.fromkeys([*positions, *tracked[number : number + 2]]))
        leased = [o for o, p in enumerate(positions) if p in self.model.leased]
        unknown = [o for o, p in enumerate(positions) if p not in self.model.tracked]
        outcome = self.core.cancel(PositionColumns.of(positions), self.now_ms)
        assert outcome.leased.tolist() == leased
        assert outcome.unknown.tolist() == unknown
        assert outcome.cancelled_count == len(positions) - len(leased) - len(unknown)
        for offset, position in enumerate(positions):
            if offset not in leased:
                self.model.forget(position)
        self.hits["cancel"] += outcome.cancelled_count
        self.settle()

    def cancel_and_date_anew(self, number: int, delay_ms: int) -> None:
        """Cancel a tracked position and add it with another deadline, sooner or later."""
        free = sorted(position for position in self.model.tracked if position not in self.model.leased)
        if free:
            position = free[number % len(free)]
            self.cancel([position], len(self.model.tracked))
            self.add([(self.now_ms + delay_ms, *position)])
            self.hits["cancel and re-add"] += position in self.model.tracked

    def extend(self, number: int, positions: list[Position], lease_ms: int, whole: bool) -> None:
        lease_id = self._lease(number)
        if lease_id is None:
            return
        self.model.expire(self.now_ms)
        held = [position for position, holder in self.model.leased.items() if holder == lease_id]
        positions = held if whole else list(dict.fromkeys([*positions, *held[:1]]))
        columns = None if whole else PositionColumns.of(positions)
        outcome = self.core.extend(lease_id, columns, self.now_ms, lease_ms=lease_ms)
        extended = [position for position in positions if position in held]
        assert outcome.extended_count == len(extended)
        if not whole:
            stale = [o for o, p in enumerate(positions) if p in self.model.tracked and p not in held]
            assert outcome.stale.tolist() == stale
            assert outcome.unknown.tolist() == [o for o, p in enumerate(positions) if p not in self.model.tracked]
        for position in extended:
            self.model.expiry[position] = self.now_ms + lease_ms
            self.hits["extend"] += 1
        self.settle()

    def reset_cursor(self, position: Position) -> None:
        if any(isinstance(effect, MergeSnapshots) for effect in self.pending):
            self.hits["reset during merge"] += 1
        assert self.core.reset_cursor(position, self.now_ms) == len(self.model.tracked)
        self.model.tracked.clear()
        self.model.void_leases()
        self.model.mark_delete = position
        self.settle()

    def check_filter(self, ledger_id: int, first_entry: int, width: int) -> None:
        readable = [
            entry
            for low, high in self.core.filter_range(ledger_id, first_entry, first_entry + width)
            for entry in range(low, high + 1)
        ]
        entries = range(first_entry, first_entry + width + 1)
        assert readable == [entry for entry in entries if Position(ledger_id, entry) not in self.model.tracked]

    def clear(self) -> None:
        if any(isinstance(effect, StoreSnapshot | LoadSegments) for effect in self.pending):
            self.hits["clear while in flight"] += 1
        assert self.core.clear(self.now_ms) == len(self.model.tracked)
        self.model.tracked.clear()
        self.model.void_leases()
        self.settle()

    def new_owner(self) -> None:
        self.core.begin_epoch(self.core.epoch + 1, self.now_ms)
        self.catalogue_epoch = self.core.epoch
        self.model.void_leases()
        self.settle()

    def check_contains(self, positions: list[Position]) -> None:
        found = self.core.contains(PositionColumns.of(positions))
        assert found.tolist() == [position in self.model.tracked for position in positions]

    # -- results of effects

    def finish_effect(self, number: int, fate: str) -> None:
        """Let one pending effect succeed, fail, or find its snapshot lost."""
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

    def lose_next_load(self) -> None:
        """Wait for the next segment to be wanted, and lose its snapshot."""
        timer_ms = self.core.next_timer_ms()
        if timer_ms is not None:
            self.pass_time(max(0, timer_ms - self.now_ms))
        for number, effect in enumerate(self.pending):
            if isinstance(effect, LoadSegments):
                self.finish_effect(number, "lost")
                return

    def fail_next_store(self) -> None:
        """Fail the oldest store under way."""
        for number, effect in enumerate(self.pending):
            if isinstance(effect, StoreSnapshot):
                self.finish_effect(number, "fail")
                return

    def _store(self, effect: StoreSnapshot, fate: str) -> None:
        stale = effect.epoch < self.catalogue_epoch
        if fate != "ok" or stale:
            self.hits["failed store"] += fate != "ok"
            self.hits["stale epoch"] += stale
            self.core.snapshot_failed(effect.effect_id, self.now_ms)
            return
        bucket_id, self.next_bucket_id = self.next_bucket_id, self.next_bucket_id + 1
        sealed = seal(effect.frozen)
        self.stored[bucket_id] = self.catalogue[bucket_id] = sealed
        if not self.core.snapshot_stored(effect.effect_id, bucket_id, sealed, snapshot_bytes=100, now_ms=self.now_ms):
            self.hits["stale epoch"] += 1
            del self.stored[bucket_id], self.catalogue[bucket_id]

    def _load(self, effect: LoadSegments, fate: str) -> None:
        if fate == "ok" and effect.bucket_id in self.stored:
            sealed = self.stored[effect.bucket_id]
            starts = sealed.bounds.starts
            rows = sealed.indexes.take(slice(int(starts[effect.first]), int(starts[effect.last + 1])))
            self.hits["load"] += self.core.segments_loaded(effect.effect_id, rows, self.now_ms)
            return
        lost = fate == "lost" or effect.bucket_id not in self.stored
        dropped = self.core.stats().dropped_as_corrupt_count
        if self.core.segment_load_failed(effect.effect_id, self.now_ms, lost=lost) and lost:
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
            self.core.delete_failed(effect.effect_id, self.now_ms)
            return
        self.catalogue_epoch = effect.epoch
        for bucket_id in effect.bucket_ids:
            self.catalogue.pop(bucket_id, None)
            self.stored.pop(bucket_id, None)
        self.core.snapshots_deleted(effect.effect_id)

    def _merge(self, effect: MergeSnapshots, fate: str) -> None:
        ids = [source.bucket_id for source in effect.sources]
        stale = effect.epoch < self.catalogue_epoch
        if fate == "lost":
            tracked = dict(self.model.tracked)
            if self.core.merge_failed(effect.effect_id, self.now_ms, lost_bucket_ids=ids[:1]):
                for position in tracked:
                    if not self.core.contains(PositionColumns.of([position]))[0]:
                        self.model.forget(position)
                        self.hits["lost snapshot"] += 1
            return
        if fate != "ok" or stale or any(bucket_id not in self.catalogue for bucket_id in ids):
            self.hits["failed merge"] += 1
            self.core.merge_failed(effect.effect_id, self.now_ms)
            return
        parts = [self.stored[source.bucket_id].indexes for source in effect.sources]
        live = [
            part.take(source.live.contains(part.positions)) for part, source in zip(parts, effect.sources, strict=True)
        ]
        rows = IndexColumns.concat(live).sorted()
        bounds = cut_segments(rows.deliver_at_ms, step_ms=effect.step_ms, count_max=effect.count_max)
        bucket_id, self.next_bucket_id = self.next_bucket_id, self.next_bucket_id + 1
        self.stored[bucket_id] = self.catalogue[bucket_id] = SealedIndexes(rows, bounds, effect.first, effect.last)
        for source_id in ids:
            del self.catalogue[source_id]
        stored = PositionBitmap.of(rows.positions)
        if self.core.snapshots_merged(
            effect.effect_id, bucket_id, bounds, snapshot_bytes=100, stored=stored, now_ms=self.now_ms
        ):
            self.hits["merge"] += 1
        else:
            self.hits["stale epoch"] += 1
            del self.stored[bucket_id], self.catalogue[bucket_id]

    def restart(self) -> None:
        """Crash: only the catalogue and its snapshots are left."""
        cutoff_ms = self.limits.cutoff_ms(self.now_ms)
        buckets, expected = [], {}
        for bucket_id, sealed in sorted(self.catalogue.items(), reverse=True):  # of two copies the newest counts
            segments = [sealed.segment(number) for number in range(len(sealed.bounds))]
            bits = [PositionBitmap.of(segment.positions) for segment in segments]
            buckets.append(RecoverableBucket(bucket_id, sealed.first, sealed.last, sealed.bounds, segment_bits=bits))
            alive = False
            for segment in segments:
                alive = alive or int(segment.deliver_at_ms[-1]) > cutoff_ms
                for deliver_at_ms, ledger_id, entry_id in segment if alive else ():
                    if Position(ledger_id, entry_id) > self.model.mark_delete:
                        expected.setdefault(Position(ledger_id, entry_id), deliver_at_ms)
        plan = plan_recovery(buckets, mark_delete=self.model.mark_delete, cutoff_ms=cutoff_ms)
        self.catalogue_epoch += 1
        self.core = TrackerCore.recovered(
            self.limits, plan, epoch=self.catalogue_epoch, mark_delete=self.model.mark_delete, now_ms=self.now_ms
        )
        self.hits["restart with buckets"] += bool(expected)
        self.model.tracked = expected
        self.model.void_leases()
        self.pending.clear()
        self.stored = dict(self.catalogue)
        self.last_lease_id = 0
        self.settle()

    def store_and_restart(self) -> None:
        """Let everything under way succeed, then crash."""
        while self.pending:
            self.finish_effect(0, "ok")
        self.restart()

    def drain(self) -> None:
        """With a healthy storage and enough time, every tracked position comes out exactly once."""
        for _ in range(200):
            while self.pending:
                self.finish_effect(0, "ok")
            if not self.model.tracked:
                break
            wakeup_ms = self.core.next_wakeup_ms()
            assert wakeup_ms is not None, "something is tracked, so somebody must wake up"
            self.pass_time(max(0, wakeup_ms - self.now_ms))
            self.pop(100, 0)
            next_ms = self.core.next_wakeup_ms()
            if not self.pending and next_ms is not None and next_ms <= self.now_ms:
                timer_ms = self.core.next_timer_ms()
                assert timer_ms is not None, "what is due but cannot be loaded now has a retry"
                self.pass_time(max(0, timer_ms - self.now_ms))
        assert not self.model.tracked, "nothing is lost"
        while self.pending:
            self.finish_effect(0, "ok")
        while (wakeup_ms := self.core.next_wakeup_ms()) is not None:
            self.pass_time(max(1, wakeup_ms - self.now_ms))
            while self.pending:
                self.finish_effect(0, "ok")
        assert not self.catalogue, "drained buckets are deleted"
        assert self.core.stats().loaded_count == 0
