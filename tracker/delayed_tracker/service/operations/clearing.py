"""Clearing and deletion of a tracker, whether it is loaded or not."""

import asyncio

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.removal import Deleted, TrackerRemoval
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.service.trackers.results import Cleared


async def clear(registry: TrackerRegistry, key: TrackerKey, epoch: int, *, reset_to: Position | None = None) -> Cleared:
    """Drop every position of a tracker durably. If the tracker is being recovered, wait for the recovery.

    Args:
        registry: of the open trackers.
        key: of the tracker.
        epoch: the owner's, which must be the last one.
        reset_to: the new mark-delete position if the cursor was moved.
    Raises:
        TrackerNotOpen, Fenced, ShuttingDown: nothing was cleared.
        StorageUnavailable: an unloaded tracker may have been cleared or not; try again.
    """
    await registry.until_recovered(key)
    if registry.loaded(key) is not None:
        return await (await registry.loaded_host(key)).clear(epoch, reset_to=reset_to)
    removal = TrackerRemoval(key, registry.access, registry.unloaded_counters)
    cleared = Cleared(*await registry.run_exclusive(key, removal.clear(epoch, reset_to=reset_to)))
    registry.log_emptied(key)
    return cleared


async def delete(registry: TrackerRegistry, key: TrackerKey, epoch: int | None) -> Deleted:
    """Forget a tracker and everything it stored.

    A loaded tracker is closed first; a recovery is waited for. The deletion continues if the caller goes away.

    Args:
        registry: of the open trackers.
        key: of the tracker, which need not exist.
        epoch: the owner's; None deletes the tracker at any epoch.
    Raises:
        Fenced, ShuttingDown: nothing was deleted.
        StorageUnavailable: some snapshots may remain; try again.
    """
    await registry.until_recovered(key)
    removal = TrackerRemoval(key, registry.access, registry.unloaded_counters)
    if (host := registry.loaded(key)) is None:
        deleted = await registry.run_exclusive(key, removal.delete(epoch))
    else:
        if epoch is not None:
            host.require_owner(epoch)
        loaded_count = host.tracked_count
        await registry.run_exclusive(key, _delete_closed(removal, registry.begin_close(host, "CLEARED")))
        deleted = Deleted(existed=True, position_count=loaded_count)
    registry.log_emptied(key)
    return deleted


async def _delete_closed(removal: TrackerRemoval, closing: asyncio.Task[None]) -> None:
    await asyncio.wait([closing])
    await removal.delete(None)
