"""Counts of a tracker as one flat row; for metrics that read many trackers often without disturbing them.

Unlike :func:`delayed_tracker.core.inspect.stats.tracker_stats` the functions change nothing: bits that wait to be
cleared and rows merged ahead stay as they are, so that reading does not slow the tracker down. Sizes of buckets may lag
behind by the bits that wait; pending, leased and every counter are exact.
"""

from operator import attrgetter
from typing import Final

from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.inspect.stats import memory_beside_bits
from delayed_tracker.core.values.counters import Counters
from delayed_tracker.core.values.limits import TrackerKind

SIZES: Final = (
    "pending",
    "leased",
    "due",
    "loaded",
    "mutable",
    "late",
    "buckets",
    "snapshot_bytes",
    "membership_bytes",
    "memory_bytes",
    "fallback",
    "merge_backlog",
)
"""Present sizes; all 0 for a closed tracker."""

MOMENTS: Final = ("next_delivery_ms", "earliest_ms", "latest_ms")
"""Times of the next successful poll, and of the first and the last deadline that wait; -1 if no position waits."""

EVENTS: Final = (
    "added",
    "recovered",
    "acked",
    "handed_off",
    "cancelled",
    "trimmed",
    "cleared",
    "refused_as_due",
    "dropped_as_corrupt",
    "due_on_offer",
    "duplicate",
    "beyond_max_delay",
    "below_mark_delete",
    "rescheduled",
    "lease_expired",
    "effects_failed",
    "merged_indexes",
)
"""Totals since the tracker was loaded, with the names of :class:`Counters`; they only rise."""

NUMBERS: Final = (*SIZES, *MOMENTS, *EVENTS)
"""Columns of a row."""

NONE_MS: Final = -1

NOTHING_COUNTED: Final = (*(0 for _ in SIZES), *(NONE_MS for _ in MOMENTS), *(0 for _ in EVENTS))
"""Row of a tracker that has just been created."""

_events = attrgetter(*EVENTS)


def event_counts(counters: Counters) -> tuple[int, ...]:
    """Return the totals in the order of :data:`EVENTS`."""
    counts: tuple[int, ...] = _events(counters)
    return counts


def tracker_numbers(state: TrackerState, now_ms: int, *, fallback_count: int, merge_backlog: int) -> tuple[int, ...]:
    """Return the row of one tracker, in the order of :data:`NUMBERS`.

    O(1) while no position is due; else O(runs + buckets). The last deadline takes O(buckets), and the chunks added
    since the last read.
    """
    leased = state.leases.leased_count
    pending = state.counters.tracked - leased
    mutable, late = state.mutable, state.late
    membership_bytes = state.membership_bytes + mutable.bits_bytes + late.bits_bytes
    waits = pending > 0
    cutoff_ms = state.limits.cutoff_ms(now_ms)
    first_ms = state.earliest_ms()
    earliest_ms = NONE_MS if first_ms is None else first_ms
    return (
        pending,
        leased,
        min(_due_count(state, cutoff_ms), pending) if NONE_MS < earliest_ms <= cutoff_ms else 0,
        state.heap.loaded_count,
        len(mutable.bits),
        len(late.bits),
        _bucket_count(state),
        state.snapshot_bytes,
        membership_bytes,
        membership_bytes + memory_beside_bits(state, state.leases.listed_nbytes),
        fallback_count,
        merge_backlog,
        NONE_MS if earliest_ms == NONE_MS else state.limits.due_from_ms(earliest_ms),
        earliest_ms if waits else NONE_MS,
        _latest_ms(state) if waits else NONE_MS,
        *event_counts(state.counters),
    )


def _bucket_count(state: TrackerState) -> int:
    """Return the buckets as PIP-195 counts them.

    The mutable bucket always counts, the late bucket if it is not empty; an in-memory tracker has none.
    """
    if state.limits.kind is TrackerKind.IN_MEMORY:
        return 0
    return len(state.members.buckets) - (not state.late.bits)


def _due_count(state: TrackerState, cutoff_ms: int) -> int:
    """Return the copies that could be handed out now.

    Removed copies count until they are passed, and unread segments with all their rows.
    """
    heap = state.heap
    count = sum(run.count_due(cutoff_ms) for run in heap if run.min_deliver_at_ms <= cutoff_ms)
    if heap.merged is not None:
        count -= heap.merged.consumed_count
    unread_ms = state.segments.first_min_ms()
    if unread_ms is None or unread_ms > cutoff_ms:
        return count
    for bucket in state.members.buckets.values():
        snapshot = bucket.snapshot
        if snapshot is not None and snapshot.next_min_ms is not None:
            first = snapshot.first_unloaded
            count += snapshot.bounds.row_count(first, snapshot.bounds.end_before(first, cutoff_ms))
    return count


def _latest_ms(state: TrackerState) -> int:
    """Return the last deadline: exact for buckets in memory, that of the whole bucket for sealed ones."""
    latest = NONE_MS
    for bucket in state.members.buckets.values():
        if not bucket.bits:
            continue
        if bucket.snapshot is not None:
            latest = max(latest, bucket.max_deliver_at_ms)
        else:
            latest = max([latest, *(run.max_deliver_at_ms for run in state.heap.of_bucket(bucket.key))])
    return latest
