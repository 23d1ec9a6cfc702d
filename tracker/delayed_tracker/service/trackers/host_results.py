"""Passes effect results to the core, and ends the waits for durable changes."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from delayed_tracker.core.engine.effect_results import EffectResult
from delayed_tracker.core.engine.effects import DeleteSnapshots, MergeSnapshots
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.errors import TrackerBroken, TrackerKey
from delayed_tracker.service.storage.runner import EffectRunner
from delayed_tracker.service.trackers.gate import HostGate, HostState, Shared


class HostResults(HostGate):
    """Takes the reports of the tracker's runner (``EffectResults``)."""

    __slots__ = ()

    def __init__(self, key: TrackerKey, shared: Shared) -> None:
        super().__init__(key, shared)
        self._runner = EffectRunner(key, shared.access, shared.limits, results=self, account=self._account)

    # -- waits for durable changes -----------------------------------------------------------------------------------

    async def _durable(self, epoch: int, deleting: frozenset[int]) -> None:
        """Wait until the catalogue has this epoch and none of these buckets. Failed deletions are retried meanwhile."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        awaited = (epoch, deleting, future)
        self._awaiting_durable = (*self._awaiting_durable, awaited)
        try:
            await future
        finally:
            self._awaiting_durable = tuple(other for other in self._awaiting_durable if other is not awaited)

    def _note_durable(self, epoch: int, deleted: Iterable[int]) -> None:
        # A retried deletion keeps its buckets together, and a later clear takes over the buckets of an earlier one.
        for awaited, deleting, future in self._awaiting_durable:
            if awaited <= epoch and deleting.issubset(deleted) and not future.done():
                future.set_result(None)

    # -- results of effects (EffectResults) --------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """Epoch of the core."""
        assert self._core is not None
        return self._core.epoch

    @property
    def mark_delete(self) -> Position:
        """Mark-delete position of the core."""
        assert self._core is not None
        return self._core.mark_delete

    def apply(self, result: EffectResult) -> bool:
        """Apply the result of an effect; a host that is closing still does, because what became durable stays.

        A core that failed gets no results: its snapshots stay as they are, as after a crash.
        """
        known = True
        with suppress(TrackerBroken), self._whole():
            if self._broken:
                return True
            core = self._core
            assert core is not None
            known = core.apply(result, self._begin_step())
            if self.state is HostState.READY:
                self._settle(core)
            else:
                # Snapshots that the result replaces, such as the sources of a merge, are still deleted; nothing else begins.
                self._runner.run([effect for effect in core.take_effects() if isinstance(effect, DeleteSnapshots)])
        return known

    def still_tracked(self, effect: MergeSnapshots) -> PositionBitmap:
        """Return the positions that the sources of a merge track now.

        If the core no longer has a source (after a clear), or was given up, all its positions count as tracked.
        """
        assert self._core is not None
        known = {} if self._broken else self._core.remaining({source.bucket_id for source in effect.sources})
        tracked = PositionBitmap()
        for source in effect.sources:
            tracked.update(known.get(source.bucket_id, source.live))
        return tracked

    def catalogue_written(self, effect: DeleteSnapshots) -> None:
        """Note that no crash can restore the buckets: the catalogue does not name them. Their objects may remain."""
        self._note_durable(effect.epoch, effect.bucket_ids)

    def catalogue_fenced(self, epoch: int) -> None:
        """Handle a refused epoch. If it is the newest of this process, another process owns the tracker."""
        if self.state is HostState.READY and epoch >= self.epoch:
            self._shared.fenced(self.key)
