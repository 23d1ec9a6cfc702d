"""Removal of one tracker that is not loaded: its positions alone, or the tracker with them."""

from functools import partial
from typing import NamedTuple

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.stored_tracker import StoredTracker
from delayed_tracker.storage.maintenance.recoverable import consumed_in, summaries_of
from delayed_tracker.storage.protocol import CatalogueState


class Deleted(NamedTuple):
    """Answer of a deletion."""

    existed: bool
    """False if there never was such a tracker."""
    position_count: int
    """Positions that it tracked."""


class TrackerRemoval:
    """One clearing or deletion of a tracker that is not loaded.

    The caller ensures that nothing else in this process writes to the tracker meanwhile.
    """

    def __init__(self, key: TrackerKey, access: StorageAccess, counters: EffectCounters) -> None:
        self._key = key
        self._access = access
        self._stored = StoredTracker(key, access, counters)

    async def clear(self, epoch: int, *, reset_to: Position | None = None) -> tuple[int, int]:
        """Delete everything of the tracker; return the epoch now on record and the number of positions deleted.

        The mark-delete position stays on record, for a client that opens the tracker later without giving one.

        Args:
            epoch: the owner's epoch.
            reset_to: the new position of the cursor; None keeps the one on record.
        Raises:
            TrackerNotOpen: the tracker was never opened.
            Fenced: the catalogue has another epoch than ``epoch``.
            StorageUnavailable: try again.
        """
        state = await self._stored.state_at(epoch)
        cleared = await self._tracked_count(state)
        own_epoch, extent = await self._stored.take_over_above(state)
        await self._stored.delete_all(
            state, extent, epoch=own_epoch, mark_delete=state.mark_delete_in_force if reset_to is None else reset_to
        )
        return own_epoch, cleared

    async def delete(self, epoch: int | None, begun: dict[TrackerKey, tuple[int, int]]) -> Deleted:
        """Delete everything of the tracker and its place in the catalogue.

        The epoch that fences late writers stays on record. A deletion that failed may be repeated; one that this process has not
        begun, and that ended half-way, needs the epoch after, or None.

        Args:
            epoch: the last owner's epoch; None deletes the tracker at any epoch.
            begun: the epoch before, and that of the deletion, of those of this process that have begun and not ended; this one
                is added meanwhile.
        Raises:
            Fenced: the catalogue has another epoch than ``epoch``.
            StorageUnavailable: some snapshots may remain; try again.
        """
        state = await self._stored.state()
        position_count = await self._tracked_count(state)
        is_last = epoch is None or epoch == state.epoch
        own_epoch = state.epoch + is_last
        is_begun = begun.get(self._key) == (epoch, state.epoch)
        if (
            epoch is not None
            and not (is_last or is_begun)
            and not (epoch == state.epoch - 1 and await self._is_forgotten())
        ):
            raise self._stored.fenced(epoch, state)
        if state.epoch and (is_last or is_begun):
            if is_last:
                own_epoch, extent = await self._stored.take_over_above(state)
                begun[self._key] = state.epoch, own_epoch
            else:
                extent = await self._stored.take_over(own_epoch)
            if extent is not None or self._stored.void_mark(state, None) != state.log_mark:
                # First, and in the same epoch: records that outlived the entries would be applied to nothing.
                await self._stored.delete_all(state, extent, epoch=own_epoch, mark_delete=state.mark_delete_in_force)
            forget = partial(self._access.storage.forget, *self._key, epoch=own_epoch, writer=self._access.writer)
            await self._stored.attempt(forget)
        await self._stored.delete_snapshots(own_epoch)
        begun.pop(self._key, None)
        return Deleted(state.epoch > 0, position_count)

    async def _is_forgotten(self) -> bool:
        return self._key not in await self._stored.attempt(self._access.storage.trackers)

    async def _tracked_count(self, state: CatalogueState) -> int:
        """Return the number of positions that a recovery would restore.

        Buckets without a readable summary count as 0.
        """
        summaries = await self._access.offload(summaries_of, state.entries)
        return sum(
            len(summary.bits) - summary.bits.intersection_count(consumed_in(entry))
            for entry, summary in zip(state.entries, summaries, strict=True)
            if summary is not None
        )
