"""Command ``delayed-tracker restore``: puts a backup in the place of a SQLite storage that is not in use."""

from typing import Annotated, Final

import typer

from delayed_tracker.cli.storage.storage_file import BackupFile, Force, Storage, chosen_file
from delayed_tracker.cli.terminal.options import AsJson, Config
from delayed_tracker.cli.terminal.output import counted, print_json, progress, say
from delayed_tracker.storage.sqlite.restore import restore_storage

DAMAGE_MAX: Final = 100
"""Damaged parts that are listed."""


def restore(
    file: BackupFile,
    *,
    storage: Storage = None,
    config: Config = None,
    force: Force = False,
    accept_damage: Annotated[
        bool, typer.Option("--accept-damage", help="Restore the rest of a backup that is damaged in places.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a backup and put it in the place of a storage; the service must be stopped.

    Every checksum is verified. A damaged backup is refused; with --accept-damage the rest is restored, and what is missing
    is listed.

    Each tracker gets a new epoch, so that owners of the time after the backup are fenced. Claims of dispatchers are
    dropped, so that they offer their messages again.

    Example: delayed-tracker restore /var/backups/tracker.db --storage sqlite:data/tracker.db
    """
    target = chosen_file(storage, config)
    with progress("restoring", "bytes") as shown:
        restored = restore_storage(file.absolute(), target, force=force, accept_damage=accept_damage, progress=shown)
    if as_json:
        print_json(
            {"files": restored.paths, "tracker_count": restored.tracker_count, "damage": restored.damage[:DAMAGE_MAX]}
        )
        return
    for path in restored.paths:
        say(f"{path}: restored")
    for sentence in restored.damage[:DAMAGE_MAX]:
        say(f"not restored: {sentence}")
    if len(restored.damage) > DAMAGE_MAX:
        say(f"not restored: {len(restored.damage) - DAMAGE_MAX} more")
    say(
        f"{counted(restored.tracker_count, 'tracker')} with a new epoch; let the dispatchers offer their messages again"
    )
