"""The verbs of a tracker played on the core and on the model: every answer is compared."""

import pytest
from pyroaring import BitMap

from delayed_tracker.core.engine.effects import LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import TrackerClosed
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.verb_results import MessagePlace
from tests.core.harness.unseen import check_unseen
from tests.property.model import Row
from tests.property.stored_world import StoredWorld


class World(StoredWorld):
    """Player of a script; each verb is a method."""

    def add(self, rows: list[Row]) -> None:
        frontier = self.core._state.members.frontier()
        due, duplicate, below = self.model.add(rows, self.now_ms)
        sealing, late_key = self._stores(), self.core._state.late.key
        outcome = self.core.add(IndexColumns.of(rows), self.now)
        assert outcome.due.tolist() == due
        assert outcome.duplicate.tolist() == duplicate
        assert outcome.below_mark_delete.tolist() == below
        assert outcome.added_count == len(rows) - len(due) - len(duplicate) - len(below)
        refused = {*due, *duplicate, *below}
        if any((row[1], row[2]) <= frontier for offset, row in enumerate(rows) if offset not in refused):
            self.hits["late add"] += 1
        self.settle()
        for effect in self._stores()[len(sealing) :]:
            self.hits["seal"] += 1
            if effect.frozen.bucket_number == late_key:
                self.hits["late bucket"] += 1
            elif len(effect.frozen.live) >= self.limits.mutable_indexes_max:
                self.hits["in-ledger seal"] += 1
        if any(
            bucket.memory is not None and bucket.memory.rescheduled
            for bucket in self.core._state.members.buckets.values()
        ):
            self.hits["re-dated"] += 1

    def _stores(self) -> list[StoreSnapshot]:
        return [effect for effect in self.pending if isinstance(effect, StoreSnapshot)]

    def pop(self, count: int, lease_ms: int) -> None:
        self.model.expire(self.now.elapsed_ms)
        due = self.model.due(self.now_ms)
        unloaded_min = self.core._state.segments.first_min_ms()
        delivery = self.core.pop_due(count, self.now, lease_ms=lease_ms)
        rows = list(delivery.indexes)
        assert rows == sorted(set(rows)), "in order, each once"
        assert set(rows) <= set(due), "only what is due, under its own deadline, and not leased"
        if unloaded_min is None or unloaded_min > self.limits.cutoff_ms(self.now_ms):
            assert rows == due[:count], "all that is due, earliest first"
        else:
            self.hits["pop while unloaded"] += 1
        # A lease is divided between two if there is enough.
        deliveries = self.core.divide(delivery, [1, count]) if lease_ms else [delivery]
        assert [row for each in deliveries for row in each.indexes] == rows
        for each in deliveries:
            for position in each.indexes.positions:
                if lease_ms:
                    self.model.lease(position, each.lease_id, self.now.elapsed_ms + lease_ms)
                else:
                    self.model.forget(position)
            self.last_lease_id = max(self.last_lease_id, each.lease_id)
        self.settle()

    def pop_at_next_delivery(self, count: int, lease_ms: int) -> None:
        """Poll until a poll succeeds, as a long poll does."""
        next_ms = self.core.next_delivery_ms()
        if next_ms is not None:
            self.pass_time(max(0, next_ms - self.now_ms))
            self.pop(count, lease_ms)

    def fill_buckets(self, delay_ms: int) -> None:
        """Add ledger after ledger and let every store succeed, so that a merge becomes possible."""
        for ledger_id in range(6):
            self.add([(self.now_ms + delay_ms + 7 * entry_id, ledger_id, entry_id) for entry_id in range(4)])
            self.finish_stores()

    def finish_stores(self) -> None:
        """Let every store in flight succeed."""
        for number in reversed(range(len(self.pending))):
            if isinstance(self.pending[number], StoreSnapshot):
                self.finish_effect(number, "ok")

    def take_and_reschedule(self, delay_ms: int) -> None:
        """Poll when a position is due, and give it back with a later deadline."""
        self.pop_at_next_delivery(3, 20)
        self.nack(1, [], delay_ms)

    def take_and_extend(self, lease_ms: int, whole: bool) -> None:
        """Poll when a position is due, and extend the lease of one position or of all."""
        self.pop_at_next_delivery(3, 20)
        self.extend(1, [], lease_ms, whole)

    def send_and_reschedule(self, number: int, delay_ms: int) -> None:
        """Offer a tracked position as due, so that the dispatcher sends it, and then with a new deadline."""
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

    def _stale(self, lease_id: int, positions: list[Position]) -> list[int]:
        model, elapsed_ms = self.model, self.now.elapsed_ms
        tracked = [(offset, position) for offset, position in enumerate(positions) if position in model.tracked]
        return [offset for offset, position in tracked if not model.may_ack(lease_id, position, elapsed_ms)]

    def expire_and_ack(self, number: int, count: int, wait_ms: int) -> None:
        """Lease some positions, let the lease end, and acknowledge late with this lease or an older one."""
        self.pop_at_next_delivery(count, 5)
        self.pass_time(wait_ms)
        lease_id = max(1, self.last_lease_id - number)
        late = [p for p, (ended_id, _) in self.model.ended.items() if ended_id == lease_id]
        if self.last_lease_id:
            before = len(self.model.tracked)
            self._ack(lease_id, [*late, *sorted(self.model.tracked.keys() - late)[:2]])
            self.hits["late ack"] += before > len(self.model.tracked)

    def ack(self, number: int, positions: list[Position]) -> None:
        lease_id = self._lease(number)
        if lease_id is None:
            return
        self._ack(lease_id, self._with_some_of(lease_id, positions))

    def _ack(self, lease_id: int, positions: list[Position]) -> None:
        stale = self._stale(lease_id, positions)
        unknown = [o for o, p in enumerate(positions) if p not in self.model.tracked]
        outcome = self.core.ack(lease_id, PositionColumns.of(positions), self.now)
        assert outcome.stale.tolist() == stale
        assert outcome.unknown.tolist() == unknown
        assert outcome.changed_count == len(positions) - len(stale) - len(unknown)
        if stale:
            self.hits["stale ack"] += 1
        for offset, position in enumerate(positions):
            if offset not in stale:
                self.model.forget(position)
        self.settle()

    def take_and_ack_leases(self, count: int, positions: list[Position], off_by: int) -> None:
        """Acknowledge in one call a whole lease, possibly with a wrong expected count, and some of another."""
        self.pop_at_next_delivery(count, 20)
        first, second = self._lease(0), self._lease(1)
        if first is None or second is None:
            return
        held = [position for position, holder in self.model.leased.items() if holder == first]
        some = self._with_some_of(second, positions)
        whole = LeaseAck(first, None, len(held) + off_by)
        acks = [whole, LeaseAck(second, PositionColumns.of(some))]
        all_of_it, part = self.core.ack_leases(acks, self.now)
        assert all_of_it.changed_count == (0 if off_by else len(held))
        assert not len(all_of_it.stale)
        assert not len(all_of_it.unknown)
        for position in () if off_by else held:
            self.model.forget(position)
            self.hits["whole ack"] += 1
        stale = self._stale(second, some)
        unknown = [o for o, p in enumerate(some) if p not in self.model.tracked]
        assert part.stale.tolist() == stale
        assert part.unknown.tolist() == unknown
        assert part.changed_count == len(some) - len(stale) - len(unknown)
        for offset, position in enumerate(some):
            if offset not in stale:
                self.model.forget(position)
        self.settle()

    def ack_whole(self, number: int) -> None:
        """Acknowledge all positions of one lease, by its count."""
        holders = sorted(set(self.model.leased.values()))
        if not holders:
            return
        lease_id = holders[number % len(holders)]
        held = [position for position, holder in self.model.leased.items() if holder == lease_id]
        was_full = self.core.load_share.has_waiting_trackers
        (outcome,) = self.core.ack_leases([LeaseAck(lease_id, None, len(held))], self.now)
        assert outcome.changed_count == len(held)
        for position in held:
            self.model.forget(position)
        self.hits["room made by an ack"] += was_full and not self.core.load_share.has_waiting_trackers
        self.settle()

    def nack(self, number: int, positions: list[Position], delay_ms: int | None) -> None:
        lease_id = self._lease(number)
        if lease_id is None:
            return
        positions = self._with_some_of(lease_id, positions)
        held = [o for o, p in enumerate(positions) if self.model.leased.get(p) == lease_id]
        unknown = [o for o, p in enumerate(positions) if p not in self.model.tracked]
        deliver_at_ms = None if delay_ms is None else self.now_ms + delay_ms
        outcome = self.core.nack(lease_id, PositionColumns.of(positions), self.now, deliver_at_ms=deliver_at_ms)
        assert outcome.changed_count == len(held)
        assert outcome.unknown.tolist() == unknown
        assert outcome.stale.tolist() == [o for o in range(len(positions)) if o not in held and o not in unknown]
        for offset in held:
            del self.model.leased[positions[offset]]
            self.model.ended.pop(positions[offset], None)
            if deliver_at_ms is not None:
                self.model.tracked[positions[offset]] = deliver_at_ms
                self.hits["nack to a new deadline"] += 1
        for position, (ended_id, _) in list(self.model.ended.items()):
            if ended_id == lease_id and position in positions:
                del self.model.ended[position]
        self.settle()

    def pass_time(self, delta_ms: int) -> None:
        self.now_ms += delta_ms
        before = len(self.model.leased)
        self.model.expire(self.now.elapsed_ms)
        if len(self.model.leased) < before:
            self.hits["lease expiry"] += 1
        self.core.wake(self.now)
        self.settle()

    def expire_leases(self, delta_ms: int) -> None:
        """Pass time in which leases expire and nothing else happens."""
        self.now_ms += delta_ms
        before = len(self.model.leased)
        self.model.expire(self.now.elapsed_ms)
        assert self.core.expire_leases(self.now) == before - len(self.model.leased)
        self.settle()

    def seal_mutable_bucket(self) -> None:
        """Seal the mutable bucket, as an operator requests."""
        stats = self.core.stats()
        count = 0 if self.limits.kind is TrackerKind.IN_MEMORY else stats.mutable_count
        stores = len(self._stores())
        assert self.core.seal_mutable_bucket(self.now) == count
        self.settle()
        assert len(self._stores()) == stores + bool(count)
        self.hits["explicit seal"] += bool(count)

    def step_clock(self, by_ms: int) -> None:
        """Step the wall clock forward or back; leases end at the same elapsed time."""
        self.step_wall(max(by_ms, -self.now_ms))
        self.core.wake(self.now)
        self.settle()

    def advance_mark_delete(self, position: Position) -> None:
        outcome = self.core.advance_mark_delete(position, self.now)
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
        outcome = self.core.cancel(PositionColumns.of(positions), self.now)
        assert outcome.leased.tolist() == leased
        assert outcome.unknown.tolist() == unknown
        assert outcome.cancelled_count == len(positions) - len(leased) - len(unknown)
        for offset, position in enumerate(positions):
            if offset not in leased:
                self.model.forget(position)
        self.hits["cancel"] += outcome.cancelled_count
        self.settle()

    def cancel_and_reschedule(self, number: int, delay_ms: int) -> None:
        """Cancel a tracked position and add it with another deadline, sooner or later."""
        free = sorted(position for position in self.model.tracked if position not in self.model.leased)
        if free:
            position = free[number % len(free)]
            self.cancel([position], len(self.model.tracked))
            self.add([(self.now_ms + delay_ms, *position)])
            self.hits["cancel and re-add"] += position in self.model.tracked

    def reschedule(self, offered: list[Row], number: int, delay_ms: int) -> None:
        """Give two tracked positions, wherever they are, and some others another deadline, sooner or later."""
        tracked = sorted(self.model.tracked)[number : number + 2]
        rows = [(self.now_ms + delay_ms, *position) for position in tracked]
        rows += [(self.now_ms + delay, ledger, entry) for delay, ledger, entry in offered]
        places = {(row[1], row[2]): self._place(Position(row[1], row[2])) for row in rows}
        expected = self.model.reschedule(rows, self.now_ms)
        before = self.core.stats().rescheduled_count
        outcome = self.core.reschedule(IndexColumns.of(rows), self.now)
        assert outcome.rescheduled_count == len(expected["moved"])
        assert outcome.due.tolist() == expected["due"]
        assert outcome.duplicate.tolist() == expected["duplicate"]
        assert outcome.leased.tolist() == expected["leased"]
        assert outcome.unknown.tolist() == expected["unknown"]
        assert outcome.beyond_max_delay.tolist() == expected["beyond"]
        assert self.core.stats().rescheduled_count == before + len(expected["moved"])
        for offset in expected["moved"]:
            self.hits[f"reschedule in {places[rows[offset][1:]]}"] += 1
        self.hits["reschedule to due"] += bool(expected["due"])
        self.hits["reschedule leased"] += bool(expected["leased"])
        self.settle()

    def _place(self, position: Position) -> str:
        """Return the kind of bucket or segment that has the copy of a position."""
        for bucket in self.core._state.members.buckets.values():
            if bucket.bits.contains(PositionColumns.of([position]))[0]:
                if bucket.merging:
                    return "merging bucket"
                place = self.core.explain(position, self.now).place
                return f"{bucket.state.value} bucket" if place is MessagePlace.MEMORY else place.value
        return "nowhere"

    def extend(self, number: int, positions: list[Position], lease_ms: int, whole: bool) -> None:
        lease_id = self._lease(number)
        if lease_id is None:
            return
        self.model.expire(self.now.elapsed_ms)
        held = [position for position, holder in self.model.leased.items() if holder == lease_id]
        positions = held if whole else list(dict.fromkeys([*positions, *held[:1]]))
        columns = None if whole else PositionColumns.of(positions)
        outcome = self.core.extend(lease_id, columns, self.now, lease_ms=lease_ms)
        extended = [position for position in positions if position in held]
        assert outcome.extended_count == len(extended)
        if not whole:
            stale = [o for o, p in enumerate(positions) if p in self.model.tracked and p not in held]
            assert outcome.stale.tolist() == stale
            assert outcome.unknown.tolist() == [o for o, p in enumerate(positions) if p not in self.model.tracked]
        for position in extended:
            self.model.expiry[position] = self.now.elapsed_ms + lease_ms
            self.hits["extend"] += 1
        self.settle()

    def reset_cursor(self, position: Position) -> None:
        if any(isinstance(effect, MergeSnapshots) for effect in self.pending):
            self.hits["reset during merge"] += 1
        assert self.core.reset_cursor(position, self.now) == len(self.model.tracked)
        self.model.tracked.clear()
        self.model.void_leases()
        self.model.mark_delete = position
        self.settle()

    def move_cursor(self, position: Position) -> None:
        """Move the cursor, back or forth, and keep what is above."""
        self.hits["move during merge"] += any(isinstance(effect, MergeSnapshots) for effect in self.pending)
        self.hits["move back"] += position < self.model.mark_delete
        gone = [each for each in self.model.tracked if each <= position]
        assert self.core.move_cursor(position, self.now) == len(gone)
        for dropped in gone:
            self.model.forget(dropped)
        self.model.mark_delete = position
        self.model.void_leases()
        self.record_cursor()
        self.settle()

    def move_back_and_add_again(self, position: Position, delay_ms: int) -> None:
        """Trim, move the cursor back, and add again with another deadline what was trimmed."""
        tracked = sorted(self.model.tracked)
        self.advance_mark_delete(position)
        trimmed = [each for each in tracked if each not in self.model.tracked]
        self.move_cursor(Position(0, -1))
        self.add([(self.now_ms + delay_ms + each.entry_id, *each) for each in trimmed])
        self.hits["trimmed and re-added"] += any(each in self.model.tracked for each in trimmed)

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
        assert self.core.clear(self.now) == len(self.model.tracked)
        self.model.tracked.clear()
        self.model.void_leases()
        self.settle()

    def new_owner(self) -> None:
        self.core.begin_epoch(self.core.epoch + 1, self.now)
        self.catalogue_epoch = self.core.epoch
        self.model.void_leases()
        self.settle()

    def check_contains(self, positions: list[Position]) -> None:
        found = self.core.contains(PositionColumns.of(positions))
        assert found.tolist() == [position in self.model.tracked for position in positions]

    def check_membership(self) -> None:
        reading, found = self.core.begin_membership(), set()
        while not reading.is_over:
            for ledger_id, encoded in self.core.membership_part(reading):
                entries = {Position(ledger_id, entry) for entry in BitMap.deserialize(encoded)}
                assert entries, "no bitmap is empty"
                assert not entries & found, "no position comes twice"
                found |= entries
        assert found == self.model.tracked.keys()

    def close_and_restart(self, number: int) -> None:
        """Close in order: leases end, verbs are refused, effect results still arrive. Then clear the memory."""
        self.core.close(self.now)
        self.core.close(self.now)
        self.model.void_leases()
        self.settle()
        check_unseen(self.core)
        with pytest.raises(TrackerClosed):
            self.core.add(IndexColumns.of([(self.now_ms + 10, 1, 1)]), self.now)
        with pytest.raises(TrackerClosed):
            self.core.pop_due(1, self.now, lease_ms=0)
        for _ in range(min(number, len(self.pending))):
            self.hits["result after close"] += 1
            self.finish_effect(0, "ok")
            check_unseen(self.core)
        self.restart()

    def play(self, step: tuple[object, ...]) -> None:
        """Play one step of a script, and check every invariant after it."""
        verb, *arguments = step
        if verb == "add":
            (offered,) = arguments
            self.add([(self.now_ms + delay, ledger, entry) for delay, ledger, entry in offered])
        else:
            getattr(self, str(verb))(*arguments)
        check_unseen(self.core)

    def lose_next_load(self) -> None:
        """Wait until the next segment is to be loaded, and lose its snapshot."""
        timer_ms = self.next_timer_ms()
        if timer_ms is not None:
            self.pass_time(max(0, timer_ms - self.now_ms))
        for number, effect in enumerate(self.pending):
            if isinstance(effect, LoadSegments):
                self.finish_effect(number, "lost")
                return

    def drain(self) -> None:
        """Check that every tracked position comes out exactly once with a healthy storage and enough time."""
        for _ in range(200):
            while self.pending:
                self.finish_effect(0, "ok")
            check_unseen(self.core)
            if not self.model.tracked:
                break
            wakeup_ms = self.next_wakeup_ms()
            assert wakeup_ms is not None, "something is tracked, so there must be a wake-up"
            self.pass_time(max(0, wakeup_ms - self.now_ms))
            self.pop(100, 0)
            next_ms = self.next_wakeup_ms()
            if not self.pending and next_ms is not None and next_ms <= self.now_ms:
                timer_ms = self.next_timer_ms()
                assert timer_ms is not None, "what is due but cannot be loaded now has a retry"
                self.pass_time(max(0, timer_ms - self.now_ms))
        assert not self.model.tracked, "nothing is lost"
        while self.pending:
            self.finish_effect(0, "ok")
        while (wakeup_ms := self.next_wakeup_ms()) is not None:
            self.pass_time(max(1, wakeup_ms - self.now_ms))
            while self.pending:
                self.finish_effect(0, "ok")
        assert not self.catalogue, "drained buckets are deleted"
        assert self.core.stats().loaded_count == 0
