"""Clearing and deletion of a tracker, whether it is loaded or not."""

import asyncio

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.removal import Deleted, TrackerRemoval
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.service.trackers.results import Cleared


async def clear_tracker(
    registry: TrackerRegistry, key: TrackerKey, epoch: int, *, reset_to: Position | None = None
) -> Cleared:
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
    if registry.find_host(key) is not None:
        return await (await registry.loaded_host(key)).clear(epoch, reset_to=reset_to)
    return await registry.run_exclusive(key, _clear_unloaded(registry, key, epoch, reset_to))


async def _clear_unloaded(registry: TrackerRegistry, key: TrackerKey, epoch: int, reset_to: Position | None) -> Cleared:
    removal = TrackerRemoval(key, registry.access, registry.unloaded_counters)
    cleared = Cleared(*await removal.clear(epoch, reset_to=reset_to))
    registry.log_emptied(key)
    return cleared


async def delete_tracker(registry: TrackerRegistry, key: TrackerKey, epoch: int | None) -> Deleted:
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
    if (host := registry.find_host(key)) is None:
        return await registry.run_exclusive(key, _delete_unloaded(registry, key, epoch))
    if epoch is not None:
        host.require_owner(epoch)
    loaded_count = host.tracked_count
    closing = registry.begin_close(host, "CLEARED")
    await registry.run_exclusive(key, _delete_closed(registry, key, closing))
    return Deleted(existed=True, position_count=loaded_count)


async def _delete_closed(registry: TrackerRegistry, key: TrackerKey, closing: asyncio.Task[None]) -> None:
    await asyncio.wait([closing])
    await _delete_unloaded(registry, key, None)


async def _delete_unloaded(registry: TrackerRegistry, key: TrackerKey, epoch: int | None) -> Deleted:
    removal = TrackerRemoval(key, registry.access, registry.unloaded_counters)
    deleted = await removal.delete(epoch, registry.begun_deletions)
    registry.log_emptied(key)
    return deleted
