"""Upkeep of a tracker between the changes of its verbs: bits are cleared, deadlines exact, retries and loads requested.

Bits of consumed positions are not cleared at once, because a step for every bucket at each hand-out would dominate it.
"""

from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.merger import BucketMerger
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.values.instant import Instant, Wakeup, earliest

_CLEAR_AFTER_MS = 1_000
"""Consumed positions keep their bits for at most this long if that keeps a snapshot, or room of what is not stored."""
_PAUSE_WINDOWS = 2
"""After so many prefetch windows without a take bits are cleared, and rows that were merged ahead put away."""
_GONE_MAX = 16_384
"""More consumed positions than this are cleared at once: they take 16 bytes each."""


class Upkeep:
    """Work that every verb leaves to be done, at once or at a wake-up."""

    __slots__ = ("_clear_at_ms", "_lifecycle", "_merger", "_pause_ends_ms", "_state", "_taken_ms")

    def __init__(self, state: TrackerState, lifecycle: BucketLifecycle, merger: BucketMerger) -> None:
        self._state = state
        self._lifecycle = lifecycle
        self._merger = merger
        self._clear_at_ms: int | None = None
        """In elapsed time; None if no bits wait that matter."""
        self._pause_ends_ms: int | None = None
        """In elapsed time, or earlier, if rows were taken since; None if all is up to date."""
        self._taken_ms = 0
        """Elapsed time of the last take."""

    def bring_up_to_date(self) -> TrackerState:
        """Clear the bits of consumed positions, retire drained buckets, and return the state; for changes."""
        self._lifecycle.bring_up_to_date()
        self._clear_at_ms = self._pause_ends_ms = None
        return self._state

    def for_change(self) -> TrackerState:
        """Return the state of an open tracker for a change, brought up to date. Raises TrackerClosed if it is not open."""
        self._state.require_open()
        return self.bring_up_to_date()

    def for_reading(self) -> TrackerState:
        """Return the state with the bits of consumed positions cleared. Drained buckets stay until a change."""
        self._state.bring_up_to_date()
        self._lifecycle.loads.note_loaded()
        return self._state

    def clear_soon(self, now: Instant) -> None:
        """Put merged rows away once they are used up, and arrange that bits are cleared soon, if not at once."""
        state = self._state
        if not state.heap.merged:
            state.heap.put_merged_away()
            if state.should_clear_gone and not state.leases.leased_count:
                self.bring_up_to_date()
        if state.gone_count >= _GONE_MAX:
            self._lifecycle.clear_gone_bits()
        if not state.is_up_to_date:
            if self._clear_at_ms is None and state.should_clear_gone:
                self._clear_at_ms = now.elapsed_ms + _CLEAR_AFTER_MS
            self._taken_ms = now.elapsed_ms
            if self._pause_ends_ms is None:
                self._pause_ends_ms = now.elapsed_ms + self._pause_ms()

    def _pause_ms(self) -> int:
        """Return how long merged rows may stay in memory without a take: a moment if trackers wait for room."""
        if self._lifecycle.loads.share.has_waiting_trackers:
            return _CLEAR_AFTER_MS
        return max(_CLEAR_AFTER_MS, _PAUSE_WINDOWS * self._state.limits.prefetch_window_ms)

    def clear_if_due(self, now: Instant) -> None:
        """Clear the bits that have waited long enough; after a pause also put away the rows that were merged ahead."""
        if self._pause_ends_ms is not None and self._pause_ends_ms <= now.elapsed_ms:
            self._pause_ends_ms = self._taken_ms + self._pause_ms()
            if self._pause_ends_ms <= now.elapsed_ms:
                self.bring_up_to_date()
        if self._clear_at_ms is not None and self._clear_at_ms <= now.elapsed_ms:
            self._lifecycle.clear_gone_bits()
            self._clear_at_ms = None

    def finish(self, now: Instant) -> None:
        """End a change: make the next deadline exact, begin retries and merges, load segments that are nearly due.

        A closed tracker asks for nothing more.
        """
        state, lifecycle = self._state, self._lifecycle
        state.expose_live_head()
        if state.fixed_delay is not None:
            state.fixed_delay.note_tracked(state.counters.tracked)
        if state.is_closed:
            lifecycle.loads.note_loaded()
            return
        if lifecycle.is_retry_due(now) or self._merger.is_wanted(now) or lifecycle.loads.clearing_may_make_room():
            self.bring_up_to_date()
            lifecycle.retry_due(now)
            self._merger.merge_if_needed(now)
        lifecycle.loads.note_loaded()
        lifecycle.loads.prefetch(now)

    def next_timer(self) -> Wakeup:
        """Return the time of the next prefetch, and in elapsed time the next expiry, retry, sweep or clearing of bits."""
        leases = self._state.leases
        durations = (
            self._lifecycle.next_retry_ms(),
            self._merger.next_retry_ms(),
            leases.next_expiry_ms(),
            leases.ended.next_sweep_ms(),
            self._clear_at_ms,
            self._pause_ends_ms,
        )
        return Wakeup(self._lifecycle.loads.next_load_ms(), earliest(durations))

    def next_wakeup(self) -> Wakeup:
        """Return the same times with that of the next delivery, if it is before the next prefetch."""
        timer = self.next_timer()
        return Wakeup(earliest((self._state.next_delivery_ms(), timer.wall_ms)), timer.elapsed_ms)
