"""The verbs that bring positions in, and take them back before anybody has them."""

import numpy as np

from delayed_tracker.core.results import EffectResults
from delayed_tracker.core.rules.placement import SealTarget, Stop, first_stop
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.limits import TrackerKind
from delayed_tracker.core.values.verb_results import AddOutcome, CancelOutcome


class AddingVerbs(EffectResults):
    """Add, cancel, and seal what was added."""

    def add(self, indexes: IndexColumns, now: Instant) -> AddOutcome:
        """Track indexes, in order, in one step; any order of ledgers is legal.

        Of a position repeated in the batch the first wins. A leased position stays as it is; otherwise due is checked
        before duplicate, and refusing a tracked position as due clears its bit, because the dispatcher sends it now.

        Returns: what became of each; offsets ascend.
        Raises: TrackerClosed.
        Cost: O(n) and a bitmap operation per ledger; sealing is O(1) here.
        Source: ``BucketDelayedDeliveryTracker.addMessage``, which checks duplicates first (apache/pulsar #26230).
        """
        self._require_open()
        if self._add_above(indexes, now):
            accepted, outcome = indexes, AddOutcome.all_added(len(indexes))
        else:
            accepted, outcome = self._add_any(indexes, now)
        counters = self._state.counters
        counters.added += len(accepted)
        counters.due_on_offer += len(outcome.due)
        counters.duplicate += len(outcome.duplicate)
        self._finish(now)
        if self._state.fixed_delay is not None:
            self._state.fixed_delay.note_offered(accepted, any_due=bool(len(outcome.due)))
        return outcome

    def would_track(self, indexes: IndexColumns, now: Instant) -> bool:
        """Whether adding a batch would track a position that is not tracked yet. O(n), changes nothing."""
        self._require_open()
        state, limits = self._settled(), self._state.limits
        fresh = (indexes.deliver_at_ms > limits.cutoff_ms(now.wall_ms)) & ~indexes.positions.at_or_below(
            state.mark_delete
        )
        if limits.max_delay_ms:
            fresh &= indexes.deliver_at_ms <= now.wall_ms + limits.max_delay_ms
        return bool(fresh.any()) and not bool(state.members.contains(indexes.positions.take(fresh)).all())

    def _add_above(self, indexes: IndexColumns, now: Instant) -> bool:
        """Track a batch if it is what most are: ascending entries of one ledger, above all that is tracked of it.

        False: it is not, nothing was done. Such a batch can hold no repeat, no duplicate and nothing late or leased, so
        nothing has to be looked up, and bits that wait to be cleared cannot matter.
        """
        state, limits = self._state, self._state.limits
        if not len(indexes) or state.mutable.memory is None:
            return False
        ledger_id, first_entry = int(indexes.ledger_id[0]), int(indexes.entry_id[0])
        if int(indexes.ledger_id[-1]) != ledger_id or not indexes.positions.ascend():
            return False
        first = Position(ledger_id, first_entry)
        held = len(state.mutable.bits) + len(indexes)
        seals = limits.kind is TrackerKind.BUCKET and (
            held >= limits.mutable_indexes_max
            or (held > limits.min_index_count_per_bucket and ledger_id > state.mutable.memory.last_ledger_id)
        )
        if (
            seals
            or first <= state.mark_delete
            or first <= state.members.frontier()
            or first_entry <= state.members.last_entry(ledger_id)
        ):
            return False
        earliest_ms = int(indexes.deliver_at_ms.min())
        if earliest_ms <= limits.cutoff_ms(now.wall_ms) or (
            limits.max_delay_ms and int(indexes.deliver_at_ms.max()) > now.wall_ms + limits.max_delay_ms
        ):
            return False
        state.put_above(state.mutable, ledger_id, indexes, earliest_ms)
        return True

    def _add_any(self, indexes: IndexColumns, now: Instant) -> tuple[IndexColumns, AddOutcome]:
        """Track what is new of a batch; returns that, and what became of each."""
        state, limits = self._settled(), self._state.limits
        positions = indexes.positions
        below = positions.at_or_below(state.mark_delete)
        undecided = ~below
        duplicate = undecided & (positions.repeats() | state.leases.bits.contains(positions))
        undecided &= ~duplicate
        due = undecided & (indexes.deliver_at_ms <= limits.cutoff_ms(now.wall_ms))
        tracked = state.members.contains(positions)
        refused = due & tracked
        duplicate |= undecided & ~due & tracked
        undecided &= ~(due | tracked)
        beyond = np.zeros(len(indexes), np.bool_)
        if limits.max_delay_ms:
            beyond = undecided & (indexes.deliver_at_ms > now.wall_ms + limits.max_delay_ms)
            undecided &= ~beyond
        accepted = indexes if undecided.all() else indexes.take(undecided)
        if refused.any():
            changing = refused | undecided
            self._refuse_and_place(indexes.take(changing), refused[changing])
        else:
            self._place(accepted)
        state.counters.beyond_max_delay += int(beyond.sum())
        state.counters.below_mark_delete += int(below.sum())
        return accepted, AddOutcome(
            added_count=len(accepted),
            due=due.nonzero()[0],
            duplicate=duplicate.nonzero()[0],
            beyond_max_delay=beyond.nonzero()[0],
            below_mark_delete=below.nonzero()[0],
        )

    def _refuse_and_place(self, indexes: IndexColumns, refused: BoolArray) -> None:
        """Forget tracked rows that are refused as due and place the others, as if row by row.

        All at once where the order cannot show; else in halves, so that a seal sees what was refused before it.
        """
        state = self._state
        fresh = indexes.take(~refused)
        if not refused.all() and refused.any() and self._order_shows(fresh, indexes.positions.take(refused)):
            half = len(indexes) // 2
            self._refuse_and_place(indexes.take(slice(0, half)), refused[:half])
            self._refuse_and_place(indexes.take(slice(half, None)), refused[half:])
            return
        if refused.any():
            dropped, homes = state.drop(indexes.positions.take(refused))
            state.counters.refused_as_due += dropped
            self._retire(homes)
        self._place(fresh)

    def _order_shows(self, fresh: IndexColumns, refused: PositionColumns) -> bool:
        """Whether placing may seal a bucket, or refusing may drain a sealed one, which moves the sealed frontier."""
        if self._next_stop(fresh)[0].seal is not SealTarget.NOTHING:
            return True
        counts: dict[int, int] = {}
        for home, rows in self._state.members.locate(refused):
            counts[home.key] = counts.get(home.key, 0) + len(rows)
        homes = self._state.members.homes
        return any(not homes[key].is_open and len(homes[key].bits) == count for key, count in counts.items())

    def _next_stop(self, indexes: IndexColumns) -> tuple[Stop, BoolArray]:
        """Where placing rows must stop to seal, and which of them are late until then."""
        state = self._state
        memory = state.mutable.memory
        assert memory is not None
        late = indexes.positions.at_or_below(state.members.frontier())
        stop = first_stop(
            indexes.ledger_id,
            late,
            mutable_count=len(state.mutable.bits),
            late_count=len(state.late.bits),
            last_ledger_id=memory.last_ledger_id,
            limits=state.limits,
        )
        return stop, late

    def _place(self, indexes: IndexColumns) -> None:
        """Put untracked, distinct rows into the open homes, sealing where the rules say so."""
        state = self._state
        while len(indexes):
            stop, late = self._next_stop(indexes)
            here, late = indexes.take(slice(0, stop.row_count)), late[: stop.row_count]
            if late.any():
                state.put(state.mutable, here.take(~late))
                state.put(state.late, here.take(late))
            else:
                state.put(state.mutable, here)
            if stop.seal is not SealTarget.NOTHING:
                self._lifecycle.seal(state.mutable if stop.seal is SealTarget.MUTABLE else state.late)
            indexes = indexes.take(slice(stop.row_count, None))

    def seal_open(self, now: Instant) -> int:
        """Seal the mutable bucket and the late positions, however few, to be stored soon; returns how many that are.

        A tracker in memory seals nothing.
        """
        self._require_open()
        state = self._settled()
        if state.limits.kind is TrackerKind.IN_MEMORY:
            return 0
        filled = [home for home in (state.mutable, state.late) if home.bits]
        count = sum(len(home.bits) for home in filled)
        for home in filled:
            self._lifecycle.seal(home)
        self._finish(now)
        return count

    def seal_now(self, now: Instant) -> int:
        """Seal the mutable bucket, whatever it holds; returns how many positions that are, 0 in memory-only trackers."""
        self._require_open()
        self._settled()
        count = 0 if self._state.limits.kind is TrackerKind.IN_MEMORY else len(self._state.mutable.bits)
        if count:
            self._lifecycle.seal(self._state.mutable)
            self._finish(now)
        return count

    def cancel(self, positions: PositionColumns, now: Instant) -> CancelOutcome:
        """Forget positions that nobody holds. A replay adds them again unless the cursor acknowledges them too."""
        self._require_open()
        state = self._settled()
        leased = state.leases.bits.contains(positions)
        tracked = state.members.contains(positions) & ~leased
        cancelled = 0
        if tracked.any():
            state.leases.ended.forget(positions.take(tracked))
            cancelled, homes = state.drop(positions.take(tracked))
            state.counters.cancelled += cancelled
            self._retire(homes)
        self._finish(now)
        return CancelOutcome(cancelled, np.flatnonzero(leased), np.flatnonzero(~tracked & ~leased))
