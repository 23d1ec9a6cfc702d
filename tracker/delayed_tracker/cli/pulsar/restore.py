"""Command ``delayed-tracker pulsar restore``: takes back what another command has changed in a live cluster."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.pulsar.options import CLUSTER_HELP, Admin, DryRun, Yes
from delayed_tracker.cli.terminal.keyboard import require_consent
from delayed_tracker.cli.terminal.options import AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import counted, notice, print_json, progress, say, show, table
from delayed_tracker.cluster.address import ClusterAddress, connected
from delayed_tracker.cluster.adoption_undo import take_adoption_back
from delayed_tracker.cluster.change_record import ChangeRecord, RecordedChanges, read_changes
from delayed_tracker.cluster.errors import BackupInvalid
from delayed_tracker.cluster.restoring import CursorRestoration, Restored, plan_restoration, restore
from delayed_tracker.cluster.switch import require_not_loaded


def restore_command(
    file: Annotated[
        Path,
        typer.Argument(
            help="File that --backup of another command has written.", metavar="FILE", callback=reject_tilde_path
        ),
    ],
    *,
    target: Annotated[
        str | None, typer.Option("--to", help=f"{CLUSTER_HELP} Default: the one that FILE names.", metavar="CLUSTER")
    ] = None,
    admin: Admin = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Take back what publish, repair or adopt has changed; topics whose buckets are restored must not be loaded.

    The subscriptions get the bucket properties that they had, ledgers that were deleted are written again from FILE, and
    those that the command created are deleted; adopted trackers leave their storage. Acknowledgements since stay. It is
    refused if the buckets of a subscription were changed since, by a broker for example; subscriptions that were deleted
    since are left out. After a failure run the same command again.

    Example: delayed-tracker pulsar restore before.jsonl
    """
    try:
        changes = read_changes(file)
    except OSError as error:
        raise BackupInvalid(f"{file}: it cannot be read ({error.strerror}); give the file of --backup") from error
    address = ClusterAddress.parse(changes.cluster if target is None else target, "--to").with_admin(admin)
    planned, restored = asyncio.run(_restore(file, address, changes, dry_run=dry_run, yes=yes, as_json=as_json))
    if as_json:
        print_json(
            {
                "dry_run": dry_run,
                "subscriptions": [
                    {
                        "topic": str(one.topic),
                        "subscription": one.subscription,
                        "properties_before": one.before,
                        "properties_of_the_command": one.after,
                        "is_restored": one.is_done,
                        "is_deleted": one.is_deleted,
                    }
                    for one in planned
                ],
                "restored": restored,
            }
        )
        return
    if restored is None:
        say("nothing was changed")
        return
    say(
        f"{counted(restored.cursor_count, 'subscription')} restored, {restored.unchanged_count} as before already; "
        f"{counted(restored.written_ledger_count, 'ledger')} written again, {restored.deleted_ledger_count} of the command "
        "deleted"
        + (f"; {counted(restored.removed_tracker_count, 'adopted tracker')} removed" if changes.adopted else "")
    )
    for name in restored.left_out:
        say(f"left out, since its ledger does not exist: {name}")
    for one in planned:
        if one.is_deleted:
            say(f"left out, since it was deleted: {one.subscription!r} of {one.topic}")


async def _restore(
    file: Path, address: ClusterAddress, changes: RecordedChanges, *, dry_run: bool, yes: bool, as_json: bool
) -> tuple[list[CursorRestoration], Restored | None]:
    async with connected(address, "--to") as cluster:
        planned = await plan_restoration(cluster, changes)
        if not as_json:
            _show(planned)
        if dry_run:
            return planned, None
        waiting = [one for one in planned if one.is_waiting]
        await require_not_loaded(cluster, [one.topic for one in waiting], load_s=0)
        question = (
            f"restore the buckets of {counted(len(waiting), 'subscription')}, write {counted(len(changes.deleted), 'ledger')} "
            f"again and delete {counted(len(changes.created), 'ledger')} of the command"
        )
        if changes.adopted:
            question = f"remove {counted(len(changes.adopted), 'adopted tracker')} from {changes.adopted[0].storage}"
        await require_consent(question, yes=yes)
        removed = [await take_adoption_back(adopted) for adopted in changes.adopted]
        with ChangeRecord.append(file) as record, progress("restoring", "steps") as shown:
            done = await restore(cluster, changes, planned, record=record, report=notice, progress=shown)
            done.removed_tracker_count = sum(removed)
            return planned, done


def _show(planned: list[CursorRestoration]) -> None:
    numbers = ("buckets before", "of the command")
    rows = table("to restore", "subscription", "topic", *numbers, "", numbers=numbers)
    for one in planned:
        rows.add_row(
            one.subscription,
            str(one.topic),
            str(len(one.before)),
            str(len(one.after)),
            "deleted" if one.is_deleted else "done" if one.is_done else "",
        )
    show(rows)
