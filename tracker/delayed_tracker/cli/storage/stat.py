"""Command ``delayed-tracker storage stat``: the sizes of all trackers in a storage, by its catalogues."""

import asyncio
from collections.abc import Iterable

from delayed_tracker.cli.storage.storage_file import AnyStorage
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, print_json, progress, say, show, size, table
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.maintenance.sizes import TrackerSize, measure_storage
from delayed_tracker.storage.maintenance.working import Progress


def stat(url: AnyStorage, *, as_json: AsJson = False) -> None:
    """Show what a storage has of each tracker, and in all; no snapshot is read.

    A storage that several machines reach may be in use; the log bytes are then those of instances that have ended.

    Example: delayed-tracker storage stat sqlite:data/tracker.db
    """
    with progress("measuring", "trackers") as shown:
        trackers = asyncio.run(_measure(url, shown))
    remaining = _total(tracker.remaining_count for tracker in trackers)
    log_bytes = _total(tracker.log_bytes for tracker in trackers)
    buckets, snapshots, snapshot_bytes = (
        sum(column)
        for column in (
            [tracker.bucket_count for tracker in trackers],
            [tracker.snapshot_count for tracker in trackers],
            [tracker.snapshot_bytes for tracker in trackers],
        )
    )
    if as_json:
        print_json(
            {
                "tracker_count": len(trackers),
                "bucket_count": buckets,
                "snapshot_count": snapshots,
                "snapshot_bytes": snapshot_bytes,
                "remaining_count": remaining,
                "log_bytes": log_bytes,
                "trackers": [_document(tracker) for tracker in trackers],
            }
        )
        return
    numbers = ("buckets", "snapshots", "bytes", "remaining", "log bytes", "epoch")
    rows = table("trackers", "subscription", "topic", *numbers, "writer", "mark-delete", "problem", numbers=numbers)
    for tracker in trackers:
        rows.add_row(
            tracker.cursor,
            tracker.topic,
            str(tracker.bucket_count),
            str(tracker.snapshot_count),
            size(tracker.snapshot_bytes),
            _or_dash(tracker.remaining_count),
            "-" if tracker.log_bytes is None else size(tracker.log_bytes),
            str(tracker.epoch),
            tracker.writer or "-",
            "-" if tracker.mark_delete is None else str(tracker.mark_delete),
            tracker.problem or "-",
        )
    show(rows)
    say(
        f"{counted(len(trackers), 'tracker')}, {counted(buckets, 'bucket')}, {counted(snapshots, 'snapshot')}, "
        f"{size(snapshot_bytes)}, {_or_dash(remaining)} messages remaining"
        + ("" if log_bytes is None else f", {size(log_bytes)} in the add log")
    )


async def _measure(url: str, progress: Progress) -> list[TrackerSize]:
    async with opened_storage("URL", url) as storage:
        return await measure_storage(storage, progress=progress)


def _total(counts: Iterable[int | None]) -> int | None:
    """Return the sum; None if a count is not known."""
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _or_dash(count: int | None) -> str:
    return "-" if count is None else str(count)


def _document(tracker: TrackerSize) -> dict[str, object]:
    return {
        "topic": tracker.topic,
        "subscription": tracker.cursor,
        "epoch": tracker.epoch,
        "writer": tracker.writer,
        "bucket_count": tracker.bucket_count,
        "snapshot_count": tracker.snapshot_count,
        "snapshot_bytes": tracker.snapshot_bytes,
        "remaining_count": tracker.remaining_count,
        "mark_delete": tracker.mark_delete,
        "log_bytes": tracker.log_bytes,
        "problem": tracker.problem,
    }
