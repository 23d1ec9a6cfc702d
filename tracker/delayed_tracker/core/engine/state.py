"""State shared by verbs and effect results: bits, copies, leases, buckets and counters, and the moves between them.

Every method keeps the invariants that concern it (``delayed_tracker.core.inspect.invariants``). The callers decide when
each move happens.
"""

from typing import Final

import numpy as np

from delayed_tracker.core.engine.copies import BucketCopies
from delayed_tracker.core.engine.journal import Journal
from delayed_tracker.core.engine.leases import LeaseTable
from delayed_tracker.core.index.buckets import Bucket, SnapshotSegments
from delayed_tracker.core.index.membership import Membership
from delayed_tracker.core.index.run_heap import RunHeap
from delayed_tracker.core.index.segment_queue import SegmentQueue
from delayed_tracker.core.rules.fixed_delay import FixedDelayDetector
from delayed_tracker.core.rules.recovery import claim_after_loss
from delayed_tracker.core.values.changes import Change, OfferedThrough
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.counters import Counters
from delayed_tracker.core.values.errors import TrackerClosed
from delayed_tracker.core.values.instant import earliest
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState

_NO_BUCKET: Final = 2**63 - 1
_GONE_PARTS_MAX: Final = 1_000
_LEDGERS_FEW: Final = 32
_NOTHING_GONE: Final[list[PositionColumns]] = []  # shared by trackers that wait: nothing is appended to it
_HEAD_BLOCK = 64


