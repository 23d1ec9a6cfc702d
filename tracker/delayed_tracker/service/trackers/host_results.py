"""What becomes of the results of effects: the core learns them, and whoever waits for something durable goes on."""

import asyncio
from collections.abc import Iterable

from delayed_tracker.core.engine.effects import DeleteSnapshots, LoadSegments, MergeSnapshots, StoreSnapshot
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.runner import EffectRunner
from delayed_tracker.service.trackers.gate import HostGate, HostState, Shared


class HostResults(HostGate):
    """Takes the reports of the tracker's runner (``EffectReports``)."""

    __slots__ = ()

    def __init__(self, key: TrackerKey, shared: Shared) -> None:
        super().__init__(key, shared)
        self._runner = EffectRunner(key, shared.access, shared.limits, reports=self, account=self._account)

    # -- what must be on record before it is answered ----------------------------------------------------------------

    async def _durable(self, epoch: int, deleting: frozenset[int]) -> None:
        """Wait until the catalogue carries an epoch without these buckets, however often that has to be tried."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        awaited = (epoch, deleting, future)
        self._awaiting_durable = (*self._awaiting_durable, awaited)
        try:
            await future
        finally:
            self._awaiting_durable = tuple(other for other in self._awaiting_durable if other is not awaited)

    def _note_durable(self, epoch: int, deleted: Iterable[int]) -> None:
        # A deletion that is tried again keeps its buckets together, and a later clear takes over those of an earlier one.
        for awaited, deleting, future in self._awaiting_durable:
            if awaited <= epoch and deleting.issubset(deleted) and not future.done():
                future.set_result(None)

    # -- results of effects (EffectReports) --------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The core's epoch."""
        assert self._core is not None
        return self._core.epoch

    @property
    def mark_delete(self) -> Position:
        """The core's mark-delete position."""
        assert self._core is not None
        return self._core.mark_delete

    def snapshot_stored(
        self, effect: StoreSnapshot, bucket_id: int, sealed: SealedIndexes, *, snapshot_bytes: int
    ) -> bool:
        """A snapshot is durable and catalogued."""
        return self._result(
            lambda core, now: core.snapshot_stored(
                effect.effect_id, bucket_id, sealed, snapshot_bytes=snapshot_bytes, now=now
            )
        )

    def snapshot_failed(self, effect: StoreSnapshot) -> bool:
        """A snapshot is neither durable nor catalogued."""
        return self._result(lambda core, now: core.snapshot_failed(effect.effect_id, now))

    def snapshots_merged(
        self,
        effect: MergeSnapshots,
        bucket_id: int,
        bounds: SegmentBounds,
        *,
        snapshot_bytes: int,
        stored: PositionBitmap,
    ) -> bool:
        """A merged snapshot stands in the place of its sources."""
        return self._result(
            lambda core, now: core.snapshots_merged(
                effect.effect_id, bucket_id, bounds, snapshot_bytes=snapshot_bytes, stored=stored, now=now
            )
        )

    def still_tracked(self, effect: MergeSnapshots) -> PositionBitmap:
        """What the sources of a merge track now; what a barrier, or a core given up, leaves unknown counts as tracked."""
        assert self._core is not None
        known = {} if self._broken else self._core.remaining({source.bucket_id for source in effect.sources})
        tracked = PositionBitmap()
        for source in effect.sources:
            tracked.update(known.get(source.bucket_id, source.live))
        return tracked

    def merge_failed(
        self, effect: MergeSnapshots, *, lost_bucket_ids: tuple[int, ...] = (), too_large: bool = False
    ) -> bool:
        """Snapshots are as they were before their merge."""
        return self._result(
            lambda core, now: core.merge_failed(
                effect.effect_id, now, lost_bucket_ids=lost_bucket_ids, too_large=too_large
            )
        )

    def segments_loaded(self, effect: LoadSegments, indexes: IndexColumns) -> bool:
        """Segments were read."""
        return self._result(lambda core, now: core.segments_loaded(effect.effect_id, indexes, now))

    def segment_load_failed(self, effect: LoadSegments, *, lost: bool) -> bool:
        """Segments could not be read, now or ever."""
        return self._result(lambda core, now: core.segment_load_failed(effect.effect_id, now, lost=lost))

    def snapshots_deleted(self, effect: DeleteSnapshots) -> bool:
        """Snapshots are gone, and the catalogue carries the effect's epoch."""
        return self._result(lambda core, _: core.snapshots_deleted(effect.effect_id))

    def catalogue_written(self, effect: DeleteSnapshots) -> None:
        """No crash brings the buckets back; what is left of their objects nobody knows."""
        self._note_durable(effect.epoch, effect.bucket_ids)

    def delete_failed(self, effect: DeleteSnapshots) -> bool:
        """Snapshots may still be there."""
        return self._result(lambda core, now: core.delete_failed(effect.effect_id, now))

    def catalogue_fenced(self, epoch: int) -> None:
        """The catalogue refused this epoch: if it is the newest of this process, somebody else owns the tracker."""
        if self.state is HostState.READY and epoch >= self.epoch:
            self._shared.fenced(self.key)
