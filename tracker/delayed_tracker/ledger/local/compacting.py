"""Compacts a topic of local ledgers, beside whoever writes to it or reads it.

New ledger, then the file that names it, then the old ledger goes: a crash leaves the one or the other, and files that the
next compaction removes.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction.compactor import Compaction, CompactionSummary
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy
from delayed_tracker.ledger.local.compacted import CompactedMetadata
from delayed_tracker.ledger.local.files.disk import Disk, make_durably
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.files.locks import FileLock
from delayed_tracker.ledger.local.files.records import Frames, Payloads
from delayed_tracker.ledger.local.ledger_ids import take_ledger_id
from delayed_tracker.ledger.local.open_ledger import OpenLedger
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.progress import Progress

_PIECE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LocalCompaction:
    """What a compaction made."""

    ledger_id: int
    horizon: Position
    """The last position of the topic that it has looked at."""
    summary: CompactionSummary
    bad_entries: tuple[BadEntry, ...]
    """Entries that could not be read and are not in the ledger; empty under ErrorPolicy.FAIL."""


@dataclass(slots=True)
class _PieceWriter:
    """Collects entries, so that each write is worth its while; implements CompactedLedgerWriter."""

    ledger: OpenLedger
    _entries: list[bytes] = field(default_factory=list)
    _bytes: int = 0

    def append(self, entry: bytes) -> None:
        self._entries.append(entry)
        self._bytes += len(entry)
        if self._bytes >= _PIECE_BYTES:
            self.write()

    def write(self) -> None:
        """Put what was collected into the ledger."""
        self.ledger.write(Payloads.of(self._entries), Frames.none(len(self._entries)))
        self._entries.clear()
        self._bytes = 0


def compact_local_topic(
    directory: str | Path,
    topic: str,
    *,
    now_ms: int,
    retain_null_key: bool = False,
    on_error: ErrorPolicy = ErrorPolicy.FAIL,
    progress: Progress | None = None,
    disk: Disk | None = None,
) -> LocalCompaction | None:
    """Compact what is durable of a topic, on top of what was compacted before.

    Args:
        directory: of local ledgers.
        topic: one of theirs.
        now_ms: the time, milliseconds since 1970-01-01 UTC.
        retain_null_key: keep messages that have no key.
        on_error: SKIP leaves out entries that cannot be read, and lists them.
        progress: as that of :class:`~delayed_tracker.ledger.compaction.compactor.Compaction`.
        disk: what to do with files; for tests.
    Returns: what was made; None when the topic has nothing to compact, and nothing is changed.
    Raises:
        TopicNotFound: there is no such topic; the message lists near names.
        LedgerInUse: somebody else compacts it.
        EntriesUnreadable: an entry cannot be read, and the policy says to fail; what was compacted before stays.
        InvalidInput, LedgerFileInvalid, MetadataInvalid: as
            :meth:`~delayed_tracker.ledger.local.source.LocalLedgers.topic_log`.
        OSError: a file cannot be read or written; what was compacted before stays, or the new ledger counts already.
    Cost: O(bytes kept before, and of the entries since) twice; memory for the keys and a piece of a ledger.
    """
    disk = disk or Disk()
    place = LedgerDirectory(Path(directory))
    with open_local_ledgers(directory) as source:
        log = source.topic_log(topic)
        files = place.topic(log.name).compacted
        make_durably(files.path, disk)
        lock = FileLock.acquire(files.lock, f"the compacted ledgers of {log.name} in {directory}")
        try:
            compaction = Compaction(
                log=log,
                previous=source.compacted_log(topic),
                retain_null_key=retain_null_key,
                on_error=on_error,
                progress=progress,
            )
            plan = compaction.choose()
            if plan is None:
                return None
            ledger = OpenLedger.create(files, take_ledger_id(place, disk), created_ms=now_ms, disk=disk)
            try:
                writer = _PieceWriter(ledger)
                summary = compaction.write(plan, writer)
                writer.write()
                ledger.sync()
            finally:
                ledger.close()
            named = CompactedMetadata(ledger.ledger_id, ledger.entry_count, ledger.payload_bytes, plan.horizon)
            disk.replace(files.metadata, named.encode())
            _remove_others(files, ledger.ledger_id, disk)
        finally:
            lock.release()
    return LocalCompaction(ledger.ledger_id, plan.horizon, summary, plan.bad_entries)


def _remove_others(files: TopicDirectory, ledger_id: int, disk: Disk) -> None:
    """Remove the ledger that counted before, and what was left of compactions that did not end."""
    for other in files.ledger_ids():
        if other != ledger_id:
            disk.remove(files.log(other))
            disk.remove(files.index(other))
