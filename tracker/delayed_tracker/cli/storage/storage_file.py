"""Options of the commands about a storage's files, and the file that a storage URL names."""

from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.service.config import index_settings_from
from delayed_tracker.cli.terminal.options import reject_tilde_path
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.sqlite.storage import file_of

Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="Storage of the service (bucketSnapshotStorageUrl), sqlite:PATH; default: that of --config.",
        metavar="URL",
    ),
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


def chosen_file(storage: str | None, config: Path | None) -> Path:
    """Return the file of the storage that the options name.

    Args:
        storage: value of ``--storage``; None takes the storage of the settings.
        config: value of ``--config``.
    Raises:
        InvalidInput: both are given, or the storage is another than SQLite.
        InvalidSettings: the settings are not valid.
    """
    if storage is None:
        return storage_file("bucketSnapshotStorageUrl", index_settings_from(config, None).storage.storage_url)
    if config is not None:
        raise InvalidInput("--storage", storage, "--config names a storage, too; give one of the two")
    return storage_file("--storage", storage)


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
