"""Gives the unused space of a storage that no process has open back to the file system."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.sqlite.files import files_of
from delayed_tracker.storage.sqlite.lock import locked
from delayed_tracker.storage.sqlite.threads import files_bytes, storage_errors


@dataclass(frozen=True, slots=True)
class Compacted:
    """Size of one file, with its write-ahead log, in bytes."""

    path: Path
    bytes_before: int
    bytes_after: int


def compact_storage(path: Path) -> list[Compacted]:
    """Write both files of a storage anew without their unused pages. It needs free space of the size of the larger file.

    Raises:
        InvalidInput: there is no storage.
        StorageInUse: a process has it open.
        StorageFormatUnsupported: it is not a storage of this program, or of a newer format.
        StorageUnavailable: a file cannot be read or written, or the space does not suffice; the file is as it was.
    """
    if not path.is_file():
        raise InvalidInput("--storage", str(path), "there is no such file; name the storage of the service")
    files = [(file, schema) for file, schema in files_of(path) if file.exists()]
    compacted = []
    with contextlib.ExitStack() as undo:
        for file, schema in files:
            with storage_errors(file):
                undo.enter_context(locked(file, schema.require_ours_or_new))
        for file, schema in files:
            with storage_errors(file):
                bytes_before = files_bytes(file)
                with contextlib.closing(schema.connect(file)) as connection:
                    connection.execute("VACUUM")
                compacted.append(Compacted(file, bytes_before, files_bytes(file)))
    return compacted
