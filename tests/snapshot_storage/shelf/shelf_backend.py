"""A backend of another distribution: files in a directory. ``shelf:PATH``; the example of docs/storage-backends.md.

    PATH/lock               locked while the storage is open
    PATH/last_id            the highest bucket id ever given
    PATH/snapshots/ID       one snapshot: checksum, then JSON
    PATH/catalogues/DIGEST  one catalogue, in the same form

Every file is written under another name, synced and renamed: it exists whole or not at all.
"""

import asyncio
import base64
import fcntl
import hashlib
import json
import os
import zlib
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any, TypeVar

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import (
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageInUse,
    StorageUnavailable,
)
from delayed_tracker.storage.protocol import (
    CatalogueEntry,
    CatalogueState,
    LogMark,
    Mark,
    StoredSnapshot,
    marked,
    require_entry_range,
    require_epoch,
)

T = TypeVar("T")


class ShelfStorage:
    """Storage in files. One thread at a time works on them, never the event loop."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._turn = asyncio.Lock()
        self._lock_file: int | None = None

    async def start(self) -> None:
        """Create the directory, take its lock, and delete files that a crash left incomplete."""
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        for part in ("snapshots", "catalogues"):
            (self._directory / part).mkdir(parents=True, exist_ok=True)
        lock_file = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(lock_file)
            raise StorageInUse(f"{self._directory} is open already; stop the other process, or give a path") from error
        for unfinished in self._directory.glob("*/*.new"):
            unfinished.unlink()
        self._lock_file = lock_file

    async def close(self) -> None:
        """Wait for operations in flight and release the lock."""
        async with self._turn:
            if self._lock_file is not None:
                os.close(self._lock_file)
                self._lock_file = None

    async def _work(self, function: Callable[[], T]) -> T:
        """Run a function in a thread, one at a time; a cancelled caller waits for its end."""
        async with self._turn:
            if self._lock_file is None:
                raise StorageUnavailable(f"{self._directory} is not started; call start() first")
            working = asyncio.ensure_future(asyncio.to_thread(function))
            try:
                return await asyncio.shield(working)
            except asyncio.CancelledError:
                await asyncio.wait([working])
                raise
            except OSError as error:
                raise StorageUnavailable(f"{self._directory}: {error.strerror}; try again") from error

    # -- snapshots ---------------------------------------------------------------------------------------------------

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
        """Collect all segments, then write one file; a cancellation in between removes the file."""
        bucket_id = await self._work(self._next_id)
        entries = [metadata]
        async for segment in segments:
            entries.append(segment)  # noqa: PERF401  # the source may fail midway
        stored = {
            "key": bucket_key,
            "topic": topic,
            "cursor": cursor,
            "epoch": epoch,
            "entries": [_text(entry) for entry in entries],
        }
        try:
            await self._work(lambda: _write(self._snapshot_path(bucket_id), stored))
        except asyncio.CancelledError:
            await self.delete_bucket_snapshot(bucket_id)
            raise
        return bucket_id

    def _next_id(self) -> int:
        path = self._directory / "last_id"
        last_id = _read(path)["last_id"] if path.exists() else 0
        _write(path, {"last_id": last_id + 1})
        return int(last_id) + 1

    def _snapshot_path(self, bucket_id: int) -> Path:
        return self._directory / "snapshots" / str(bucket_id)

    async def _entries(self, bucket_id: int) -> list[bytes]:
        def read() -> list[bytes]:
            try:
                return [_bytes(entry) for entry in _read(self._snapshot_path(bucket_id))["entries"]]
            except FileNotFoundError as error:
                raise SnapshotNotFound(f"{self._directory} has no snapshot of bucket {bucket_id}") from error

        return await self._work(read)

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Return entry 0."""
        return (await self._entries(bucket_id))[0]

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last``."""
        require_entry_range(first, last)
        entries = await self._entries(bucket_id)
        if last >= len(entries):
            raise SnapshotNotFound(f"bucket {bucket_id} has {len(entries) - 1} segments, not {last}")
        return entries[first : last + 1]

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the bytes of all entries."""
        return sum(map(len, await self._entries(bucket_id)))

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Remove the file if it exists."""
        await self._work(lambda: self._snapshot_path(bucket_id).unlink(missing_ok=True))

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Read every file and list the snapshots of the tracker; a damaged file raises an error."""

        def look() -> list[StoredSnapshot]:
            found = []
            for path in (self._directory / "snapshots").iterdir():
                stored = _read(path)
                if (stored["topic"], stored["cursor"]) == (topic, cursor):
                    found.append(StoredSnapshot(int(path.name), stored["epoch"]))
            return sorted(found, key=lambda snapshot: snapshot.bucket_id)

        return await self._work(look)

    # -- catalogue ---------------------------------------------------------------------------------------------------

    def _catalogue_path(self, topic: str, cursor: str) -> Path:
        digest = hashlib.sha256(json.dumps([topic, cursor]).encode()).hexdigest()
        return self._directory / "catalogues" / digest

    def _catalogue(self, topic: str, cursor: str) -> dict[str, Any]:
        try:
            return _read(self._catalogue_path(topic, cursor))
        except FileNotFoundError:
            return {
                "topic": topic,
                "cursor": cursor,
                "epoch": 0,
                "writer": "",
                "mark_delete": None,
                "log_mark": astuple(LogMark()),
                "forgotten": False,
                "entries": [],
            }

    def _fenced(self, topic: str, cursor: str, epoch: int, writer: str) -> dict[str, Any]:
        catalogue = self._catalogue(topic, cursor)
        require_epoch("the catalogue", catalogue["epoch"], catalogue["writer"], epoch, writer)
        kept = catalogue["writer"] if epoch == catalogue["epoch"] else ""
        return {**catalogue, "epoch": epoch, "writer": writer or kept}

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
    ) -> None:
        """Compare the epoch and write, in one job."""

        def change() -> None:
            catalogue = self._fenced(topic, cursor, epoch, writer)
            gone = {*remove, *(entry.bucket_id for entry in add)}
            kept = [entry for entry in catalogue["entries"] if entry["bucket_id"] not in gone]
            last = {entry.bucket_id: _entry_to_json(entry) for entry in add}
            _write(
                self._catalogue_path(topic, cursor),
                {
                    **catalogue,
                    "forgotten": False,
                    "mark_delete": mark_delete or catalogue["mark_delete"],
                    "log_mark": astuple(marked(_log_mark_of(catalogue["log_mark"]), mark)),
                    "entries": [*kept, *last.values()],
                },
            )

        await self._work(change)

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Keep the epoch, and of the log mark its number and its log."""

        def change() -> None:
            catalogue = self._fenced(topic, cursor, epoch, writer)
            log_mark = astuple(_log_mark_of(catalogue["log_mark"]).without_claims())
            forgotten = {**catalogue, "forgotten": True, "mark_delete": None, "log_mark": log_mark, "entries": []}
            _write(self._catalogue_path(topic, cursor), forgotten)

        await self._work(change)

    async def trackers(self) -> list[tuple[str, str]]:
        """Read all catalogues."""

        def look() -> list[tuple[str, str]]:
            catalogues = map(_read, (self._directory / "catalogues").iterdir())
            return sorted((one["topic"], one["cursor"]) for one in catalogues if not one["forgotten"])

        return await self._work(look)

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Read one file."""
        catalogue = await self._work(lambda: self._catalogue(topic, cursor))
        entries = sorted(
            map(_entry_from_json, catalogue["entries"]), key=lambda entry: (entry.first, entry.last, entry.bucket_id)
        )
        return CatalogueState(
            catalogue["epoch"],
            tuple(entries),
            mark_delete=_position_of(catalogue["mark_delete"]),
            log_mark=_log_mark_of(catalogue["log_mark"]),
        )


