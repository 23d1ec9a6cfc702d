"""The half of a tracker that deals with its owner: effects out, and what became of them in."""

from collections.abc import Sequence

from delayed_tracker.core.engine.effects import Effect
from delayed_tracker.core.engine.load_budget import LoadShare
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Home
from delayed_tracker.core.readings import TrackerReadings
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.core.values.instant import Instant
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_SETTLE_AFTER_MS = 1_000
"""How long consumed positions may keep their bits if nobody looks."""
_GONE_MAX = 65_536


class TrackerClosed(DelayedTrackerError):
    """The tracker was closed or deleted; open it again."""

    reason = "TRACKER_CLOSED"


class EffectResults(TrackerReadings):
    """Effects and their results. Each result names its effect; one that is forgotten is ignored and answers False."""

    def __init__(self, state: TrackerState, load_share: LoadShare) -> None:
        super().__init__(state, load_share)
        self._closed = False

    def take_effects(self) -> list[Effect]:
        """Effects asked for since the last call, in order; each must be reported back exactly once."""
        return self._lifecycle.take_effects()

    def snapshot_stored(
        self, effect_id: int, bucket_id: int, sealed: SealedIndexes, *, snapshot_bytes: int, now: Instant
    ) -> bool:
        """StoreSnapshot succeeded. False: the effect is forgotten, so the snapshot must be removed again."""
        self._settled()
        known = self._lifecycle.snapshot_stored(effect_id, bucket_id, sealed, snapshot_bytes, now)
        self._finish(now)
        return known

    def snapshot_failed(self, effect_id: int, now: Instant) -> bool:
        """StoreSnapshot failed: its indexes stay in memory, and it is asked for again later."""
        self._settled()
        known = self._lifecycle.snapshot_failed(effect_id, now)
        self._finish(now)
        return known

    def segments_loaded(self, effect_id: int, indexes: IndexColumns, now: Instant) -> bool:
        """LoadSegments succeeded, with the rows of all its segments."""
        known = self._lifecycle.segments_loaded(effect_id, indexes, now)
        self._finish(now)
        return known

    def segment_load_failed(self, effect_id: int, now: Instant, *, lost: bool) -> bool:
        """LoadSegments failed: for now, or (``lost``) because the snapshot is missing or corrupt."""
        self._settled()
        known = self._lifecycle.segment_load_failed(effect_id, now, lost=lost)
        self._finish(now)
        return known

    def snapshots_merged(
        self,
        effect_id: int,
        bucket_id: int,
        bounds: SegmentBounds,
        *,
        snapshot_bytes: int,
        stored: PositionBitmap,
        now: Instant,
    ) -> bool:
        """MergeSnapshots succeeded, with these positions. False: forgotten, the merged snapshot must be removed again."""
        self._settled()
        known = self._merger.merged(effect_id, bucket_id, bounds, snapshot_bytes=snapshot_bytes, stored=stored)
        self._finish(now)
        return known

    def merge_failed(
        self, effect_id: int, now: Instant, *, lost_bucket_ids: Sequence[int] = (), too_large: bool = False
    ) -> bool:
        """MergeSnapshots failed: for now, because of lost sources, or because the merged metadata is too large."""
        self._settled()
        known = self._merger.failed(effect_id, now, lost_bucket_ids=lost_bucket_ids, too_large=too_large)
        self._finish(now)
        return known

    def snapshots_deleted(self, effect_id: int) -> bool:
        """DeleteSnapshots succeeded."""
        return self._lifecycle.snapshots_deleted(effect_id)

    def delete_failed(self, effect_id: int, now: Instant) -> bool:
        """DeleteSnapshots failed; it is asked for again later."""
        return self._lifecycle.delete_failed(effect_id, now)

    def _retire(self, homes: Sequence[Home]) -> None:
        for home in homes:
            self._lifecycle.retire_if_drained(home)

    def _finish(self, now: Instant) -> None:
        """What every change ends with: an exact next deadline, retries that are due, segments that came near."""
        self._state.settle()
        if self._state.fixed_delay is not None:
            self._state.fixed_delay.note_tracked(self._state.counters.tracked)
        if not self._closed:
            if (
                self._lifecycle.is_retry_due(now)
                or self._merger.is_wanted(now)
                or self._lifecycle.settling_may_make_room()
            ):
                self._settled()
                self._lifecycle.retry_due(now)
                self._merger.merge_if_needed(now)
            self._lifecycle.note_loaded()
            self._lifecycle.prefetch(now)
        else:
            self._lifecycle.note_loaded()

    def _settle_soon(self, now: Instant) -> None:
        """Put away what is merged ahead once it is used up, and see that bits are cleared soon, if not at once."""
        state = self._state
        if not state.heap.ready:
            state.heap.put_ready_away()
            if state.gone_count and (not state.leases.leased_count or state.gone_count >= _GONE_MAX):
                self._settled()
        if self._settle_at_ms is None and not state.is_settled:
            self._settle_at_ms = now.elapsed_ms + _SETTLE_AFTER_MS

    def _require_open(self) -> None:
        if self._closed:
            raise TrackerClosed("the tracker is closed; open it again")
