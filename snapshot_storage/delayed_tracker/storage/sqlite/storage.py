"""The embedded backend: snapshots and catalogue in one SQLite file in WAL mode, safe under kill -9.

A small snapshot is one transaction. A larger one is written in short transactions, so that other writers are not
blocked for long, with a mark that it is incomplete; the last transaction removes the mark. A snapshot that a crash left
incomplete is invisible and is deleted at the next start. With ``synchronous = FULL``, a call that returned is on disk.
"""

import contextlib
import os
import sqlite3
from collections.abc import AsyncIterable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path
from delayed_tracker.storage.capabilities import SnapshotPlaces, StorageSpace
from delayed_tracker.storage.errors import StorageInUse, StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, Mark, StoredSnapshot, require_entry_range
from delayed_tracker.storage.sqlite import catalogue as sqlite_catalogue
from delayed_tracker.storage.sqlite import snapshots as sqlite_snapshots
from delayed_tracker.storage.sqlite.blocks import BLOCK_BYTES, LastPage
from delayed_tracker.storage.sqlite.gathering import Job, T
from delayed_tracker.storage.sqlite.schema import SNAPSHOTS_SCHEMA
from delayed_tracker.storage.sqlite.snapshots import Draft
from delayed_tracker.storage.sqlite.threads import SqliteThreads, files_bytes, require_text, transaction

CHUNK_BYTES: Final = 1024 * 1024
"""A create commits each time this many bytes have arrived: a bucket of default settings takes one or two commits."""
READER_COUNT: Final = 3


def _pass(_point: str) -> None:
    """Do nothing at a named point; tests replace this."""


