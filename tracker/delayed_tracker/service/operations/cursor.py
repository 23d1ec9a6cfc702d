"""A move of a tracker's cursor that keeps the index, whether the tracker is loaded or not."""

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.errors import Fenced, TrackerKey
from delayed_tracker.service.storage.stored_tracker import StoredTracker
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.service.trackers.results import Cleared


async def move_cursor(registry: TrackerRegistry, key: TrackerKey, epoch: int, mark_delete: Position) -> Cleared:
    """Take a new mark-delete position of a tracker, and keep what it tracks above it.

    A tracker that is not loaded is loaded for that. The move continues if the caller goes away.

    Args:
        registry: of the open trackers.
        key: of the tracker.
        epoch: the owner's, which must be the last one.
        mark_delete: the position, which may be lower than the present one.
    Raises:
        TrackerNotOpen, Fenced, InvalidInput, ShuttingDown: nothing was changed.
        StorageUnavailable: it may take effect or not, and the epoch may have risen; open the tracker, and move again.
        PollEnded, SnapshotConflict: likewise; the tracker was closed meanwhile, here or by another process.
    """
    await registry.until_recovered(key)
    with registry.in_use(key):
        if registry.find_host(key) is not None:
            host = await registry.loaded_host(key)
            host.require_owner(epoch)
        else:
            await StoredTracker(key, registry.access, registry.unloaded_counters).state_at(epoch)
            host = await registry.load(key)
            if not host.ownership.is_unclaimed:
                raise Fenced(key, given_epoch=epoch, epoch=host.epoch, owner=host.owner)
            epoch = host.ownership.use_epoch()
        await registry.until_not_leaving(key)
        return await registry.run_exclusive(key, host.ownership.move_cursor(epoch, mark_delete))