class TrackerState:
    """State of one tracker; one owner, not thread-safe."""

    __slots__ = (
        "_checked_head",
        "_gone",
        "_gone_ledger_max",
        "_least_sealed",
        "copies",
        "counters",
        "drained",
        "epoch",
        "fixed_delay",
        "gone_count",
        "heap",
        "is_closed",
        "journal",
        "last_seal_number",
        "late",
        "leases",
        "limits",
        "mark_delete",
        "members",
        "membership_bytes",
        "mutable",
        "offered_through",
        "sealed_changes",
        "sealed_count",
        "sealing_count",
        "segments",
        "segments_bytes",
        "snapshot_bytes",
    )

    def __init__(self, limits: TrackerLimits, *, epoch: int, mark_delete: Position) -> None:
        self.limits = limits
        self.sealed_changes = 0
        """Number of times that a stored bucket has come or gone: an equal count of buckets can be other buckets."""
        self.last_seal_number = 0
        """Seal number of the last freeze. It never goes back, not even after a clear."""
        self.epoch = epoch
        self.mark_delete = mark_delete
        self.is_closed = False
        """True once the tracker is closed or deleted: no verb changes it, and it asks for no more effects."""
        self.journal: Journal | None = None
        """Changes for an add log; None if there is none."""
        self.offered_through = BEFORE_ALL
        """The dispatcher has offered everything delayed at or below; BEFORE_ALL if it has claimed nothing."""
        self.counters = Counters()
        self.leases = LeaseTable(limits)
        self.fixed_delay: FixedDelayDetector | None = None
        if limits.kind is TrackerKind.IN_MEMORY and limits.fixed_delay_lookahead:
            self.fixed_delay = FixedDelayDetector(lookahead=limits.fixed_delay_lookahead, tick_ms=limits.tick_ms)
        self.reset_buckets()

    def reset_buckets(self) -> None:
        """Start with no position, no copy and no lease; counters, epoch and mark-delete stay."""
        self.members = Membership()
        self.heap = RunHeap()
        self.copies = BucketCopies(self.members, self.heap, self.leases)
        # Positions taken out of merged rows or ended leases. Their bits are cleared together, later.
        self._gone: list[PositionColumns] = _NOTHING_GONE
        self.gone_count = 0
        """Positions whose bits wait to be cleared."""
        self._gone_ledger_max = 0
        self._checked_head: tuple[int, int] | None = None
        self._least_sealed = _NO_BUCKET
        """Positions of the smallest bucket that is not open, as of the last time when bits were cleared, or fewer."""
        self.drained: tuple[Bucket, ...] = ()
        """Sealed buckets that lost their last bits in a read: the next change retires them."""
        self.leases.clear()
        self.segments = SegmentQueue()
        self.mutable = self.members.open_bucket(BucketState.MUTABLE)
        self.late = self.members.open_bucket(BucketState.LATE)
        self.counters.tracked = 0
        self.snapshot_bytes = 0
        self.membership_bytes = 0
        self.segments_bytes = 0
        self.sealed_count = 0
        self.sealing_count = 0

    def require_open(self) -> None:
        """Raise TrackerClosed after a close or a delete."""
        if self.is_closed:
            raise TrackerClosed("the tracker is closed; open it again")

    def next_seal_number(self) -> int:
        """Return a seal number for content that is frozen now: higher than that of everything frozen before."""
        self.last_seal_number += 1
        return self.last_seal_number

    def note(self, change: Change) -> None:
        """Note a change for the add log, if there is one."""
        if self.journal is not None:
            self.journal.note(change)

    def note_unchanged(self) -> None:
        """Note a change that repeats what is on record, for an answer that says what is tracked and changes nothing.

        A process that has lost the tracker would answer from what it had: only a commit shows that it has not.
        """
        self.note(OfferedThrough(self.offered_through))

    def offer_through(self, position: Position) -> None:
        """Take a claim of the dispatcher, if it is higher than the present one."""
        if position > self.offered_through:
            self.offered_through = position
            self.note(OfferedThrough(position))

    def offer_again_from(self, position: Position) -> None:
        """Take the dispatcher's claim back to before a position, which was lost."""
        if self.offered_through < position:
            return
        self.offered_through = claim_after_loss(self.offered_through, position)
        self.note(OfferedThrough(self.offered_through))

    # -- the next deadline -------------------------------------------------------------------------------------------

    def earliest_ms(self) -> int | None:
        """Return the first deadline that waits; None without one. Unloaded segments count from their first deadline."""
        return earliest((self.heap.head_ms, self.segments.first_min_ms()))

    def next_delivery_ms(self) -> int | None:
        """Return the time from which the first deadline is due; None if nothing waits."""
        deadline_ms = self.earliest_ms()
        return None if deadline_ms is None else self.limits.due_from_ms(deadline_ms)

    def every_copy_is_live(self, *, taken_count: int = 0) -> bool:
        """Return True if each copy that was not passed certainly counts, except those taken and not leased yet. O(1).

        Each tracked position that is not leased has a copy or an unloaded row. If there are no more copies and unloaded
        rows than such positions, each position has exactly one and no search is needed. Foreign snapshots may lack rows
        until all their segments are loaded.
        """
        if self.segments.has_foreign:
            return False
        copies = self.heap.loaded_count + self.segments.unloaded_count
        return copies == self.counters.tracked - self.leases.leased_count - taken_count

    def expose_live_head(self) -> None:
        """Bring a live copy to the head of the heap, so that the next deadline is exact. Amortised O(1)."""
        look_at = _HEAD_BLOCK
        if self.every_copy_is_live():
            return
        while (run := self.heap.first()) is not None:
            if self._checked_head == (run.run_id, run.min_deliver_at_ms):
                return
            bucket = self.members.buckets[run.bucket_number]
            if not run.is_sorted:
                if not run.suspect:
                    return
                self.copies.sort_run(run)
            head = run.rows.take(slice(0, 1))
            if self.copies.is_live(bucket, head)[0]:
                self._checked_head = (run.run_id, run.min_deliver_at_ms)
                return
            block = run.rows.take(slice(0, look_at))
            live = self.copies.is_live(bucket, block)
            self.heap.advance(run, int(np.argmax(live)) if live.any() else len(block))
            look_at *= 2

    # -- bits --------------------------------------------------------------------------------------------------------

    def put(self, bucket: Bucket, indexes: IndexColumns) -> None:
        """Add untracked, distinct rows to an open bucket."""
        if not len(indexes):
            return
        self.leases.ended.forget(indexes.positions)
        self._pin(bucket)
        added = self.members.add(bucket, indexes.positions)
        assert added == len(indexes)
        self.counters.tracked += added
        self.copies.append(bucket, indexes, int(indexes.ledger_id.max()), int(indexes.deliver_at_ms.min()))

    def put_above(self, bucket: Bucket, ledger_id: int, indexes: IndexColumns, min_deliver_at_ms: int) -> None:
        """Add rows of one ledger, in ascending order, above all tracked entries of that ledger."""
        self.leases.ended.forget(indexes.positions)
        self._pin(bucket)
        self.members.add_above(bucket, ledger_id, indexes.entry_id)
        self.counters.tracked += len(indexes)
        self.copies.append(bucket, indexes, ledger_id, min_deliver_at_ms)

    def _pin(self, bucket: Bucket) -> None:
        """Note the change that puts the first rows into an open bucket: the log must keep it and what follows."""
        if self.journal is not None and not bucket.bits:
            assert bucket.memory is not None
            bucket.memory.first_change = self.journal.last_number + 1

    def drop(self, positions: PositionColumns) -> tuple[int, list[Bucket]]:
        """Clear the bits of positions that are not leased, in any bucket.

        Their copies stay in memory as removed copies.

        Returns: the number of bits that were set, and the buckets that lost some.
        """
        dropped = 0
        buckets: dict[int, Bucket] = {}
        for bucket, rows in list(self.members.locate(positions)):
            here = positions.take(rows)
            count = self.members.remove(bucket, here)
            dropped += count
            buckets[bucket.key] = bucket
            if bucket.memory is not None:
                bucket.memory.note_removed(here)
                self.copies.compact_if_mostly_removed(bucket)
        self.counters.tracked -= dropped
        return dropped, list(buckets.values())

    def take_bits(self, positions: PositionColumns) -> tuple[int, list[Bucket]]:
        """Clear the bits of positions whose copies were just consumed (hand-off, ack of a lease).

        Returns: the number of bits that were set, and the buckets that lost some.
        """
        taken, buckets = self.members.forget(positions)
        self.counters.tracked -= taken
        return taken, buckets

    def forget_soon(self, positions: PositionColumns) -> None:
        """Stop tracking positions whose copies were just consumed; :meth:`bring_up_to_date` clears their bits later."""
        if self._gone is _NOTHING_GONE:
            self._gone = []
        self._gone.append(positions)
        self.gone_count += len(positions)
        self._gone_ledger_max = max(self._gone_ledger_max, int(positions.ledger_id.max()))
        self.counters.tracked -= len(positions)

    @property
    def should_clear_gone(self) -> bool:
        """True if bits that wait should be cleared soon.

        That is so if they may be all of some bucket, whose snapshot can go then, or in a bucket that no snapshot has, where
        they count as unstored until then; also if they came in so many parts that these take more memory than the bits.
        """
        if not self.gone_count:
            return False
        if self.gone_count >= self._least_sealed or len(self._gone) > _GONE_PARTS_MAX or self.sealing_count:
            return True
        ledgers = self.mutable.ledgers
        in_mutable = bool(ledgers) and (len(ledgers) > _LEDGERS_FEW or self._gone_ledger_max >= min(ledgers))
        return in_mutable or bool(self.late.bits)

    @property
    def is_up_to_date(self) -> bool:
        """True if bits and runs agree with the counters: no rows are merged ahead, no bits wait to be cleared."""
        return self.heap.merged is None and not self._gone

    @property
    def defers(self) -> bool:
        """True if reading the whole state would first have to clear bits, put rows back or build bits of leases."""
        return not self.is_up_to_date or self.leases.defers

    def bring_up_to_date(self) -> None:
        """Clear the bits of consumed positions, put merged rows away, and note the sealed buckets that this drains.

        A thousand rows taken out of a hundred buckets clear ten bits in each: a step for every bucket, each time. The
        bits are therefore cleared together, when bits or runs are read.
        """
        self.heap.put_merged_away()
        self.clear_gone_bits()

    def clear_gone_bits(self) -> None:
        """Clear the bits of consumed positions, and note the sealed buckets that this drains. Merged rows stay as they are."""
        self._checked_head = None
        if not self._gone:
            return
        gone, self._gone, self.gone_count, self._gone_ledger_max = self._gone, _NOTHING_GONE, 0, 0
        positions = PositionColumns.concat(gone)
        count, buckets = self.members.forget(positions)
        assert count == len(positions)
        for bucket in buckets:
            self.account(bucket)
        self.drained += tuple(bucket for bucket in buckets if not bucket.bits and not bucket.is_open)
        sealed = (len(bucket.bits) for bucket in self.members.buckets.values() if not bucket.is_open)
        self._least_sealed = min(filter(None, sealed), default=_NO_BUCKET)

    def trim(self, position: Position) -> tuple[int, list[Bucket]]:
        """Clear every bit at or below ``position``, leased or not. O(buckets + ledgers).

        Returns: the number of bits that were set, and the buckets that lost some.
        """
        self.leases.drop_through(position)
        trimmed = 0
        buckets = []
        for bucket in list(self.members.buckets.values()):
            count = self.members.remove_through(bucket, position)
            if not count:
                continue
            trimmed += count
            buckets.append(bucket)
            if bucket.memory is not None:
                if bucket.memory.removed:
                    bucket.memory.removed.remove_through(position)
                bucket.memory.note_trimmed(count)
                self.copies.compact_if_mostly_removed(bucket)
        self.counters.tracked -= trimmed
        return trimmed, buckets

    def move_cursor(self, mark_delete: Position, through: Position) -> tuple[int, list[Bucket]]:
        """Take a mark-delete position, lower or higher, after clearing every bit at or below ``through``. No lease is held.

        Positions between the two may be added again. Their copies in memory would then count, and are dropped. Rows in
        snapshots count under their own buckets' bits alone, which are not set again.

        Returns: as :meth:`trim`. Cost: O(buckets + ledgers), and O(copies) of the buckets that no snapshot has.
        """
        assert not self.leases.leased_count
        trimmed = self.trim(through)
        self.leases.clear()  # what it has dropped through would be dropped from later leases, too
        self.mark_delete = mark_delete
        self.offered_through = min(self.offered_through, mark_delete)
        for bucket in self.members.buckets.values():
            if bucket.memory is not None and bucket.memory.removed_count:
                self.copies.compact(bucket)
        return trimmed

    # -- buckets -----------------------------------------------------------------------------------------------------

    def insert_sealed(
        self, bits: PositionBitmap, snapshot: SnapshotSegments, first: Position, last: Position
    ) -> Bucket:
        """Create a bucket for bits that no other bucket has and whose copies are in a snapshot. O(bitmaps)."""
        bucket = Bucket(0, BucketState.SEALED, bits, memory=None, first=first, last=last)
        self.members.insert_sealed(bucket)
        self.enter_snapshot(bucket, snapshot)
        return bucket

    def enter_snapshot(self, bucket: Bucket, snapshot: SnapshotSegments, ledger_bytes: float | None = None) -> None:
        """Record that the copies of a bucket are now in a snapshot: account for it, and queue what is not loaded.

        O(1) if the memory of its bitmaps was measured elsewhere, else O(bitmaps).
        """
        bucket.enter(snapshot)
        self.sealed_count += 1
        self.sealed_changes += 1
        self.snapshot_bytes += snapshot.snapshot_bytes
        self.segments_bytes += snapshot.nbytes
        measured_count = bucket.sealed_count if ledger_bytes else len(bucket.bits)
        bucket.ledger_bytes = ledger_bytes or bucket.bits.nbytes / max(1, bucket.bits.ledger_count)
        bucket.ledger_positions = measured_count / max(1, bucket.bits.ledger_count)
        self.account(bucket)
        self.segments.update(bucket)

    def account(self, bucket: Bucket) -> None:
        """Update the counts of a bucket's bits and of their memory. O(1).

        Call it after each change to a bucket that is not open.
        """
        if not bucket.is_open:
            unstored = 0 if bucket.memory is None else len(bucket.bits)
            self.sealing_count += unstored - bucket.sealing_count
            bucket.sealing_count = unstored
            now_bytes = bucket.bits_bytes
            self.membership_bytes += now_bytes - bucket.membership_bytes
            bucket.membership_bytes = now_bytes
            if bucket.bits:
                self._least_sealed = min(self._least_sealed, len(bucket.bits))

    def remove_bucket(self, bucket: Bucket) -> None:
        """Forget a bucket that has no bits left, with its copies."""
        assert not bucket.bits
        self.heap.drop_bucket(bucket.key)
        self.unlist_bucket(bucket)

    def unlist_bucket(self, bucket: Bucket) -> None:
        """Forget a bucket whose bits and copies have moved to another bucket, or are gone."""
        self.segments.remove(bucket.key)
        self.members.remove_bucket(bucket)
        self.membership_bytes -= bucket.membership_bytes
        self.sealing_count -= bucket.sealing_count
        if bucket.snapshot is not None:
            self.snapshot_bytes -= bucket.snapshot.snapshot_bytes
            self.segments_bytes -= bucket.snapshot.nbytes
            self.sealed_count -= 1
            self.sealed_changes += 1

    def unstored_counts(self) -> tuple[int, int]:
        """Return the positions in memory that no snapshot has, and the part of them that is being stored or retried."""
        return len(self.mutable.bits) + len(self.late.bits) + self.sealing_count, self.sealing_count
