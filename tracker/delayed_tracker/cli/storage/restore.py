"""Command ``delayed-tracker restore``: puts a backup in the place of a SQLite storage that is not in use."""

from delayed_tracker.cli.storage.storage_file import BackupFile, Force, Storage, storage_file
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, print_json, progress, say
from delayed_tracker.storage.sqlite.restore import restore_storage


def restore(file: BackupFile, *, storage: Storage, force: Force = False, as_json: AsJson = False) -> None:
    """Verify a backup and put it in the place of a storage; the service must be stopped.

    Each tracker gets a new epoch, so that owners of the time after the backup are fenced. Claims of dispatchers are
    dropped, so that they offer their messages again.

    Example: delayed-tracker restore /var/backups/tracker.db --storage sqlite:data/tracker.db
    """
    target = storage_file("--storage", storage)
    with progress("restoring", "bytes") as shown:
        restored = restore_storage(file.absolute(), target, force=force, progress=shown)
    if as_json:
        print_json({"files": restored.paths, "tracker_count": restored.tracker_count})
        return
    for path in restored.paths:
        say(f"{path}: restored")
    say(
        f"{counted(restored.tracker_count, 'tracker')} with a new epoch; let the dispatchers offer their messages again"
    )
