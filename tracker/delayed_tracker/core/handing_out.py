"""The verbs that hand positions out, and hear what became of them."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from delayed_tracker.core.adding import AddingVerbs
from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.columns import INT63_MAX, BoolArray, IndexColumns, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import Delivery, ExtendOutcome, LeaseOutcome


class HandingOutVerbs(AddingVerbs):
    """Pop, and the life of a lease."""

    def pop_due(self, max_count: int, now: Instant, *, lease_ms: int) -> Delivery:
        """Hand out the earliest due indexes that are in memory; what is loading is not waited for.

        Args:
            max_count: at most this many, >= 1.
            now: leases that have run out by now return first.
            lease_ms: how long they are leased; 0 hands off and forgets them (PIP-195's behaviour).
        Returns: rows ascending by (deliver_at_ms, ledger_id, entry_id), each position once.
        Raises: InvalidInput, TrackerClosed.
        Cost: O(n log n) for n rows handed out, plus the dead copies passed over.
        """
        self._require_open()
        if max_count < 1:
            raise InvalidInput("max_messages", max_count, "give 1 or more")
        if not 0 <= lease_ms <= INT63_MAX - max(now):
            raise InvalidInput("lease_ms", lease_ms, "give 0 or more milliseconds")
        self._expire(now)
        parts: list[IndexColumns] = []
        missing = max_count
        cutoff_ms = self._state.limits.cutoff_ms(now.wall_ms)
        while missing:
            block = self._pop_block(cutoff_ms, missing, taken=() if lease_ms == 0 else parts)
            if block is None:
                break
            if not len(block):
                # Leap over the dead copies at the head: in blocks of what is missing, half a million take a minute.
                self._state.settle()
                continue
            if lease_ms == 0:
                self._state.forget_soon(block.positions)
                self._state.counters.handed_off += len(block)
            parts.append(block)
            missing -= len(block)
        indexes = IndexColumns.concat(parts)
        delivery = Delivery(indexes)
        if len(indexes) and lease_ms:
            lease_id = self._state.leases.grant(indexes, now.elapsed_ms + lease_ms)
            delivery = Delivery(indexes, lease_id, now.wall_ms + lease_ms)
        self._settle_soon(now)
        self._finish(now)
        return delivery

    def _pop_block(self, cutoff_ms: int, count: int, *, taken: Sequence[IndexColumns]) -> IndexColumns | None:
        """The next live rows, none if only dead copies were passed, or None if no copy is due."""
        state = self._state
        rows = state.heap.take_ready(cutoff_ms, count)
        if rows is not None:
            return rows
        self._settled()
        certain = state.every_copy_is_live(taken_count=sum(map(len, taken)))
        in_hand = PositionBitmap() if certain else PositionBitmap.of(IndexColumns.concat(taken).positions)

        def is_live(run: Run, indexes: IndexColumns) -> BoolArray:
            # A second copy of a position that this very call has taken is not leased yet: it is no longer live.
            return state.is_live_in(run, indexes) & ~in_hand.contains(indexes.positions)

        if not state.heap.merge_ahead(cutoff_ms, count, state.sort_run, None if certain else is_live):
            return None
        rows = state.heap.take_ready(cutoff_ms, count)
        return IndexColumns.empty() if rows is None else rows

    def divide(self, delivery: Delivery, counts: Sequence[int]) -> list[Delivery]:
        """Make one delivery several, each under a lease of its own, before anything else is done with its lease.

        Args:
            delivery: as :meth:`pop_due` just answered it.
            counts: of rows that each takes at most, 1 or more; together no fewer than there are.
        Returns: what each took, in order, but for those that took nothing; at least the first.
        """
        indexes = delivery.indexes
        firsts = [0, *(first for first in accumulate(counts[:-1]) if first < len(indexes))]
        if len(firsts) == 1:
            return [delivery]
        parts = [indexes.take(slice(first, end)) for first, end in pairwise([*firsts, len(indexes)])]
        leases = self._state.leases.divide(delivery.lease_id, parts)
        return [Delivery(part, lease_id, delivery.expires_at_ms) for part, lease_id in zip(parts, leases, strict=True)]

    # -- leases --------------------------------------------------------------------------------------------------------

    def ack(self, lease_id: int, positions: PositionColumns, now: Instant) -> LeaseOutcome:
        """Forget positions that were dealt with.

        A lease that has ended is good enough for what it handed out itself, as long as that is remembered and was not
        leased again, given back or dated anew. Any other tracked position is ``stale``: unchanged.

        Raises: InvalidInput for a lease id never given out, TrackerClosed.
        """
        self._require_open()
        outcome = self._ack(lease_id, positions, now)
        self._finish(now)
        return outcome

    def ack_leases(self, acks: Sequence[LeaseAck], now: Instant) -> list[LeaseOutcome]:
        """Forget what was dealt with of several leases, in order.

        Returns: for each what :meth:`ack` does; of a lease that holds another number of positions than it should,
            nothing was changed.
        Raises: InvalidInput for a lease id never given out, TrackerClosed; nothing was changed.
        """
        self._require_open()
        leases = self._state.leases
        for ack in acks:
            leases.require_issued(ack.lease_id)
        outcomes = []
        for ack in acks:
            positions = leases.of(ack.lease_id).positions if ack.positions is None else ack.positions
            if ack.positions is None and len(positions) != ack.held_count:
                outcomes.append(LeaseOutcome.all_done(0))
            else:
                outcomes.append(self._ack(ack.lease_id, positions, now))
        self._finish(now)
        return outcomes

    def _ack(self, lease_id: int, positions: PositionColumns, now: Instant) -> LeaseOutcome:
        if self._state.leases.end_whole(lease_id, positions):
            self._state.forget_soon(positions)
            self._state.counters.acked += len(positions)
            self._settle_soon(now)
            return LeaseOutcome.all_done(len(positions))
        state = self._settled()
        held, stale, free = self._sort_out(lease_id, positions)
        acked = 0
        if held.any():
            state.leases.release(lease_id, positions.take(held))
            count, homes = state.take_bits(positions.take(held))
            acked += count
            self._retire(homes)
        unknown = free
        if free.any():
            tracked = free & state.members.contains(positions)
            unknown = free & ~tracked
            late = tracked & state.leases.ended.handed_out_by(lease_id, positions, now.elapsed_ms)
            stale |= tracked & ~late
            if late.any():
                state.leases.ended.forget(positions.take(late))
                count, homes = state.drop(positions.take(late))
                acked += count
                self._retire(homes)
        state.counters.acked += acked
        return LeaseOutcome(acked, np.flatnonzero(stale), np.flatnonzero(unknown))

    def nack(
        self, lease_id: int, positions: PositionColumns, now: Instant, *, deliver_at_ms: int | None = None
    ) -> LeaseOutcome:
        """Give leased positions back: due again at once, or at a new deadline that replaces the old one.

        Raises: InvalidInput for a lease id never given out or a deadline out of range, TrackerClosed.
        """
        self._require_open()
        if deliver_at_ms is not None and not 0 <= deliver_at_ms <= INT63_MAX:
            raise InvalidInput("deliver_at_ms", deliver_at_ms, f"give milliseconds from 0 to {INT63_MAX}")
        state = self._settled()
        held, stale, free = self._sort_out(lease_id, positions)
        if free.any():
            tracked = free & state.members.contains(positions)
            # It was given back, even if too late to matter: no ack of this lease is believed any more.
            late = tracked & state.leases.ended.handed_out_by(lease_id, positions, now.elapsed_ms)
            state.leases.ended.forget(positions.take(late))
            stale |= tracked
            free &= ~tracked
        returned = IndexColumns.empty()
        if held.any():
            returned = state.leases.release(lease_id, positions.take(held))
            if deliver_at_ms is None:
                state.give_back(returned)
            else:
                # A new deadline is not what the snapshot says: the position moves to a home in memory.
                _, homes = state.take_bits(returned.positions)
                again = np.full(len(returned), deliver_at_ms, np.int64)
                dated_anew = IndexColumns(again, returned.ledger_id, returned.entry_id)
                self._place(dated_anew)
                self._retire(homes)
                if state.fixed_delay is not None:
                    state.fixed_delay.note_offered(dated_anew, any_due=False)
        self._finish(now)
        return LeaseOutcome(len(returned), np.flatnonzero(stale), np.flatnonzero(free))

    def extend(self, lease_id: int, positions: PositionColumns | None, now: Instant, *, lease_ms: int) -> ExtendOutcome:
        """Set a new expiry, counted from now, for positions that a lease holds.

        Args:
            lease_id: as a poll answered it.
            positions: None is everything the lease still holds.
            now: what has run out by now returns first, and is stale.
            lease_ms: 1 or more.
        Raises: InvalidInput for a lease id never given out or a lease time out of range, TrackerClosed.
        """
        self._require_open()
        if not 1 <= lease_ms <= INT63_MAX - max(now):
            raise InvalidInput("lease_ms", lease_ms, "give 1 or more milliseconds")
        self._settled().leases.require_issued(lease_id)
        self._expire(now)
        if positions is None:
            positions = self._state.leases.of(lease_id).positions
        held, stale, free = self._sort_out(lease_id, positions)
        tracked = free & self._state.members.contains(positions)
        if held.any():
            self._state.leases.extend(lease_id, positions.take(held), now.elapsed_ms + lease_ms)
        self._finish(now)
        return ExtendOutcome(
            int(held.sum()), now.wall_ms + lease_ms, np.flatnonzero(stale | tracked), np.flatnonzero(free & ~tracked)
        )

    def _sort_out(self, lease_id: int, positions: PositionColumns) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Masks: held by this lease, held by another, held by none; a repeat of a held position is in none of them."""
        leases = self._state.leases
        leases.require_issued(lease_id)
        first = ~positions.repeats()
        held = leases.held_by(lease_id, positions)
        stale = leases.bits.contains(positions) & ~held
        return held & first, stale, ~held & ~stale

    def expire_leases(self, now: Instant) -> int:
        """Take back every position whose lease has run out; returns how many."""
        self._require_open()
        count = self._expire(now)
        self._finish(now)
        return count

    def _expire(self, now: Instant) -> int:
        first_ms = self._state.leases.next_expiry_ms()
        if first_ms is None or first_ms > now.elapsed_ms:
            return 0
        # Together: one by one, 100 leases that run out at once are sorted and joined 100 times.
        expired = IndexColumns.concat(self._state.leases.expire(now.elapsed_ms))
        self._state.give_back(expired)
        self._state.counters.lease_expired += len(expired)
        return len(expired)

    def _release_all(self) -> None:
        self._state.give_back(IndexColumns.concat(self._state.leases.release_all()))
