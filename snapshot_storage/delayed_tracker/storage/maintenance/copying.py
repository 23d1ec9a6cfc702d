"""Copies all trackers of one storage into another: snapshots, catalogues, and what only the add log has.

The copy may be interrupted at any time and goes on where it was (``tracker_copy.py`` says how that is recorded). The target
is empty at first, or has an unfinished copy of the same source (``copy_marker.py``). Nothing is taken from the source; its
trackers get a new epoch, so that owners that are still alive can write no more.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt
from delayed_tracker.storage.maintenance.claiming import Attempt
from delayed_tracker.storage.maintenance.copy_marker import begin_copy, require_no_unfinished_copy
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.maintenance.tracker_copy import CopyCounts, CopyRun, TrackerCopy, require_nothing_uncut
from delayed_tracker.storage.maintenance.working import Progress, Retries

TRACKERS_AT_ONCE: Final = 4


def _pass(_point: str) -> None:
    """Do nothing at a named point; tests give another function."""


async def copy_storage(
    source: WholeStorage,
    target: WholeStorage,
    *,
    progress: Progress,
    attempt: Attempt | None = None,
    at_point: Callable[[str], None] = _pass,
) -> CopyCounts:
    """Copy all trackers, verified, and return what was done.

    Args:
        source: is started.
        target: is started; empty, or an unfinished copy of this source.
        progress: called with snapshots.
        attempt: performs each operation; repeats it by default.
        at_point: called when a named point is reached.
    Raises:
        InvalidInput: the source has no trackers, or the target is neither empty nor such a copy; nothing was changed.
        AddLogMissing: the source's log has records that no snapshot contains, and the target has no log.
        SnapshotCorrupt: something of the source cannot be read, or reads back differently from the target.
        SnapshotConflict: another process writes to one of the two; stop it, and copy again.
        StorageUnavailable: copy again, which goes on where this ended.
    """
    attempt = attempt or Retries()
    await attempt(partial(require_no_unfinished_copy, source.snapshots))
    keys = await attempt(source.snapshots.trackers)
    if not keys:
        raise InvalidInput("--from", source.name, "it has no trackers; give the service's bucketSnapshotStorageUrl")
    total = await _plan(source, target, keys, attempt)
    copy = await begin_copy(target.snapshots, target.name, source.name, attempt)
    at_point("copy.begun")
    counts, done = CopyCounts(), 0

    def copied(count: int) -> None:
        nonlocal done
        done += count
        progress(done, max(done, total))

    run = CopyRun(source, target, copy, attempt, counts, copied, at_point)
    trackers = [TrackerCopy(run, key) for key in keys]
    await for_each(trackers, TrackerCopy.copy, at_once=TRACKERS_AT_ONCE)
    # Nothing kept other processes from opening a tracker that was complete, or a new one.
    await for_each(trackers, TrackerCopy.require_unchanged, at_once=TRACKERS_AT_ONCE)
    if set(await attempt(source.snapshots.trackers)) != set(keys):
        raise SnapshotConflict(
            "trackers of the source were opened or deleted during the copy; stop the services that use it, and run the same "
            "command again"
        )
    at_point("copy.verified")
    await copy.end(target.snapshots, attempt)
    return counts


async def _plan(source: WholeStorage, target: WholeStorage, keys: list[tuple[str, str]], attempt: Attempt) -> int:
    """Refuse at once what would fail later, before anything is changed; return the number of snapshots."""
    last_numbers = {}
    if source.log is not None and target.log is None:
        extents = await attempt(source.log.extents)
        last_numbers = {(extent.topic, extent.cursor): extent.last_number for extent in extents}
    count = 0

    async def look(key: tuple[str, str]) -> None:
        nonlocal count
        state = await attempt(partial(source.snapshots.list, *key))
        if state.corrupt:
            raise SnapshotCorrupt(
                f"the catalogue of {key[1]!r} of {key[0]!r} has damaged entries; run `delayed-tracker storage check --repair` on "
                "the source"
            )
        require_nothing_uncut(key, last_numbers.get(key, 0), state.log_mark)
        count += len(state.entries)

    await for_each(keys, look, at_once=TRACKERS_AT_ONCE)
    return count
