"""Repairs what a check has found, one tracker at a time: takes it over, drops what cannot be read, and sweeps.

A repaired tracker is as a recovery of the service would leave it: what a lost bucket had is offered again, because the
dispatcher's claim goes back to before its first position. Of a tracker whose catalogue is gone nothing is touched: its
snapshots are all that is left of it.
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from delayed_tracker.core.rules.recovery import claim_after_loss
from delayed_tracker.core.values.changes import OfferedThrough
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.codec.log_records import encode_change
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt
from delayed_tracker.storage.maintenance.checking import CheckedTracker, StoredSnapshotReader, named_ids
from delayed_tracker.storage.maintenance.claiming import Attempt, Claimed, claim_tracker
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.maintenance.uncut_records import claim_in_force
from delayed_tracker.storage.maintenance.working import Retries
from delayed_tracker.storage.protocol import NO_LOG, CatalogueEntry, LogMark
from delayed_tracker.storage.summary import encode_summary


@dataclass(frozen=True, slots=True)
class RepairedTracker:
    """Outcome of one repair."""

    topic: str
    cursor: str
    epoch: int
    """The new epoch, which fences every earlier owner; that of the deletion for a deleted tracker."""
    dropped: list[int]
    """Buckets that left the catalogue because they cannot be read, ascending."""
    mended: list[int]
    """Buckets whose snapshots are sound and whose catalogue entries were written anew, ascending."""
    swept: list[int]
    """Orphans that were deleted, ascending."""
    offered_through: Position | None
    """Claim of the dispatcher in the catalogue, now that buckets are lost; None if it claims nothing."""


async def repair_tracker(
    storage: WholeStorage, checked: CheckedTracker, *, writer: str, attempt: Attempt | None = None
) -> RepairedTracker | None:
    """Repair one tracker; None if nothing can be done because its catalogue cannot be read.

    Args:
        storage: is started.
        checked: what was found.
        writer: unique name of this process.
        attempt: performs each operation; repeats it by default.
    Raises:
        SnapshotConflict: another process has opened the tracker meanwhile.
        StorageUnavailable: try again; a repair that was interrupted may be repeated.
    """
    if checked.problem:
        return None
    attempt = attempt or Retries()
    snapshots, key = storage.snapshots, checked.key
    if checked.is_deleted:
        # Its deletion has recorded the epoch. A claim would open the tracker again.
        state = await attempt(partial(snapshots.list, *key))
        swept = await _sweep(storage, key, Claimed(checked.epoch, state, None), (), attempt)
        return RepairedTracker(*key, epoch=state.epoch, dropped=[], mended=[], swept=swept, offered_through=None)
    claimed = await claim_tracker(snapshots, storage.log, key, writer=writer, attempt=attempt)
    claimed.require_own(key)
    dropped, mended = await _verdict(storage, checked, claimed, attempt)
    mark = claimed.state.log_mark
    if dropped or mended:
        lost_from = _lost_from(claimed, dropped)
        if lost_from is not None:
            mark = await _lower_claim(storage, claimed, lost_from, writer, attempt)
        await attempt(
            partial(snapshots.replace, *key, remove=dropped, add=mended, epoch=claimed.epoch, writer=writer, mark=mark)
        )
    swept = await _sweep(storage, key, claimed, dropped, attempt)
    return RepairedTracker(
        *key,
        epoch=claimed.epoch,
        dropped=dropped,
        mended=sorted(entry.bucket_id for entry in mended),
        swept=swept,
        offered_through=mark.offered_through,
    )


async def _verdict(
    storage: WholeStorage, checked: CheckedTracker, claimed: Claimed, attempt: Attempt
) -> tuple[list[int], list[CatalogueEntry]]:
    """Return the buckets to drop, ascending, and the entries to write anew, of those that are still catalogued."""
    lost = {verdict.bucket_id for verdict in checked.unsound if verdict.is_lost}.union(claimed.state.corrupt)
    wrong = {verdict.bucket_id for verdict in checked.unsound} - lost
    mended = []
    for entry in claimed.state.entries:
        if entry.bucket_id in wrong:
            reader = StoredSnapshotReader(storage.snapshots, entry.bucket_id, attempt)
            found = await _mended(entry, reader)
            if found is None:
                lost.add(entry.bucket_id)
            else:
                mended.append(found)
    return sorted(lost & named_ids(claimed.state)), mended


async def _mended(entry: CatalogueEntry, reader: StoredSnapshotReader) -> CatalogueEntry | None:
    """Return the entry of a snapshot that is sound, as its metadata has it; None if it has no positions."""
    metadata = await reader.metadata()
    length = await reader.length()
    bits = metadata.positions()
    lowest, highest = bits.first(), bits.last()
    if lowest is None or highest is None:
        return None
    try:
        PositionBitmap.deserialize(entry.consumed)
        consumed = entry.consumed
    except InvalidInput:
        consumed = b""  # they are tracked again, which gives duplicates but loses nothing
    # A foreign entry has no summary, by which it is known as one.
    summary = await asyncio.to_thread(encode_summary, metadata.bounds, bits, length) if entry.summary else b""
    return dataclasses.replace(
        entry, first=min(entry.first, lowest), last=max(entry.last, highest), summary=summary, consumed=consumed
    )


def _lost_from(claimed: Claimed, dropped: Sequence[int]) -> Position | None:
    """Return the lowest position that may be lost; BEFORE_ALL if it cannot be known, None if none is."""
    if not set(dropped).isdisjoint(claimed.state.corrupt):
        return BEFORE_ALL
    return min((entry.first for entry in claimed.state.entries if entry.bucket_id in dropped), default=None)


async def _lower_claim(
    storage: WholeStorage, claimed: Claimed, lost_from: Position, writer: str, attempt: Attempt
) -> LogMark:
    """Take the dispatcher's claim back to before a position: in the add log, and in the mark that is returned.

    The log comes first: if the catalogue is not written after it, more is offered again than need be.

    A log that is on the disk of an instance cannot be written here, and its claims would count again at the next open.
    So none of its records counts any more, and the claim is what the snapshots cover.
    """
    mark, extent, log = claimed.state.log_mark, claimed.extent, storage.log
    if mark.log not in {"", NO_LOG}:
        covered = _claim_after_loss(mark.stored_through, lost_from)
        return LogMark(0, covered, NO_LOG, covered)
    if log is not None and extent is not None and not mark.log:
        try:
            claim = await claim_in_force(log, extent, mark, attempt)
        except SnapshotCorrupt:
            claim = BEFORE_ALL  # a recovery that lacks records ends the claim by itself
        lowered = claim_after_loss(claim, lost_from)
        if lowered != claim:
            record = encode_change(OfferedThrough(lowered))
            part = LogAppend(extent.topic, extent.cursor, claimed.epoch, extent.last_number + 1, [record])
            if await attempt(partial(log.append, [part], writer=writer)):
                raise SnapshotConflict(
                    f"another process has taken the add log of {extent.cursor!r} of {extent.topic!r} over; stop it, and try again"
                )
    return dataclasses.replace(
        mark,
        offered_through=_claim_after_loss(mark.offered_through, lost_from),
        stored_through=_claim_after_loss(mark.stored_through, lost_from),
    )


def _claim_after_loss(claim: Position | None, lost_from: Position) -> Position | None:
    lowered = claim_after_loss(claim or BEFORE_ALL, lost_from)
    return None if lowered == BEFORE_ALL else lowered


async def _sweep(
    storage: WholeStorage, key: tuple[str, str], claimed: Claimed, dropped: Sequence[int], attempt: Attempt
) -> list[int]:
    """Delete what was dropped, and the snapshots of older epochs that the catalogue does not name; return the latter."""
    snapshots = storage.snapshots
    named = named_ids(claimed.state)
    stored = await attempt(partial(snapshots.list_bucket_snapshots, *key))
    orphans = [each.bucket_id for each in stored if each.epoch < claimed.epoch and each.bucket_id not in named]
    for bucket_id in (*dropped, *orphans):
        await attempt(partial(snapshots.delete_bucket_snapshot, bucket_id))
    return orphans
