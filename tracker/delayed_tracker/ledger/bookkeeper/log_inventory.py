"""Inventory of entry logs that needs little memory: the entries of each ledger in each piece of a log.

It is enough to find out, before entries are read, where ledgers end that were never closed, which entries no log has,
and which piece provides an entry that several pieces have. The bytes of the entries are read later, piece by piece.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from pyroaring import BitMap

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, Int64Array
from delayed_tracker.ledger.bookkeeper.entry_log import RECORD_SIZE_BYTES, LogDamage, RecordPiece, log_pieces
from delayed_tracker.ledger.bookkeeper.entry_logs import EntryLogs, RecordColumns
from delayed_tracker.ledger.bookkeeper.log_files import bad_stretches, find_log_files, open_log_file, release_pages
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import BadEntry, ErrorPolicy, LedgerFileInvalid
from delayed_tracker.ledger.metadata.digest import LedgerDigest


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Stretch of one log, from the start of a record to the end of a record."""

    file_no: int
    """Index into ``LogInventory.files``."""
    start: int
    end: int
    entries: Mapping[int, BitMap]
    """By ledger: the entries that have records here, without ids that no entry can have."""
    confirmed: Mapping[int, int]
    """By ledger: the highest entry that a record here gives as acknowledged."""


class LogInventory:
    """Entry logs of one or more bookies, scanned once: a :class:`~delayed_tracker.ledger.topic.ledger_logs.LedgerLogs`.

    Open until :meth:`close`. Not thread-safe.
    """

    def __init__(
        self,
        directories: Sequence[str | Path],
        ledger_ids: Sequence[int],
        *,
        on_error: ErrorPolicy = ErrorPolicy.FAIL,
    ) -> None:
        """Scan the logs.

        Args:
            directories: as for :func:`~delayed_tracker.ledger.bookkeeper.log_files.find_log_files`.
            ledger_ids: the ledgers to record; all others are ignored.
            on_error: SKIP reports a file that is not an entry log, or is of a newer version, as damage.
        Raises:
            InvalidInput: a directory does not exist or has no logs.
            LedgerFileInvalid: a file is not an entry log, or is of a newer version, and the policy is to fail.
            OSError: a file cannot be read.
        Cost: O(records), some 50 ns each, on as many cores as there are logs; memory for two bitmaps per piece of 4 MB.
        """
        self.files = tuple(find_log_files(directories))
        self._on_error = on_error
        self._wanted = np.unique(np.array(ledger_ids, np.int64))
        opened = [open_log_file(file) for file in self.files]
        self._logs = [log for log, _ in opened]
        with ThreadPoolExecutor() as threads:
            found = list(threads.map(self._look_through, range(len(self.files))))
        self.pieces: tuple[LogPiece, ...] = tuple(piece for pieces, _ in found for piece in pieces)
        """In the order of the logs."""
        damage: list[BadEntry] = []
        truncated: list[tuple[Path, int]] = []
        for (log, wrapping), file, (_, last) in zip(opened, self.files, found, strict=True):
            damage += bad_stretches(file, len(log), wrapping, last.damage)
            if last.truncated_at is not None:
                truncated.append((file, last.truncated_at))
        self.damage = tuple(damage)
        """Stretches of files that should hold records and do not. Entries lost there are reported as missing."""
        self.truncated = tuple(truncated)
        """Files whose last record is cut short, with its offset. Normal for a bookie that crashed."""
        self._recent: tuple[int, EntryLogs] = -1, EntryLogs((), (), RecordColumns.of([]))
        self._holders: dict[int, list[LogPiece]] = defaultdict(list)
        for piece in self.pieces:
            for ledger_id in piece.entries:
                self._holders[ledger_id].append(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the files."""
        self._logs.clear()
        self._recent[1].close()

    def holders(self, ledger_id: int) -> Sequence[LogPiece]:
        """Return the pieces that have entries of a ledger, in the order of the logs."""
        return self._holders.get(ledger_id, ())

    def last_add_confirmed(self, ledger_id: int, digest: LedgerDigest) -> int:
        """Return the highest entry that a writer knew to be acknowledged; -1 if there is none. Ignores damaged records.

        Cost: O(records of one piece), or of several pieces if records are damaged.
        """
        highest = -1
        for piece in sorted(self.holders(ledger_id), key=lambda piece: -piece.confirmed[ledger_id]):
            if piece.confirmed[ledger_id] <= highest:
                break
            log = self._logs[piece.file_no]
            for records in self._read_piece(piece):
                rows = np.flatnonzero((records.ledger_id == ledger_id) & (records.last_add_confirmed > highest))
                for row in rows[np.argsort(-records.last_add_confirmed[rows], kind="stable")].tolist():
                    start = int(records.offset[row]) + RECORD_SIZE_BYTES
                    if digest.open(log[start : start + int(records.body_size[row])]) is not None:
                        highest = int(records.last_add_confirmed[row])
                        break
        return highest

    def last_contiguous_entry(self, ledger_id: int, after: int) -> int:
        """Return the last of the entries after + 1, after + 2, ... that all have a record; ``after`` if none has."""
        present = BitMap.union(BitMap(), *(piece.entries[ledger_id] for piece in self.holders(ledger_id)))
        if not present or present.max() <= after:
            return after
        gaps = BitMap(range(after + 1, present.max() + 2)) - present
        return int(gaps.min()) - 1

    def read(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Read as :meth:`LedgerLogs.read`. Cost: O(records of the pieces that have the ledger), and the bytes read."""
        return self._records_of(ledger_id).read(ledger_id, first, last, digest)

    def scan(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> Iterator[LedgerEntries]:
        """Read as :meth:`LedgerLogs.scan`. Cost: as :meth:`read`."""
        return self._records_of(ledger_id).scan(ledger_id, first, last, digest)

    def locate(self, ledger_id: int, entry_id: int) -> tuple[Path, int] | None:
        """Return file and offset of an entry's first record. Cost: as :meth:`read`."""
        return self._records_of(ledger_id).locate(ledger_id, entry_id)

    def _records_of(self, ledger_id: int) -> EntryLogs:
        """Return all records of one ledger, read from the logs again. The result for the last ledger is cached."""
        known, records = self._recent
        if known != ledger_id:
            pieces = [
                (piece.file_no, [found.table[:, found.ledger_id == ledger_id] for found in self._read_piece(piece)])
                for piece in self.holders(ledger_id)
            ]
            records = EntryLogs(
                self.files,
                self._logs,
                RecordColumns.of(pieces),
                damage=self.damage,
                truncated=self.truncated,
            )
            self._recent = ledger_id, records
        return records

    def _read_piece(self, piece: LogPiece) -> Iterator[RecordPiece]:
        file = self.files[piece.file_no]
        return log_pieces(self._logs[piece.file_no], str(file), start=piece.start, stop=piece.end)

    def _look_through(self, file_no: int) -> tuple[list[LogPiece], RecordPiece]:
        """Return the pieces of a log that have wanted ledgers, and its last piece, which carries the damage."""
        pieces: list[LogPiece] = []
        records = RecordPiece.empty()
        found = log_pieces(self._logs[file_no], str(self.files[file_no]))
        if self._on_error is ErrorPolicy.SKIP:
            try:
                records = next(found)
            except LedgerFileInvalid as error:
                return pieces, RecordPiece.empty((LogDamage(0, None, None, error.message),))
            found = chain([records], found)
        for records in found:
            entries: dict[int, BitMap] = {}
            confirmed: dict[int, int] = {}
            for ledger_id, rows in _by_ledger(records, self._wanted):
                entries[ledger_id] = _bitmap(records.entry_id[rows])
                confirmed[ledger_id] = int(records.last_add_confirmed[rows].max())
            if entries:
                pieces.append(LogPiece(file_no, int(records.offset[0]), records.end, entries, confirmed))
            if len(records):
                release_pages(self._logs[file_no], int(records.offset[0]), records.end)
        return pieces, records


def _by_ledger(records: RecordPiece, wanted: Int64Array) -> Iterator[tuple[int, slice | Int64Array]]:
    """Yield each wanted ledger with its rows, in file order."""
    ids = records.ledger_id
    if not len(ids):
        return
    if (ids == ids[0]).all():
        if _has(wanted, int(ids[0])):
            yield int(ids[0]), slice(None)
        return
    order = np.argsort(ids, kind="stable")
    starts = np.flatnonzero(np.diff(ids[order], prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        ledger_id = int(ids[order[start]])
        if _has(wanted, ledger_id):
            yield ledger_id, order[start:end]


def _has(ascending: Int64Array, value: int) -> bool:
    at = int(np.searchsorted(ascending, value))
    return at < len(ascending) and int(ascending[at]) == value


def _bitmap(entry_ids: Int64Array) -> BitMap:
    first, last = int(entry_ids[0]), int(entry_ids[-1])
    if last <= ENTRY_ID_MAX and last - first == len(entry_ids) - 1 and (np.diff(entry_ids) == 1).all():
        return BitMap(range(first, last + 1))
    return BitMap(array("I", entry_ids[entry_ids <= ENTRY_ID_MAX].astype(np.uint32).tobytes()))
