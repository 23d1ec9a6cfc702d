"""The two files of a storage as a pair: the snapshots' file and the add log beside it, copied and put in place together.

A copy is made under another name on the same file system and is on disk before it gets its own name.
"""

import contextlib
import glob
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from delayed_tracker.files.ownership import give_owner
from delayed_tracker.files.syncing import sync
from delayed_tracker.storage.sqlite.add_log import log_path_of
from delayed_tracker.storage.sqlite.file_schema import FileSchema
from delayed_tracker.storage.sqlite.log_schema import LOG_SCHEMA
from delayed_tracker.storage.sqlite.schema import SNAPSHOTS_SCHEMA

Progress = Callable[[int, int], None]
"""Called with the bytes that are done and the bytes of all."""

_PAGES_AT_ONCE: Final = 1_000
_ABANDONED_S: Final = 3_600
"""Age of a draft that no process of this machine writes; one of a container's may have any process id."""
_BESIDE: Final = ("-wal", "-shm", "-journal")
"""Files that SQLite keeps beside a database; they belong to its content, or are void without it."""


def files_of(path: Path) -> tuple[tuple[Path, FileSchema], tuple[Path, FileSchema]]:
    """Return the files of a storage with their schemas: the snapshots' file, then that of the add log."""
    return (path, SNAPSHOTS_SCHEMA), (log_path_of(path), LOG_SCHEMA)


def copy_content(sources: Sequence[tuple[sqlite3.Connection, Path]], progress: Progress) -> None:
    """Copy each database into a new file, durably.

    A source with an open read transaction is copied as that transaction sees it: SQLite begins a copy anew after a write of
    another connection only if it reads without one.

    Raises:
        sqlite3.Error, OSError: a file cannot be read or written.
    """
    sizes = [_content_bytes(source) for source, _ in sources]
    copied_bytes = 0
    for (source, target), size in zip(sources, sizes, strict=True):

        def tell(_status: int, left: int, total: int, *, before: int = copied_bytes, size: int = size) -> None:
            progress(before + size * (total - left) // max(total, 1), sum(sizes))

        with contextlib.closing(sqlite3.connect(target, isolation_level=None)) as made:
            # The file gets its name after it is synced: until then a crash leaves nothing that would be read.
            made.execute("PRAGMA journal_mode = OFF")
            made.execute("PRAGMA synchronous = OFF")
            source.backup(made, pages=_PAGES_AT_ONCE, progress=tell)
        copied_bytes += size
        sync(target)


def _content_bytes(connection: sqlite3.Connection) -> int:
    (page_count,) = connection.execute("PRAGMA page_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    return int(page_count * page_bytes)


@contextlib.contextmanager
def drafts_of(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Yield a name beside each path for its new content; what is left of the drafts at the end of the block is removed."""
    drafts = [path.with_name(f".{path.name}.{os.getpid()}") for path in paths]
    for path in paths:
        _remove_abandoned(path)
    try:
        yield drafts
    finally:
        for draft in drafts:
            _remove(draft)


def publish(drafts: Sequence[Path], path: Path) -> None:
    """Give the synced drafts of a storage its names, in the place of the files that have them now.

    The snapshots' file goes first and comes last, so that a crash in between leaves no pair of an old and a new file, and no
    file with the write-ahead log of another.

    Args:
        drafts: of the snapshots' file, and of the add log if the new content has one.
        path: of the snapshots' file.
    Raises:
        OSError: a file cannot be removed or renamed.
    """
    names = [name for name, _ in files_of(path)]
    for name in names:
        _remove(name)
        sync(path.parent)
    for draft, name in reversed(list(zip(drafts, names, strict=False))):
        draft.rename(name)
        sync(path.parent)


def _remove(path: Path) -> None:
    for name in (path, *(path.with_name(f"{path.name}{suffix}") for suffix in _BESIDE)):
        name.unlink(missing_ok=True)


def _remove_abandoned(path: Path) -> None:
    """Remove the drafts beside a path that killed processes have left: each is as large as the storage."""
    oldest_s = time.time() - _ABANDONED_S
    for draft in path.parent.glob(f".{glob.escape(path.name)}.*"):
        pid = draft.name.rpartition(".")[2]
        if pid.isdecimal() and draft.stat().st_mtime < oldest_s and not _is_running(int(pid)):
            _remove(draft)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def copy_access(source: Path, draft: Path, place: Path) -> None:
    """Give a draft the permissions of ``source`` and, as root, the owner of the file at ``place`` or of its directory.

    Raises:
        OSError: a file cannot be read or changed.
    """
    shutil.copymode(source, draft)
    descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        give_owner(descriptor, place)
    finally:
        os.close(descriptor)
