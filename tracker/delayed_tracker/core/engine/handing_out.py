"""Due rows: taken from the heap in delivery order, and handed out under a lease or without one."""

from collections.abc import Sequence
from itertools import accumulate, pairwise

from delayed_tracker.core.engine.leases import LeaseTable
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.changes import Removed
from delayed_tracker.core.values.columns import BoolArray, IndexColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import Delivery


def hand_out(state: TrackerState, lifecycle: BucketLifecycle, count: int, now: Instant, *, lease_ms: int) -> Delivery:
    """Hand out the earliest due rows that are in memory, and grant a lease for them, or forget them if it is to last 0 ms."""
    cutoff_ms = state.limits.cutoff_ms(now.wall_ms)
    indexes = IndexColumns.concat(take_due(state, lifecycle, cutoff_ms, count, forget=lease_ms == 0))
    if not len(indexes):
        return Delivery(indexes)
    if lease_ms:
        return Delivery(indexes, state.leases.grant(indexes, now.elapsed_ms + lease_ms), now.wall_ms + lease_ms)
    state.counters.handed_off += len(indexes)
    state.note(Removed(indexes.positions))
    return Delivery(indexes)


def divide(leases: LeaseTable, delivery: Delivery, counts: Sequence[int]) -> list[Delivery]:
    """Divide a delivery that was just leased into parts of at most so many rows, each under a lease of its own."""
    indexes = delivery.indexes
    firsts = [0, *(first for first in accumulate(counts[:-1]) if first < len(indexes))]
    if len(firsts) == 1:
        return [delivery]
    parts = [indexes.take(slice(first, end)) for first, end in pairwise([*firsts, len(indexes)])]
    lease_ids = leases.divide(delivery.lease_id, parts)
    return [Delivery(part, lease_id, delivery.expires_at_ms) for part, lease_id in zip(parts, lease_ids, strict=True)]


def take_due(
    state: TrackerState, lifecycle: BucketLifecycle, cutoff_ms: int, count: int, *, forget: bool
) -> list[IndexColumns]:
    """Take the earliest due rows that are in memory, and pass over copies that do not count.

    Args:
        state: loses the rows.
        lifecycle: retires the buckets that this drains.
        cutoff_ms: the last deadline that is due.
        count: at most this many, 1 or more.
        forget: clear the bits of the rows soon, as a hand-off does; a lease keeps them.
    Returns: blocks of rows, together ascending by (deliver_at_ms, ledger_id, entry_id), each position once.
    Cost: O(n log n) for n rows, plus the copies passed over.
    """
    blocks: list[IndexColumns] = []
    missing = count
    while missing:
        block = _take_block(state, lifecycle, cutoff_ms, missing, taken=() if forget else blocks)
        if block is None:
            break
        if not len(block):
            # Leap over the copies at the head that do not count: in blocks of what is missing, half a million take a minute.
            state.expose_live_head()
            continue
        if forget:
            state.forget_soon(block.positions)
        blocks.append(block)
        missing -= len(block)
    return blocks


def _take_block(
    state: TrackerState,
    lifecycle: BucketLifecycle,
    cutoff_ms: int,
    count: int,
    *,
    taken: Sequence[IndexColumns],
) -> IndexColumns | None:
    """Return the next rows that count, none if only other copies were passed, or None if no copy is due."""
    rows = state.heap.take_merged(cutoff_ms, count)
    if rows is not None:
        return rows
    if not state.heap.may_have_due(cutoff_ms):
        return None
    lifecycle.bring_up_to_date()
    certain = state.every_copy_is_live(taken_count=sum(map(len, taken)))
    in_hand = PositionBitmap() if certain else PositionBitmap.of(IndexColumns.concat(taken).positions)

    def is_live(run: Run, indexes: IndexColumns) -> BoolArray:
        # A second copy of a position that this call has taken is not leased yet: it does not count any more.
        return state.copies.is_live_in(run, indexes) & ~in_hand.contains(indexes.positions)

    unread_ms = state.segments.first_min_ms()
    if not state.heap.merge_ahead(cutoff_ms, count, state.copies.sort_run, None if certain else is_live, unread_ms):
        return None
    rows = state.heap.take_merged(cutoff_ms, count)
    return IndexColumns.empty() if rows is None else rows