class SqliteStorage:
    """Snapshots and catalogue in the file at ``path``, which must not be shared with another program."""

    def __init__(self, path: Path, *, chunk_bytes: int = CHUNK_BYTES, block_bytes: int = BLOCK_BYTES) -> None:
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._block_bytes = block_bytes
        self._last_page = LastPage()
        """Changed by the writer thread only."""
        self._threads: SqliteThreads | None = None
        self.swept_count = 0
        """Snapshots that a crash had left incomplete, deleted by the last start."""
        self.at_point: Callable[[str], None] = _pass
        """Called by the writer thread with the name of a point.

        ``create.chunk`` comes after a chunk is committed; ``create.commit``, ``delete.commit`` and ``replace.commit``
        come just before the commit that makes the operation happen.
        """

    async def start(self) -> None:
        """Open or create the file, lock it, and delete snapshots that a crash left incomplete."""
        if self._threads is not None:
            raise StorageInUse(f"this process has {self._path} open already; close it first")
        self._threads = SqliteThreads(self._path, SNAPSHOTS_SCHEMA, reader_count=READER_COUNT)
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            self.swept_count = await self._threads.open(sqlite_snapshots.sweep)
            undo.pop_all()

    async def close(self) -> None:
        """Finish the accepted operations and release the locks."""
        threads, self._threads = self._threads, None
        if threads is not None:
            await threads.close()

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """Store a snapshot; it becomes visible, whole, in the transaction that stores its last entries."""
        require_text(topic, cursor)
        draft = Draft(topic, cursor, bucket_key, epoch)
        entries, waiting_bytes = [metadata], len(metadata)
        begun = done = False
        try:
            async for segment in segments:
                if waiting_bytes >= self._chunk_bytes:
                    begun = True
                    await self._write(partial(self._append, draft=draft, entries=entries))
                    entries, waiting_bytes = [], 0
                entries.append(segment)
                waiting_bytes += len(segment)
            begun = True
            bucket_id = await self._write(partial(self._finish, draft=draft, entries=entries))
            done = True
        finally:
            if begun and not done:
                # The cancelled job may still be running; this one runs after it. If the storage cannot do it now, the
                # snapshot stays invisible and the next start deletes it.
                with contextlib.suppress(StorageUnavailable):
                    await self._write(partial(self._discard, draft=draft))
        return bucket_id

    def _append(self, connection: sqlite3.Connection, *, draft: Draft, entries: Sequence[bytes]) -> None:
        with transaction(connection):
            bucket_id = sqlite_snapshots.append(
                connection, draft, entries, complete=False, block_bytes=self._block_bytes, last_page=self._last_page
            )
        sqlite_snapshots.settle(draft, bucket_id, entries)
        self.at_point("create.chunk")

    def _finish(self, connection: sqlite3.Connection, *, draft: Draft, entries: Sequence[bytes]) -> int:
        with transaction(connection):
            bucket_id = sqlite_snapshots.append(
                connection, draft, entries, complete=True, block_bytes=self._block_bytes, last_page=self._last_page
            )
            self.at_point("create.commit")
        sqlite_snapshots.settle(draft, bucket_id, entries)
        return bucket_id

    def _discard(self, connection: sqlite3.Connection, *, draft: Draft) -> None:
        if draft.bucket_id is not None:
            with transaction(connection):
                sqlite_snapshots.remove(connection, draft.bucket_id)

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Return entry 0, verified."""
        entries = await self._read(partial(sqlite_snapshots.read_entries, bucket_id=bucket_id, first=0, last=0))
        return entries[0]

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last``, both inclusive, verified."""
        require_entry_range(first, last)
        return await self._read(partial(sqlite_snapshots.read_entries, bucket_id=bucket_id, first=first, last=last))

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the payload bytes of all entries."""
        return await self._read(partial(sqlite_snapshots.read_length, bucket_id=bucket_id))

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Delete the snapshot if it exists, and return its space to the file system if much is free."""

        def delete(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                sqlite_snapshots.remove(connection, bucket_id)
                self.at_point("delete.commit")
            sqlite_snapshots.reclaim(connection)

        await self._write(delete)

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Return every complete snapshot of the tracker, ascending by bucket id."""
        require_text(topic, cursor)
        return await self._opened().read_together(partial(sqlite_snapshots.list_snapshots, topic=topic, cursor=cursor))

    async def snapshot_places(self) -> SnapshotPlaces:
        """Return the trackers that have complete snapshots."""
        return await self._read(sqlite_snapshots.trackers)

    async def trackers(self) -> list[tuple[str, str]]:
        """Return every (topic, cursor) with a catalogue that was not forgotten."""
        return await self._read(sqlite_catalogue.trackers)

    async def replace(
        self,
        topic: str,
        cursor: str,
        *,
        remove: Sequence[int],
        add: Sequence[CatalogueEntry],
        epoch: int,
        writer: str = "",
        mark_delete: Position | None = None,
        mark: Mark | None = None,
    ) -> CatalogueState | None:
        """Remove, add and record the epoch in one transaction. After a fence the state is known if it is small."""
        require_text(topic, cursor)
        is_fence = not remove and not add and mark_delete is None and mark is None

        def replace(connection: sqlite3.Connection) -> CatalogueState | None:
            with transaction(connection):
                tracker_id = sqlite_catalogue.fence(connection, topic, cursor, epoch=epoch, writer=writer)
                sqlite_catalogue.replace(
                    connection, tracker_id, remove=remove, add=add, mark_delete=mark_delete, mark=mark
                )
                self.at_point("replace.commit")
                return sqlite_catalogue.read_if_small(connection, topic, cursor) if is_fence else None

        return await self._opened().write_together(replace)

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Remove all entries, keep the epoch."""
        require_text(topic, cursor)

        def forget(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                tracker_id = sqlite_catalogue.fence(connection, topic, cursor, epoch=epoch, writer=writer)
                sqlite_catalogue.forget(connection, tracker_id)

        await self._write(forget)

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Return the catalogue of one tracker, verified."""
        require_text(topic, cursor)
        return await self._opened().read_together(partial(sqlite_catalogue.read, topic=topic, cursor=cursor))

    async def space(self) -> StorageSpace:
        """Return the size of the file and its log, and the free space of their file system."""

        def space(_connection: sqlite3.Connection) -> StorageSpace:
            try:
                system = os.statvfs(self._path)
                used_bytes = files_bytes(self._path)
            except OSError as error:
                raise StorageUnavailable(f"{self._path}: {error.strerror}") from error
            return StorageSpace(used_bytes, system.f_bavail * system.f_frsize)

        return await self._read(space)

    async def _write(self, job: Job[T]) -> T:
        return await self._opened().write(job)

    async def _read(self, job: Job[T]) -> T:
        return await self._opened().read(job)

    def _opened(self) -> SqliteThreads:
        if self._threads is None:
            raise StorageUnavailable(f"{self._path} is not open; call start() first")
        return self._threads


def open_sqlite(path: str) -> SqliteStorage:
    """Return a storage in the file at ``path``, absolute or relative to the working directory; not started.

    Two names of one file, through symbolic links, are one storage.
    """
    return SqliteStorage(file_of(path))


def file_of(path: str) -> Path:
    """Return the file of ``sqlite:PATH``, without symbolic links. Raises InvalidInput for a path that is none."""
    if not path or path == ":memory:":
        raise InvalidInput("storage URL", f"sqlite:{path}", "write sqlite:PATH; for a storage in memory, write memory:")
    refuse_home_path("storage URL", f"sqlite:{path}", path)
    return Path(path).resolve()
