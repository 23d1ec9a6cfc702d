"""Command ``delayed-tracker backup``: copies a SQLite storage, in use or not."""

from typing import Annotated

import typer

from delayed_tracker.cli.service.config import settings_from
from delayed_tracker.cli.storage.storage_file import BackupFile, Force, storage_file
from delayed_tracker.cli.terminal.options import AsJson, Config
from delayed_tracker.cli.terminal.output import print_json, progress, say, size
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.sqlite.backup import backup_storage


def backup(
    file: BackupFile,
    *,
    storage: Annotated[
        str | None,
        typer.Option("--storage", help="Storage to copy, sqlite:PATH; default: that of --config.", metavar="URL"),
    ] = None,
    path: Config = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Copy the storage and its log of adds as they are at one moment; the service may run meanwhile.

    Example: delayed-tracker backup /var/backups/tracker.db --storage sqlite:data/tracker.db
    """
    if storage is None:
        source = storage_file("bucketSnapshotStorageUrl", settings_from(path, None).settings.storage.storage_url)
    elif path is not None:
        raise InvalidInput("--storage", storage, "--config names a storage, too; give one of the two")
    else:
        source = storage_file("--storage", storage)
    with progress("copying", "bytes") as shown:
        made = backup_storage(source, file.absolute(), force=force, progress=shown)
    sizes = {str(copy): copy.stat().st_size for copy in made}
    if as_json:
        print_json({"files": [{"path": copy, "bytes": byte_count} for copy, byte_count in sizes.items()]})
        return
    for copy, byte_count in sizes.items():
        say(f"{copy}: {size(byte_count)}")
