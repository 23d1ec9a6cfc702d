"""Compacts a topic of local ledgers while other processes may write to it or read it.

The steps are: write the new ledger, replace the file that names it, remove the old ledger. After a crash, either the
old or the new ledger is valid. The next compaction removes files that are left over.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.files.lock_file import LockFile
from delayed_tracker.ledger.compaction.compactor import Compaction, CompactionSummary
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy
from delayed_tracker.ledger.local.compacted import CompactedMetadata
from delayed_tracker.ledger.local.errors import LedgerInUse
from delayed_tracker.ledger.local.files.disk import Disk, make_durably
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory
from delayed_tracker.ledger.local.files.records import Frames, Payloads
from delayed_tracker.ledger.local.ledger_ids import take_ledger_id
from delayed_tracker.ledger.local.open_ledger import OpenLedger
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.progress import Progress

_PIECE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LocalCompaction:
    """Result of a compaction."""

    ledger_id: int
    horizon: Position
    """Last position of the topic that the compaction has read."""
    summary: CompactionSummary
    bad_entries: tuple[BadEntry, ...]
    """Entries that could not be read and are missing from the ledger; empty under ErrorPolicy.FAIL."""


@dataclass(slots=True)
class _PieceWriter:
    """Buffer of entries that makes each write to the ledger large; implements CompactedLedgerWriter."""

    ledger: OpenLedger
    _entries: list[bytes] = field(default_factory=list)
    _bytes: int = 0

    def append(self, entry: bytes) -> None:
        self._entries.append(entry)
        self._bytes += len(entry)
        if self._bytes >= _PIECE_BYTES:
            self.write()

    def write(self) -> None:
        """Write the collected entries to the ledger."""
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
    """Compact the durable entries of a topic, together with the result of the previous compaction.

    Args:
        directory: the directory of local ledgers.
        topic: the name of a topic in it.
        now_ms: the time, milliseconds since 1970-01-01 UTC.
        retain_null_key: keep messages that have no key.
        on_error: SKIP leaves out entries that cannot be read, and lists them.
        progress: as in :class:`~delayed_tracker.ledger.compaction.compactor.Compaction`.
        disk: performs the file operations; tests replace it.
    Returns: the result; None if the topic has nothing to compact, and then no file changes.
    Raises:
        TopicNotFound: the topic does not exist; the message lists similar names.
        LedgerInUse: another compaction of the topic is running.
        EntriesUnreadable: an entry cannot be read, and the policy is FAIL; the previous result stays.
        InvalidInput, LedgerFileInvalid, MetadataInvalid: as
            :meth:`~delayed_tracker.ledger.local.source.LocalLedgers.topic_log`.
        OSError: a file cannot be read or written; the previous result stays, or the new ledger is already valid.
    Cost: reads O(bytes of the previous result and of the entries since then) twice; memory for the keys and for one
        piece of a ledger.
    """
    disk = disk or Disk()
    place = LedgerDirectory(Path(directory))
    with open_local_ledgers(directory) as source:
        log = source.topic_log(topic)
        files = place.topic(log.name).compacted
        make_durably(files.path, disk)
        lock = LockFile.acquire(
            files.lock, lambda holder: LedgerInUse.by(holder, f"the compacted ledgers of {log.name} in {directory}")
        )
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
    """Remove the previous compacted ledger and the files of compactions that did not finish."""
    for other in files.ledger_ids():
        if other != ledger_id:
            disk.remove(files.log(other))
            disk.remove(files.index(other))
