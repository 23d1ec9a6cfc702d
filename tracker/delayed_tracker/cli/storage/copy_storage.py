"""Command ``delayed-tracker storage copy``: copies all trackers of one storage into another, of any kind."""

import asyncio
import dataclasses
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, print_json, progress, say, size
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.maintenance.recoded import RecodedSnapshots
from delayed_tracker.storage.maintenance.tracker_copy import CopyCounts
from delayed_tracker.storage.maintenance.working import Progress

_ANY = "sqlite:PATH, file:///DIR, s3://, gs://, az:// or bookkeeper:zk://…"


def copy(
    *,
    source: Annotated[str, typer.Option("--from", help=f"Storage to copy: {_ANY}", metavar="URL")],
    target: Annotated[
        str,
        typer.Option("--to", help="Empty storage of any kind, or one whose copy was interrupted.", metavar="URL"),
    ],
    pulsar_codec: Annotated[
        bool,
        typer.Option(
            "--pulsar-codec",
            help="Write columnar snapshots in Pulsar's codec, for pulsar publish. Segments stay as they are cut.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy all trackers, verified, into another storage; stop the services of both first.

    Each snapshot is read back and compared, catalogues are copied with their epochs, claims and seal numbers, and what only
    the add log has goes into the target's add log. An interrupted copy goes on where it was when the same command is run
    again. Owners of the source's trackers are fenced.

    Example: delayed-tracker storage copy --from sqlite:data/tracker.db --to s3://BUCKET/PREFIX?region=eu-central-1
    """
    if source == target:
        raise InvalidInput("--to", target, "it is the source; give another storage")
    with progress("copying", "snapshots") as shown:
        counts = asyncio.run(_copy(source, target, shown, pulsar_codec=pulsar_codec))
    if as_json:
        print_json(counts)
        return
    say(
        f"{counted(counts.tracker_count, 'tracker')} copied and verified: {counted(counts.snapshot_count, 'snapshot')} of "
        f"{size(counts.byte_count)} and {counted(counts.record_count, 'record')} of the add log"
    )
    if counts.complete_before_count or counts.kept_snapshot_count:
        say(
            f"an earlier run had copied {counted(counts.kept_snapshot_count, 'snapshot')}, and completed "
            f"{counted(counts.complete_before_count, 'tracker')}"
        )


async def _copy(source: str, target: str, progress: Progress, *, pulsar_codec: bool) -> CopyCounts:
    async with opened_storage("--from", source) as one, opened_storage("--to", target, creates=True) as other:
        read = dataclasses.replace(one, snapshots=RecodedSnapshots(one.snapshots)) if pulsar_codec else one
        return await copy_storage(read, other, progress=progress)
