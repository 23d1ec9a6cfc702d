"""Copies a storage that may be in use: snapshots and add log as they were at one moment.

The catalogue says up to which number it contains the log, and records that it contains are cut. A copy of an older log
would lack numbers that the catalogue presumes, and one of a newer log would lack records that were cut meanwhile. So both
are read in transactions between whose beginnings the log did not change.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.sqlite.file_schema import FileSchema
from delayed_tracker.storage.sqlite.files import Progress, copy_access, copy_content, drafts_of, files_of, publish
from delayed_tracker.storage.sqlite.lock import FileLock
from delayed_tracker.storage.sqlite.threads import storage_errors

_TRIES: Final = 100
"""A commit takes a disk's sync, two beginnings a fraction of it: even under steady load few tries are needed."""


def _pass(_point: str) -> None:
    """Do nothing at a named point; tests give another function."""


def backup_storage(
    path: Path, target: Path, *, force: bool, progress: Progress, at_point: Callable[[str], None] = _pass
) -> list[Path]:
    """Copy a storage to ``target``, and its add log, if there is one, beside it.

    It takes no lock of the storage and holds up no writer; while it runs, the write-ahead logs grow.

    Args:
        path: file of the storage.
        target: file of the copy.
        force: replace a copy that exists.
        progress: called with bytes.
        at_point: called with ``backup.begun`` between the beginnings of the two transactions.
    Returns:
        the files of the copy.
    Raises:
        InvalidInput: there is no storage, or the copy cannot have this place; nothing was changed.
        StorageFormatUnsupported: it is not a storage of this program, or of a newer format.
        StorageInUse: a storage that is open is in the place of the copy.
        StorageUnavailable: a file cannot be read or written.
    """
    with contextlib.ExitStack() as undo:
        with storage_errors(target):
            _require_place(path, target, force=force)
            for name, _ in files_of(target):
                if name.exists():
                    undo.callback(FileLock.acquire(name).release)
        with storage_errors(path):
            readers = _begin_together(path, undo, at_point)
        with storage_errors(target):
            names = [name for name, _ in files_of(target)][: len(readers)]
            drafts = undo.enter_context(drafts_of(names))
            copy_content(list(zip(readers, drafts, strict=True)), progress)
            for draft, name in zip(drafts, names, strict=True):
                copy_access(path, draft, name)
            publish(drafts, target)
    return names


def _require_place(path: Path, target: Path, *, force: bool) -> None:
    if not path.exists():
        raise InvalidInput("storage", str(path), "there is no such file; name the storage of the service")
    if target.is_dir():
        raise InvalidInput("FILE", str(target), "this is a directory; name a file in it")
    if not target.parent.is_dir():
        raise InvalidInput("FILE", str(target), f"create the directory {target.parent} first")
    places, taken = ([name for name, _ in files_of(of)] for of in (target, path))
    for place in places:
        if place in taken or any(place.exists() and name.exists() and place.samefile(name) for name in taken):
            raise InvalidInput("FILE", str(target), f"{place} belongs to the storage itself; give another name")
        if place.exists() and not force:
            raise InvalidInput("FILE", str(target), f"{place} exists; give another name, or --force to overwrite it")


def _begin_together(
    path: Path, undo: contextlib.ExitStack, at_point: Callable[[str], None]
) -> list[sqlite3.Connection]:
    """Return connections whose transactions read the files as of one moment; of the first file alone if there is no log.

    They are closed with ``undo``.
    """
    (_, schema), (log, log_schema) = files_of(path)
    for _ in range(_TRIES):
        with contextlib.ExitStack() as opened:
            readers = [_reader(path, schema, opened)]
            if not log.exists():
                _begin(readers[0])
                is_of_one_moment = not log.exists()
            else:
                readers.append(_reader(log, log_schema, opened))
                watcher = _reader(log, log_schema, opened)
                before = _version(watcher)
                _begin(readers[1])
                at_point("backup.begun")
                _begin(readers[0])
                is_of_one_moment = _version(watcher) == before
            if is_of_one_moment:
                undo.enter_context(opened.pop_all())
                if schema.require_ours(readers[0], path)[0]:
                    raise InvalidInput("storage", str(path), "the file is empty; name the storage of the service")
                return readers
    raise StorageUnavailable(
        f"{log} changed between the beginnings of two transactions, {_TRIES} times; try again when fewer adds arrive"
    )


def _reader(path: Path, schema: FileSchema, opened: contextlib.ExitStack) -> sqlite3.Connection:
    reader = opened.enter_context(contextlib.closing(schema.connect(path)))
    reader.execute("PRAGMA query_only = ON")
    schema.require_ours(reader, path)
    return reader


def _begin(reader: sqlite3.Connection) -> None:
    """Begin a transaction. What it reads is settled by its first statement."""
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()


def _version(watcher: sqlite3.Connection) -> int:
    """Return a number that is another after each commit of another connection."""
    (version,) = watcher.execute("PRAGMA data_version").fetchone()
    return int(version)
