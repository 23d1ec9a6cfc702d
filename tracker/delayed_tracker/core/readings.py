"""What a tracker tells without changing: sizes, membership, moments, and where things are."""

from collections.abc import Collection

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.load_budget import LoadShare
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.inspect.inspection import UnloadedSegments, explain, filter_range, loaded_between, unloaded
from delayed_tracker.core.inspect.numbers import event_counts, tracker_numbers
from delayed_tracker.core.inspect.stats import bucket_views, tracker_stats
from delayed_tracker.core.values.columns import BoolArray, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.instant import Instant, Wakeup, earliest
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketView, Explanation, TrackerStats


class TrackerReadings:
    """The reading half of a tracker. Nothing here has an effect; O(1) unless said otherwise."""

    def __init__(self, state: TrackerState, load_share: LoadShare) -> None:
        self._state = state
        self._lifecycle = BucketLifecycle(state, load_share)
        self._merger = BucketMerger(state, self._lifecycle)
        self._settle_at_ms: int | None = None

    def _settled(self) -> TrackerState:
        """The state with every bit and run where it belongs: for whoever looks at them."""
        self._lifecycle.settle_bits()
        self._settle_at_ms = None
        return self._state

    @property
    def limits(self) -> TrackerLimits:
        """The settings it works by."""
        return self._state.limits

    @property
    def epoch(self) -> int:
        """The epoch in force."""
        return self._state.epoch

    @property
    def mark_delete(self) -> Position:
        """Everything at or below is acknowledged."""
        return self._state.mark_delete

    @property
    def replay_required(self) -> bool:
        """Positions were lost with a snapshot: the dispatcher must replay from mark-delete + 1."""
        return self._lifecycle.replay_required

    @property
    def leased_count(self) -> int:
        """Positions in somebody's hands. O(1), and looks at no bit."""
        return self._state.leases.leased_count

    def unstored_counts(self) -> tuple[int, int]:
        """Positions in memory that no snapshot has, and those of them that are being stored or wait to be stored again.

        O(1). Those taken a moment ago may still count.
        """
        state = self._state
        return len(state.mutable.bits) + len(state.late.bits) + state.sealing_count, state.sealing_count

    @property
    def load_share(self) -> LoadShare:
        """Its part of the rows of snapshots that trackers may hold in memory together."""
        return self._lifecycle.load_share

    def __len__(self) -> int:
        """Positions tracked, leased ones included."""
        return self._state.counters.tracked

    def contains(self, positions: PositionColumns) -> BoolArray:
        """For each position, whether it is tracked; leased ones are. O(n), and mostly no step for each ledger."""
        return self._settled().members.contains(positions)

    def next_delivery_ms(self) -> int | None:
        """When a poll would succeed, or None. Unloaded segments count from their first deadline."""
        state = self._state
        moments = (state.heap.head_ms, state.segments.first_min_ms())
        deadline = earliest(moments)
        return None if deadline is None else state.limits.due_from_ms(deadline)

    def next_wakeup(self) -> Wakeup:
        """By the wall clock the next delivery or prefetch; in elapsed time the next lease expiry or retry."""
        timer = self.next_timer()
        return Wakeup(earliest((self.next_delivery_ms(), timer.wall_ms)), timer.elapsed_ms)

    def next_timer(self) -> Wakeup:
        """When :meth:`wake` has something to do even if nobody polls."""
        prefetch_ms, retry_ms = self._lifecycle.next_wakeup()
        durations = (
            retry_ms,
            self._merger.next_retry_ms(),
            self._state.leases.next_expiry_ms(),
            self._state.leases.ended.next_sweep_ms(),
            self._settle_at_ms,
        )
        return Wakeup(prefetch_ms, earliest(durations))

    def pause_reading(self, now_ms: int) -> bool:
        """Whether the dispatcher may stop reading ahead until the next delivery; a hint of the in-memory tracker.

        Enough positions wait, all seem to have the same delay, and none of them is due.
        """
        state = self._state
        if state.fixed_delay is None:
            return False
        next_ms = self.next_delivery_ms()
        waiting_count = state.counters.tracked - state.leases.leased_count
        return next_ms is not None and next_ms > now_ms and state.fixed_delay.enough_wait(waiting_count)

    def stats(self) -> TrackerStats:
        """Sizes and counters."""
        return tracker_stats(self._settled(), self.next_delivery_ms(), replay_required=self._lifecycle.replay_required)

    def numbers(self, now_ms: int) -> tuple[int, ...]:
        """The columns of :data:`delayed_tracker.core.inspect.numbers.NUMBERS`; settles nothing."""
        return tracker_numbers(
            self._state,
            now_ms,
            fallback_count=self._lifecycle.fallback_count,
            merge_backlog=self._merger.backlog,
        )

    def events(self) -> tuple[int, ...]:
        """The columns of :data:`delayed_tracker.core.inspect.numbers.EVENTS`: what can be said even of a core that was given up."""
        return event_counts(self._state.counters)

    def buckets(self) -> list[BucketView]:
        """Every bucket that holds something, by first position. O(buckets), and chunks that came since the last look."""
        return bucket_views(self._settled())

    def remaining(self, bucket_ids: Collection[int] | None = None) -> dict[int, PositionBitmap]:
        """For each stored bucket, or each of these, the positions still tracked; copies. For what is said of consumption."""
        return {
            home.snapshot.bucket_id: home.bits.copy()
            for home in self._settled().members.homes.values()
            if home.snapshot is not None and (bucket_ids is None or home.snapshot.bucket_id in bucket_ids)
        }

    def undeleted(self) -> frozenset[int]:
        """Buckets whose deletion was asked for and has not been reported: the catalogue may still name them."""
        return self._lifecycle.undeleted()

    def explain(self, position: Position, now: Instant) -> Explanation:
        """Where a position is and when it would be handed out. O(copies in memory of its home)."""
        return explain(self._settled(), position, now)

    def loaded_between(self, from_ms: int, until_ms: int | None = None) -> tuple[IndexColumns, BoolArray]:
        """Tracked rows in memory with a deadline in [from_ms, until_ms), sorted, and which are leased. O(copies)."""
        return loaded_between(self._settled(), from_ms, until_ms)

    def unloaded(self) -> list[UnloadedSegments]:
        """What is not in memory, by bucket. O(buckets + bitmaps)."""
        return unloaded(self._settled())

    def filter_range(self, ledger_id: int, first_entry: int, last_entry: int) -> list[tuple[int, int]]:
        """The parts of an entry range, both ends inclusive, that a cursor should read now: those not tracked."""
        return filter_range(self._settled(), ledger_id, first_entry, last_entry)
