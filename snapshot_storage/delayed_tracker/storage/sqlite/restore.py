"""Puts a backup in the place of a storage that no process has open.

Owners and claims of the time after the backup must not count: each tracker gets a new epoch in both files, and every claim
of a dispatcher is dropped, so that it offers everything anew.
"""

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.syncing import sync
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.sqlite.file_schema import FileSchema
from delayed_tracker.storage.sqlite.files import Progress, copy_access, copy_content, drafts_of, files_of, publish
from delayed_tracker.storage.sqlite.lock import locked
from delayed_tracker.storage.sqlite.soundness import damage_in
from delayed_tracker.storage.sqlite.threads import ensure_directory, storage_errors, transaction

_CLAIMS: Final = ("offered_ledger_id", "offered_entry_id", "stored_ledger_id", "stored_entry_id")
EPOCH_STEP: Final = 1 << 20
"""Distance of the new epochs: above those that owners had after the backup, each of which took one or two."""
_WRITER: Final = "restore"
"""Writer of the new epochs: no process may write under them."""


@dataclass(frozen=True, slots=True)
class Restored:
    """Outcome of a restore."""

    paths: tuple[Path, ...]
    """Files of the storage."""
    tracker_count: int
    """Trackers that have a new epoch."""
    damage: tuple[str, ...]
    """A sentence for each damaged part that was accepted."""


def restore_storage(
    backup: Path, target: Path, *, force: bool, accept_damage: bool = False, progress: Progress
) -> Restored:
    """Put a backup, verified, in the place of a storage.

    Args:
        backup: file that :func:`delayed_tracker.storage.sqlite.backup.backup_storage` wrote; its add log is beside it.
        target: file of the storage.
        force: replace a storage that exists.
        accept_damage: restore the rest, if snapshots or records of the backup fail their checksums.
        progress: called with bytes.
    Raises:
        InvalidInput: there is no backup, or the storage exists; nothing was changed.
        StorageInUse: a process has the storage open.
        StorageFormatUnsupported: the backup is not one of this program, or of a newer format.
        SnapshotCorrupt: a file of the backup is damaged; nothing was changed.
        StorageUnavailable: a file cannot be read or written.
    """

    def require_free(path: Path) -> None:
        if not force:
            raise InvalidInput("--storage", str(target), f"{path} exists; give another, or --force to overwrite it")

    with contextlib.ExitStack() as undo:
        sources = [undo.enter_context(_backup_of(path, schema)) for path, schema in _given(backup, target)]
        with storage_errors(target):
            ensure_directory(target)
            for path, _ in files_of(target):
                undo.enter_context(locked(path, require_free))
            names = [name for name, _ in files_of(target)][: len(sources)]
            drafts = undo.enter_context(drafts_of(names))
            copy_content(list(zip(sources, drafts, strict=True)), progress)
        tracker_count, damage = _renew(backup, drafts)
        if damage and not accept_damage:
            raise SnapshotCorrupt(
                f"{backup} is damaged ({_first_of(damage)}); name another backup, or give --accept-damage to restore the rest"
            )
        with storage_errors(target):
            for draft, name in zip(drafts, names, strict=True):
                copy_access(backup, draft, name)
                sync(draft)
            publish(drafts, target)
    return Restored(tuple(names), tracker_count, damage)


def _first_of(damage: tuple[str, ...]) -> str:
    return damage[0] if len(damage) == 1 else f"{damage[0]}, and {len(damage) - 1} more"


def _given(backup: Path, target: Path) -> list[tuple[Path, FileSchema]]:
    """Return the files of a backup that there are."""
    if not backup.is_file():
        raise InvalidInput("FILE", str(backup), "there is no such file; name what `delayed-tracker backup` wrote")
    if backup.resolve() == target.resolve():
        raise InvalidInput("FILE", str(backup), "this is the storage itself; name what `delayed-tracker backup` wrote")
    given = [(path, schema) for path, schema in files_of(backup) if path.exists()]
    for path, _ in given:
        if path.with_name(f"{path.name}-wal").exists():
            raise InvalidInput(
                "FILE",
                str(backup),
                f"{path}-wal beside it says that it is in use, or no backup; name what `delayed-tracker backup` wrote",
            )
    return given


@contextlib.contextmanager
def _backup_of(path: Path, schema: FileSchema) -> Iterator[sqlite3.Connection]:
    """Open a file of a backup, which may be on a medium that cannot be written."""
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with storage_errors(path), contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        try:
            is_empty, _ = schema.require_ours(connection, path)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise _no_backup(path, f"is not a SQLite database ({error})") from error
        if is_empty:
            raise _no_backup(path, "is empty")
        yield connection


def _no_backup(path: Path, problem: str) -> StorageFormatUnsupported:
    return StorageFormatUnsupported(f"{path} {problem}; name what `delayed-tracker backup` wrote")


def _renew(backup: Path, drafts: list[Path]) -> tuple[int, tuple[str, ...]]:
    """Verify the drafts, bring them up to date, raise all epochs, and drop all claims.

    Returns:
        the number of trackers, and what is damaged.
    """
    epochs: dict[tuple[str, str], int] = {}
    with contextlib.ExitStack() as undo:
        connections = []
        for draft, (path, schema) in zip(drafts, files_of(backup), strict=False):
            with storage_errors(path):
                connection = undo.enter_context(contextlib.closing(schema.connect(draft)))
                _require_sound(connection, path)
                schema.prepare(connection, draft)
                for topic, cursor, epoch in connection.execute("SELECT topic, cursor, epoch FROM trackers"):
                    epochs[topic, cursor] = max(epochs.get((topic, cursor), 0), epoch)
            connections.append(connection)
        with storage_errors(backup):
            damage = tuple(damage_in(connections[0], connections[1] if len(connections) > 1 else None))
        void_claims = (
            f"UPDATE trackers SET {', '.join(f'{column} = NULL' for column in _CLAIMS)}",  # noqa: S608  # our names
            "UPDATE trackers SET claims_void_through = last_number",
        )
        for connection, statement in zip(connections, void_claims, strict=False):
            with storage_errors(backup), transaction(connection):
                connection.execute(statement)
                connection.executemany(
                    "UPDATE trackers SET epoch = ?, writer = ? WHERE topic = ? AND cursor = ?",
                    [(epoch + EPOCH_STEP, _WRITER, *key) for key, epoch in epochs.items()],
                )
    return len(epochs), damage


def _require_sound(connection: sqlite3.Connection, path: Path) -> None:
    try:
        (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.DatabaseError as error:
        if isinstance(error, sqlite3.OperationalError):
            raise
        found = str(error)
    if found != "ok":
        raise SnapshotCorrupt(f"{path} is damaged ({found}); name another backup")