def _text(entry: bytes) -> str:
    return base64.b85encode(entry).decode()


def _bytes(text: str) -> bytes:
    return base64.b85decode(text)


def _entry_to_json(entry: CatalogueEntry) -> dict[str, Any]:
    return {
        "bucket_id": entry.bucket_id,
        "first": entry.first,
        "last": entry.last,
        "summary": _text(entry.summary),
        "consumed": _text(entry.consumed),
        "mark_delete": entry.mark_delete,
        "seal_number": entry.seal_number,
    }


def _entry_from_json(stored: dict[str, Any]) -> CatalogueEntry:
    return CatalogueEntry(
        stored["bucket_id"],
        Position(*stored["first"]),
        Position(*stored["last"]),
        _bytes(stored["summary"]),
        _bytes(stored["consumed"]),
        _position_of(stored["mark_delete"]),
        stored["seal_number"],
    )


def _position_of(stored: list[int] | None) -> Position | None:
    return None if stored is None else Position(*stored)


def _log_mark_of(stored: list[Any]) -> LogMark:
    number, offered_through, log, stored_through = stored
    return LogMark(number, _position_of(offered_through), log, _position_of(stored_through))


def _write(path: Path, content: dict[str, Any]) -> None:
    encoded = json.dumps(content).encode()
    # The checksum includes the name: a renamed file is as wrong as one with other bytes.
    checksum = zlib.crc32(path.name.encode() + encoded)
    unfinished = path.with_name(f"{path.name}.new")
    with unfinished.open("wb") as file:
        file.write(b"%08x\n" % checksum + encoded)
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _read(path: Path) -> dict[str, Any]:
    checksum, _, encoded = path.read_bytes().partition(b"\n")
    if checksum != b"%08x" % zlib.crc32(path.name.encode() + encoded):
        raise SnapshotCorrupt(f"{path} fails its checksum; rebuild it from the ledgers")
    content: dict[str, Any] = json.loads(encoded)
    return content


def open_shelf(path: str) -> ShelfStorage:
    """Return the storage in a directory, not started."""
    return ShelfStorage(Path(path))
