"""Leased positions that come back: given back, expired, or released because their leases are void; or not yet: extended."""

import numpy as np

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.rescheduling import place_again
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.verb_results import ExtendOutcome, LeaseOutcome


def give_back(
    state: TrackerState,
    lifecycle: BucketLifecycle,
    lease_id: int,
    positions: PositionColumns,
    now: Instant,
    *,
    deliver_at_ms: int | None,
) -> LeaseOutcome:
    """Return the positions that a lease holds: with their deadlines, or all with a new one.

    Raises: InvalidInput for a lease id never given out.
    """
    leases = state.leases
    held, stale, free = leases.classify(lease_id, positions)
    if free.any():
        tracked = free & state.members.contains(positions)
        # The position was given back, even if too late to matter: a later ack of this lease is not accepted.
        late = tracked & leases.ended.handed_out_by(lease_id, positions, now.elapsed_ms)
        leases.ended.forget(positions.take(late))
        stale |= tracked
        free &= ~tracked
    returned = leases.release(lease_id, positions.take(held)) if held.any() else IndexColumns.empty()
    if len(returned) and deliver_at_ms is None:
        state.copies.requeue(returned)
    elif len(returned):
        deadlines = np.full(len(returned), deliver_at_ms, np.int64)
        _, buckets = state.take_bits(returned.positions)
        place_again(state, lifecycle, IndexColumns(deadlines, returned.ledger_id, returned.entry_id), buckets)
    return LeaseOutcome(len(returned), np.flatnonzero(stale), np.flatnonzero(free))


def extend(
    state: TrackerState, lease_id: int, positions: PositionColumns | None, now: Instant, lease_ms: int
) -> ExtendOutcome:
    """Give the positions that a lease holds, or all that it holds, a new expiry; leases that are over expire first.

    Raises: InvalidInput for a lease id never given out.
    """
    leases = state.leases
    leases.require_issued(lease_id)
    expire(state, now.elapsed_ms)
    if positions is None:
        positions = leases.of(lease_id).positions
    held, stale, free = leases.classify(lease_id, positions)
    tracked = free & state.members.contains(positions)
    if held.any():
        leases.extend(lease_id, positions.take(held), now.elapsed_ms + lease_ms)
    return ExtendOutcome(
        int(held.sum()), now.wall_ms + lease_ms, np.flatnonzero(stale | tracked), np.flatnonzero(free & ~tracked)
    )


def expire(state: TrackerState, elapsed_ms: int) -> int:
    """Return the positions of the leases that have expired, and their number."""
    first_ms = state.leases.next_expiry_ms()
    if first_ms is None or first_ms > elapsed_ms:
        return 0
    # Together: one by one, 100 leases that expire at once are sorted and joined 100 times.
    expired = IndexColumns.concat(state.leases.expire(elapsed_ms))
    state.copies.requeue(expired)
    state.counters.lease_expired += len(expired)
    return len(expired)


def release_all(state: TrackerState) -> None:
    """Return the positions of all leases, which are void."""
    state.copies.requeue(IndexColumns.concat(state.leases.release_all()))
