"""Options of the commands about a storage's files, and the file that a storage URL names."""

from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import reject_tilde_path
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.sqlite.storage import file_of

Storage = Annotated[
    str,
    typer.Option("--storage", help="Storage of the service (bucketSnapshotStorageUrl), sqlite:PATH.", metavar="URL"),
]
BackupFile = Annotated[
    Path,
    typer.Argument(
        help="The copy: this file, and FILE.add-log for the log of adds.", metavar="FILE", callback=reject_tilde_path
    ),
]
AnyStorage = Annotated[
    str,
    typer.Argument(
        help="Storage: sqlite:PATH, which no service has open; or file:///DIR, s3://, gs://, az://, bookkeeper:zk://…",
        metavar="URL",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.")]


def storage_file(field: str, url: str) -> Path:
    """Return the file of a SQLite storage.

    Args:
        field: option or setting of the URL, for the message.
        url: of the storage.
    Raises:
        InvalidInput: it is of another storage, or has no path.
    """
    scheme, _, path = url.partition(":")
    if scheme != "sqlite":
        raise InvalidInput(field, url, "only a SQLite storage has files; give sqlite:PATH, as the service has it")
    return file_of(path)
