"""Verification of the invariants of design 3.3, from scratch; for tests and for debugging."""

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Home, MemoryCopies
from delayed_tracker.core.rules.seal import without_repeats
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.instant import Wakeup, earliest
from delayed_tracker.core.values.position_bitmap import PositionBitmap


def check_invariants(
    state: TrackerState, lifecycle: BucketLifecycle, next_delivery_ms: int | None, next_wakeup: Wakeup
) -> None:
    """Raise InvariantViolation if the state contradicts itself. O(whole state)."""
    tracked = state.members.check()
    if tracked != state.counters.tracked:
        raise InvariantViolation(f"{state.counters.tracked} positions are counted as tracked, {tracked} bits are set")
    if state.counters.balance():
        raise InvariantViolation(f"the counters are out of balance by {state.counters.balance()}")
    for open_home in (state.mutable, state.late):
        if state.members.homes.get(open_home.key) is not open_home or not open_home.is_open:
            raise InvariantViolation("an open home is not where adds look for it")
    state.heap.check()
    state.leases.check()
    lifecycle.check()
    if not state.members.contains(state.leases.bits.to_columns()).all():
        raise InvariantViolation("a leased position is not tracked")
    if _holds_at_or_below_mark_delete(state):
        raise InvariantViolation(f"a position at or below mark-delete {state.mark_delete} is tracked")
    _check_sizes(state)
    if any(run.home_key not in state.members.homes for run in state.heap):
        raise InvariantViolation("a run belongs to a home that is gone")
    first_deadlines = []  # in memory, of each bucket that has any
    for home in state.members.homes.values():
        copies = IndexColumns.concat([chunk for run in state.heap.of_home(home.key) for chunk in run.chunks()])
        live = copies.take(state.is_live(home, copies)) if len(copies) else copies
        if len(copies) and home.memory is not None:
            _check_copies(state, home, home.memory, copies)
        if len(live):
            _check_one_deadline(home, live)
            first_deadlines.append(int(live.deliver_at_ms.min()))
        if home.bits:
            _check_reachable(state, home, live)
    _check_wakeups(state, lifecycle, first_deadlines, next_delivery_ms, next_wakeup)


def _holds_at_or_below_mark_delete(state: TrackerState) -> bool:
    firsts = (home.bits.first() for home in state.members.homes.values())
    return any(first is not None and first <= state.mark_delete for first in firsts)


def _check_sizes(state: TrackerState) -> None:
    homes = state.members.homes.values()
    if state.snapshot_bytes != sum(home.snapshot.snapshot_bytes for home in homes if home.snapshot is not None):
        raise InvariantViolation("the snapshot bytes are not the sum over the stored buckets")
    if state.sealed_count != sum(home.snapshot is not None for home in homes):
        raise InvariantViolation(f"{state.sealed_count} stored buckets are counted, there are others")
    sealing = sum(len(home.bits) for home in homes if home.memory is not None and not home.is_open)
    if state.sealing_count != sealing:
        raise InvariantViolation(f"{state.sealing_count} positions are counted as being stored, {sealing} are")
    if any(home.membership_bytes != (0 if home.is_open else home.bits_bytes) for home in homes):
        raise InvariantViolation("the membership bytes of a home were not accounted when its bits changed")
    if state.membership_bytes != sum(home.membership_bytes for home in homes):
        raise InvariantViolation("the membership bytes are not the sum over the homes")
    if state.segments_bytes != sum(home.snapshot.nbytes for home in homes if home.snapshot is not None):
        raise InvariantViolation("the segment bytes are not the sum over the stored buckets")


def _check_reachable(state: TrackerState, home: Home, live: IndexColumns) -> None:
    """Check that each tracked position has a live copy, a lease, or a row in an unloaded segment.

    For foreign bitmaps this is unknown until the last segment is loaded.
    """
    if home.snapshot is not None and home.snapshot.is_foreign and home.snapshot.next_min_ms is not None:
        return
    missing = home.bits.copy()
    missing.remove(live.positions)
    missing.subtract(state.leases.bits)
    unloaded = home.snapshot.unloaded_count if home.snapshot is not None else 0
    if len(missing) > unloaded:
        raise InvariantViolation(
            f"home {home.key} tracks {len(missing)} positions that no copy holds, and only {unloaded} rows are unloaded"
        )


def _check_one_deadline(home: Home, live: IndexColumns) -> None:
    if without_repeats(live.sorted()).positions.repeats().any():
        raise InvariantViolation(f"home {home.key} has a position with two deadlines that count")


def _check_copies(state: TrackerState, home: Home, memory: MemoryCopies, copies: IndexColumns) -> None:
    """Check that the copies in memory are bounded and that a removed copy can never count again."""
    if len(copies) > len(home.bits) + memory.dead_count:
        raise InvariantViolation(
            f"home {home.key} has {len(copies)} copies of {len(home.bits)} positions, {memory.dead_count} may be dead"
        )
    positions = copies.positions
    ghosts = memory.ghosts or PositionBitmap()
    forgotten = ~home.bits.contains(positions) & ~ghosts.contains(positions)
    if (forgotten & ~positions.at_or_below(state.mark_delete)).any():
        raise InvariantViolation(
            f"home {home.key} has a copy without a bit that would count if the position came again"
        )
    for run in state.heap.of_home(home.key):
        if (
            not run.is_sorted
            and not run.suspect
            and not all(state.is_live(home, chunk).all() for chunk in run.chunks())
        ):
            raise InvariantViolation(f"run {run.run_id} may announce the deadline of a dead copy")


def _check_wakeups(
    state: TrackerState,
    lifecycle: BucketLifecycle,
    first_deadlines: list[int],
    next_delivery_ms: int | None,
    next_wakeup: Wakeup,
) -> None:
    """Check that the next deadline is exact and that every wait has a wake-up."""
    unloaded = [home.snapshot.next_min_ms for home in state.members.homes.values() if home.snapshot is not None]
    deadlines = first_deadlines + [min_ms for min_ms in unloaded if min_ms is not None]
    expected = state.limits.due_from_ms(min(deadlines)) if deadlines else None
    if next_delivery_ms != expected:
        raise InvariantViolation(f"the next delivery is announced for {next_delivery_ms}, it is {expected}")
    leases = state.leases
    durations = earliest((leases.next_expiry_ms(), leases.ended.next_sweep_ms(), *lifecycle.waiting_moments()))
    for moment, wakeup in zip((expected, durations), next_wakeup, strict=True):
        if moment is not None and (wakeup is None or wakeup > moment):
            raise InvariantViolation(f"nobody wakes up at {moment}; the next wake-up is {wakeup}")
    if state.counters.tracked and next_wakeup == (None, None):
        raise InvariantViolation(f"{state.counters.tracked} positions are tracked and nothing will ever wake up")
