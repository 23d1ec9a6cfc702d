"""Command ``delayed-tracker storage check``: compares all snapshots of a storage with its catalogues, and repairs."""

import asyncio
from collections.abc import Iterator
from typing import Annotated
from uuid import uuid4

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.storage.storage_file import AnyStorage
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, print_json, progress, say, show, size, table
from delayed_tracker.storage.maintenance.checking import CheckedTracker, StorageCheck, check_storage
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.maintenance.repairing import RepairedTracker, repair_tracker
from delayed_tracker.storage.maintenance.working import Progress

PROBLEMS_SHOWN = 100
"""Problems that are listed without --json, at most; all are counted."""


def check(
    url: AnyStorage,
    *,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Take each tracker with a problem over, drop what cannot be read, and delete orphans of older epochs.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read every snapshot and compare it with its catalogue; the exit status is 1 if anything is wrong.

    Without --repair nothing is changed, and a storage that several machines reach may be in use. --repair fences the owner
    of a tracker; what a dropped bucket had is offered again by the dispatcher, since its claim is taken back.

    Example: delayed-tracker storage check bookkeeper:zk://zk1:2181/ledgers?root=/delayed-tracker
    """
    with progress("checking", "trackers") as shown:
        found, repaired = asyncio.run(_check(url, shown, repair=repair))
    fixed = {(tracker.topic, tracker.cursor) for tracker in repaired}
    is_sound = not found.nameless and all(tracker.is_sound or tracker.key in fixed for tracker in found.trackers)
    if as_json:
        print_json({"sound": is_sound, **_document(found), "repaired": [_repair_document(each) for each in repaired]})
    else:
        _show(found, repaired)
    if not is_sound:
        raise typer.Exit(ExitCode.FAILURE)


async def _check(url: str, progress: Progress, *, repair: bool) -> tuple[StorageCheck, list[RepairedTracker]]:
    repaired = []
    async with opened_storage("URL", url) as storage:
        found = await check_storage(storage.snapshots, progress=progress)
        writer = f"repair-{uuid4().hex}"
        for tracker in found.trackers if repair else ():
            if not tracker.is_sound:
                done = await repair_tracker(storage, tracker, writer=writer)
                if done is not None:
                    repaired.append(done)
    return found, repaired


def _problems(found: StorageCheck) -> Iterator[tuple[CheckedTracker | None, str, str]]:
    """Yield each problem with its tracker and its bucket."""
    for tracker in found.trackers:
        if tracker.problem:
            yield tracker, "-", tracker.problem
        for verdict in tracker.unsound:
            for problem in verdict.problems:
                yield tracker, str(verdict.bucket_id), problem
        for bucket_id in tracker.orphans:
            yield tracker, str(bucket_id), "Its epoch is an older one, and the catalogue does not name it."
    for place in found.nameless:
        yield None, "-", f"No catalogue knows the snapshots in {place}."


def _show(found: StorageCheck, repaired: list[RepairedTracker]) -> None:
    problems = list(_problems(found))
    if problems:
        rows = table("problems", "subscription", "topic", "bucket", "problem", numbers=("bucket",))
        for tracker, bucket, problem in problems[:PROBLEMS_SHOWN]:
            rows.add_row(*("-", "-") if tracker is None else (tracker.cursor, tracker.topic), bucket, problem)
        show(rows)
        if len(problems) > PROBLEMS_SHOWN:
            say(f"and {len(problems) - PROBLEMS_SHOWN} more; --json has all")
    snapshot_count, byte_count = _sums(found)
    say(
        f"{counted(len(found.trackers), 'tracker')}, {counted(snapshot_count, 'snapshot')}, {size(byte_count)} read; "
        f"{counted(len(problems), 'problem')}"
    )
    for each in repaired:
        say(
            f"{each.cursor!r} of {each.topic!r} has epoch {each.epoch} now: {counted(len(each.dropped), 'bucket')} dropped, "
            f"{len(each.mended)} written anew in the catalogue, {counted(len(each.swept), 'orphan')} deleted"
        )


def _sums(found: StorageCheck) -> tuple[int, int]:
    return (
        sum(tracker.snapshot_count for tracker in found.trackers),
        sum(tracker.byte_count for tracker in found.trackers),
    )


def _document(found: StorageCheck) -> dict[str, object]:
    snapshot_count, byte_count = _sums(found)
    return {
        "tracker_count": len(found.trackers),
        "snapshot_count": snapshot_count,
        "snapshot_bytes": byte_count,
        "trackers_with_problems": [
            {
                "topic": tracker.topic,
                "subscription": tracker.cursor,
                "epoch": tracker.epoch,
                "problem": tracker.problem,
                "snapshots": tracker.unsound,
                "orphan_bucket_ids": tracker.orphans,
            }
            for tracker in found.trackers
            if not tracker.is_sound
        ],
        "unknown_places": found.nameless,
    }


def _repair_document(repaired: RepairedTracker) -> dict[str, object]:
    return {
        "topic": repaired.topic,
        "subscription": repaired.cursor,
        "epoch": repaired.epoch,
        "dropped_bucket_ids": repaired.dropped,
        "mended_bucket_ids": repaired.mended,
        "deleted_orphan_bucket_ids": repaired.swept,
        "offered_through": repaired.offered_through,
    }
