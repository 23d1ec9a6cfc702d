"""Command ``delayed-tracker backup``: copies a SQLite storage, in use or not."""

from delayed_tracker.cli.storage.storage_file import BackupFile, Force, Storage, chosen_file
from delayed_tracker.cli.terminal.options import AsJson, Config
from delayed_tracker.cli.terminal.output import print_json, progress, say, size
from delayed_tracker.storage.sqlite.backup import backup_storage


def backup(
    file: BackupFile,
    *,
    storage: Storage = None,
    config: Config = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Copy the storage and its log of adds as they are at one moment; the service may run meanwhile.

    Example: delayed-tracker backup /var/backups/tracker.db --storage sqlite:data/tracker.db
    """
    with progress("copying", "bytes") as shown:
        made = backup_storage(chosen_file(storage, config), file.absolute(), force=force, progress=shown)
    sizes = {str(copy): copy.stat().st_size for copy in made}
    if as_json:
        print_json({"files": [{"path": copy, "bytes": byte_count} for copy, byte_count in sizes.items()]})
        return
    for copy, byte_count in sizes.items():
        say(f"{copy}: {size(byte_count)}")
