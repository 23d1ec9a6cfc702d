"""The reference backend: a dictionary in this process. It is used by tests and defines the behaviour of every backend.

Closing keeps the content, as a file would, so that one storage can be "restarted" under a new service.
"""

from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import SnapshotPlaces
from delayed_tracker.storage.errors import SnapshotNotFound, StorageInUse, StorageUnavailable
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


@dataclass(frozen=True, slots=True)
class _Snapshot:
    topic: str
    cursor: str
    epoch: int
    entries: tuple[bytes, ...]


@dataclass(slots=True)
class _Catalogue:
    epoch: int = 0
    writer: str = ""
    mark_delete: Position | None = None
    log_mark: LogMark = field(default_factory=LogMark)
    forgotten: bool = False
    entries: dict[int, CatalogueEntry] = field(default_factory=dict)


class MemoryStorage:
    """Snapshots and catalogue in memory. No operation waits, so each is atomic on the event loop."""

    def __init__(self) -> None:
        self._snapshots: dict[int, _Snapshot] = {}
        self._catalogues: dict[tuple[str, str], _Catalogue] = {}
        self._next_bucket_id = 1
        self._started = False
        self.swept_count: Final = 0
        """Incomplete snapshots deleted at the start; always 0, because a crash loses the whole memory."""

    async def start(self) -> None:
        """Make the storage usable, with the content of an earlier start."""
        if self._started:
            raise StorageInUse("this memory storage is started already; close it first, or open another one")
        self._started = True

    async def close(self) -> None:
        """Refuse all operations until the next start."""
        self._started = False

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,  # noqa: ARG002  # for backends whose objects have names
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """Store a snapshot; it becomes visible when all segments have arrived."""
        self._require_started()
        entries = [metadata]
        async for segment in segments:
            entries.append(segment)  # noqa: PERF401  # an exception midway must leave nothing: clearer as a loop
        self._require_started()
        bucket_id = self._next_bucket_id
        self._next_bucket_id += 1
        self._snapshots[bucket_id] = _Snapshot(topic, cursor, epoch, tuple(map(bytes, entries)))
        return bucket_id

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Return entry 0."""
        return self._snapshot(bucket_id).entries[0]

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last``, both inclusive."""
        require_entry_range(first, last)
        entries = self._snapshot(bucket_id).entries
        if last >= len(entries):
            raise SnapshotNotFound(f"bucket {bucket_id} has {len(entries) - 1} segments, not {last}")
        return list(entries[first : last + 1])

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the payload bytes of all entries."""
        return sum(map(len, self._snapshot(bucket_id).entries))

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Delete the snapshot if it exists."""
        self._require_started()
        self._snapshots.pop(bucket_id, None)

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Return every snapshot of the tracker, ascending by bucket id."""
        self._require_started()
        return [
            StoredSnapshot(bucket_id, snapshot.epoch)
            for bucket_id, snapshot in self._snapshots.items()
            if (snapshot.topic, snapshot.cursor) == (topic, cursor)
        ]

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
        """Remove, then add, and record the epoch."""
        catalogue = self._fenced(topic, cursor, epoch, writer)
        catalogue.forgotten = False
        if mark_delete is not None:
            catalogue.mark_delete = mark_delete
        catalogue.log_mark = marked(catalogue.log_mark, mark)
        for bucket_id in remove:
            catalogue.entries.pop(bucket_id, None)
        for entry in add:
            catalogue.entries[entry.bucket_id] = entry

    async def trackers(self) -> list[tuple[str, str]]:
        """Return every (topic, cursor) with a catalogue that was not forgotten."""
        self._require_started()
        return sorted(key for key, catalogue in self._catalogues.items() if not catalogue.forgotten)

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Remove the entries, keep the epoch, and of the mark its number and its log."""
        catalogue = self._fenced(topic, cursor, epoch, writer)
        catalogue.forgotten = True
        catalogue.mark_delete = None
        catalogue.log_mark = catalogue.log_mark.without_claims()
        catalogue.entries.clear()

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Return the catalogue of one tracker."""
        self._require_started()
        catalogue = self._catalogues.get((topic, cursor), _Catalogue())
        ordered = sorted(catalogue.entries.values(), key=lambda entry: (entry.first, entry.last, entry.bucket_id))
        return CatalogueState(
            catalogue.epoch,
            tuple(ordered),
            mark_delete=catalogue.mark_delete,
            log_mark=catalogue.log_mark,
            writer=catalogue.writer,
        )

    async def snapshot_places(self) -> SnapshotPlaces:
        """Return the trackers that have snapshots."""
        self._require_started()
        return SnapshotPlaces(frozenset((snapshot.topic, snapshot.cursor) for snapshot in self._snapshots.values()))

    def _require_started(self) -> None:
        if not self._started:
            raise StorageUnavailable("the memory storage is not started; call start() first")

    def _snapshot(self, bucket_id: int) -> _Snapshot:
        self._require_started()
        snapshot = self._snapshots.get(bucket_id)
        if snapshot is None:
            raise SnapshotNotFound(f"there is no snapshot of bucket {bucket_id}")
        return snapshot

    def _fenced(self, topic: str, cursor: str, epoch: int, writer: str) -> _Catalogue:
        self._require_started()
        catalogue = self._catalogues.setdefault((topic, cursor), _Catalogue())
        require_epoch(f"the catalogue of {topic!r}, {cursor!r}", catalogue.epoch, catalogue.writer, epoch, writer)
        catalogue.writer = writer or (catalogue.writer if epoch == catalogue.epoch else "")
        catalogue.epoch = epoch
        return catalogue


def open_memory(path: str) -> MemoryStorage:
    """Return a new, empty storage; the URL is ``memory:`` with nothing after the colon."""
    if path:
        raise InvalidInput("storage URL", f"memory:{path}", "write memory: alone, it has no path")
    return MemoryStorage()
