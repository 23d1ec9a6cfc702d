"""The reference add log: lists in this process. It is used by tests and defines the behaviour of every backend.

Closing keeps the content, as a file would, so that one log can be "restarted" under a new service.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import (
    LogAppend,
    LogExtent,
    LoggedRecord,
    LogPage,
    require_cuts,
    require_epoch_number,
    require_no_gap,
    require_page,
    require_parts,
)
from delayed_tracker.storage.errors import SnapshotConflict, StorageInUse, StorageUnavailable
from delayed_tracker.storage.protocol import require_epoch


@dataclass(slots=True)
class _Tracker:
    epoch: int
    writer: str
    cut_through: int = 0
    """The records follow this number."""
    records: list[bytes] = field(default_factory=list)

    @property
    def last_number(self) -> int:
        return self.cut_through + len(self.records)


class MemoryAddLog:
    """Add log in memory. No operation waits, so each is atomic on the event loop."""

    def __init__(self) -> None:
        self._trackers: dict[tuple[str, str], _Tracker] = {}
        self._log_id = uuid.uuid4().hex
        self._started = False

    async def start(self) -> None:
        """Make the log usable, with the content of an earlier start."""
        if self._started:
            raise StorageInUse("this memory log is started already; close it first, or open another one")
        self._started = True

    async def close(self) -> None:
        """Refuse all operations until the next start."""
        self._started = False

    async def log_id(self) -> str:
        """Return the id that the log got when it was made."""
        self._require_started()
        return self._log_id

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """Append the parts whose trackers are not fenced, and return the others."""
        self._require_started()
        require_parts(parts)
        refused: list[tuple[str, str]] = []
        accepted: list[LogAppend] = []
        for part in parts:
            key = (part.topic, part.cursor)
            tracker = self._trackers.get(key)
            if tracker is not None:
                try:
                    self._require_owner(key, tracker, part.epoch, writer)
                except SnapshotConflict:
                    refused.append(key)
                    continue
                require_no_gap(part, tracker.last_number)
            accepted.append(part)
        for part in accepted:
            tracker = self._owned(part.topic, part.cursor, part.epoch, writer, cut_through=part.first_number - 1)
            tracker.records += map(bytes, part.records[tracker.last_number + 1 - part.first_number :])
        return refused

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """Record the epoch and its writer."""
        self._require_started()
        require_epoch_number(epoch)
        tracker = self._trackers.get((topic, cursor))
        if tracker is not None:
            self._require_owner((topic, cursor), tracker, epoch, writer)
        return _extent(topic, cursor, self._owned(topic, cursor, epoch, writer, cut_through=0))

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """Return records after a number, up to a size."""
        self._require_started()
        require_page(after, bytes_max)
        tracker = self._trackers.get((topic, cursor))
        if tracker is None:
            return LogPage((), (), is_last=True)
        found: list[LoggedRecord] = []
        size = 0
        start = max(after - tracker.cut_through, 0)
        for number, record in enumerate(tracker.records[start:], tracker.cut_through + start + 1):
            size += len(record)
            if found and size > bytes_max:
                return LogPage(tuple(found), (), is_last=False)
            found.append(LoggedRecord(number, record))
        return LogPage(tuple(found), (), is_last=True)

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Remove the first records of each tracker."""
        self._require_started()
        require_cuts(cuts)
        for topic, cursor, through in cuts:
            tracker = self._trackers.get((topic, cursor))
            if tracker is not None:
                count = min(max(through - tracker.cut_through, 0), len(tracker.records))
                del tracker.records[:count]
                tracker.cut_through += count

    async def extents(self) -> list[LogExtent]:
        """Return the trackers that have bytes of records, in order."""
        self._require_started()
        found = [_extent(*key, tracker) for key, tracker in sorted(self._trackers.items(), key=lambda item: item[0])]
        return [extent for extent in found if extent.record_bytes]

    async def size_bytes(self) -> int:
        """Return the bytes of all records."""
        self._require_started()
        return sum(_extent(*key, tracker).record_bytes for key, tracker in self._trackers.items())

    def _require_started(self) -> None:
        if not self._started:
            raise StorageUnavailable("the memory log is not started; call start() first")

    @staticmethod
    def _require_owner(key: tuple[str, str], tracker: _Tracker, epoch: int, writer: str) -> None:
        topic, cursor = key
        require_epoch(f"the log of {topic!r}, {cursor!r}", tracker.epoch, tracker.writer, epoch, writer)

    def _owned(self, topic: str, cursor: str, epoch: int, writer: str, *, cut_through: int) -> _Tracker:
        """Return a tracker under the epoch and writer that may write now; one that is new begins after a number."""
        tracker = self._trackers.setdefault((topic, cursor), _Tracker(epoch, writer, cut_through))
        tracker.writer = writer or (tracker.writer if epoch == tracker.epoch else "")
        tracker.epoch = epoch
        return tracker


def _extent(topic: str, cursor: str, tracker: _Tracker) -> LogExtent:
    return LogExtent(topic, cursor, tracker.epoch, tracker.last_number, sum(map(len, tracker.records)))


def open_memory_log(path: str) -> MemoryAddLog:
    """Return a new, empty log; the URL is ``memory:`` with nothing after the colon."""
    if path:
        raise InvalidInput("storage URL", f"memory:{path}", "write memory: alone, it has no path")
    return MemoryAddLog()
