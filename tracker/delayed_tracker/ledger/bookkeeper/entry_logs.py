"""Reads ledgers from all entry logs of one or more bookies.

An entry may have several records: on several bookies, written again by ledger recovery, copied by compaction, or
replayed from the journal. All copies have the same payload; the first copy whose digest fits is used. The logs may
still have records of deleted ledgers and records beyond a ledger's end, so the ledger's metadata decides what to read.
"""

import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER, DIGEST_BYTES
from delayed_tracker.core.kernels.compiled import position_order
from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.ledger.bookkeeper.entry_log import RECORD_SIZE_BYTES, LogRecords, scan_log
from delayed_tracker.ledger.bookkeeper.log_files import bad_stretches, find_log_files, open_log_file
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import OTHER_BOOKIES, BadEntry
from delayed_tracker.ledger.kernels import gather
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.progress import Progress

_PIECE_BYTES: Final = 4 << 20
_PIECE_RECORDS_MAX: Final = 65_536
_SPARSE_MAX: Final = 2
"""If a stretch has at most this many times the wanted bytes, it is copied as a whole, including unwanted records."""
_DIGEST_BYTES: Final = np.array([0, *(DIGEST_BYTES[digest_type] for digest_type in sorted(DIGEST_BYTES))], np.int64)
""":data:`DIGEST_BYTES` as a column, by digest type."""
UInt8Array = NDArray[np.uint8]
Number = TypeVar("Number", np.int64, np.uint8)


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Entry records of all logs, in log order."""

    file_no: NDArray[np.int32]
    """Indexes into ``EntryLogs.files``."""
    offset: Int64Array
    body_size: Int64Array
    ledger_id: Int64Array
    entry_id: Int64Array
    last_add_confirmed: Int64Array
    length: Int64Array

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def of(cls, parts: Sequence[tuple[int, Sequence[Int64Array]]]) -> "RecordColumns":
        """Join the records of several logs, given as tables with the number of their log, in the order given."""
        numbers = np.array([file_no for file_no, _ in parts], np.int32)
        counts = [sum(table.shape[1] for table in tables) for _, tables in parts]
        none = np.empty((6, 0), np.int64)
        columns = np.concatenate([none, *(table for _, tables in parts for table in tables)], axis=1)
        return cls(np.repeat(numbers, counts), *np.ascontiguousarray(columns))


class EntryLogs:
    """Entry logs found in some directories, open until :meth:`close`.

    Not thread-safe. Keeps 76 bytes per record in memory, and maps the files; gzip files are unpacked as
    :func:`open_log_file` describes.
    """

    def __init__(
        self,
        files: Sequence[Path],
        logs: Sequence[bytes | mmap.mmap],
        records: RecordColumns,
        *,
        damage: Sequence[BadEntry] = (),
        truncated: Sequence[tuple[Path, int]] = (),
    ) -> None:
        self.files = tuple(files)
        self.records = records
        self.damage = tuple(damage)
        """Stretches of files that should hold records and do not. Entries lost there are reported as missing."""
        self.truncated = tuple(truncated)
        """Files whose last record is cut short, with its offset. Normal for a bookie that crashed."""
        self._logs = list(logs)
        # By position; copies of an entry in log order.
        self._order = position_order(records.ledger_id, records.entry_id)
        self._ledger_sorted = records.ledger_id[self._order]
        self._entry_sorted = records.entry_id[self._order]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., "EntryLogs"], tuple[object, ...]]:
        """Return what another process needs to open the same files."""
        return open_entry_logs, (self.files,)

    def close(self) -> None:
        """Release the files. Results stay valid, but further reads fail."""
        # A map is closed when the last array over it is freed; closing it earlier would raise.
        self._logs.clear()

    def ledger_ids(self) -> Int64Array:
        """Return the ids of all ledgers that have a record here, ascending, including deleted ledgers."""
        return np.unique(self._ledger_sorted)

    def last_add_confirmed(self, ledger_id: int, digest: LedgerDigest) -> int:
        """Return the highest entry that a writer knew to be acknowledged; -1 if there is none. Ignores damaged records.

        Cost: O(records of the ledger).
        """
        rows = self._rows(ledger_id)
        for row in rows[np.argsort(-self.records.last_add_confirmed[rows], kind="stable")].tolist():
            if digest.open(self._body(row)) is not None:
                return int(self.records.last_add_confirmed[row])
        return -1

    def last_contiguous_entry(self, ledger_id: int, after: int) -> int:
        """Return the last of the entries after + 1, after + 2, ... that all have a record; ``after`` if none has."""
        present = np.unique(self.records.entry_id[self._rows(ledger_id)])
        beyond = present[present > after]
        run = beyond == np.arange(after + 1, after + 1 + len(beyond))
        return after + (int(np.argmin(run)) if not run.all() else len(beyond))

    def read(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Read entries ``first`` to ``last`` of a ledger, both included.

        Args:
            ledger_id: any id; a ledger without records reads as missing entries.
            first: 0 or more.
            last: below ``first`` to read nothing.
            digest: digest of that ledger, from its metadata.
        Cost: O(log(records) + bytes read).
        """
        return self._read(ledger_id, self._rows(ledger_id, first, last), first, last, digest)

    def scan(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> Iterator[LedgerEntries]:
        """Read the same range in pieces of about 4 MB, each of at least one entry. Uses memory for one piece."""
        rows = self._rows(ledger_id, first, last)
        ids = self.records.entry_id[rows]
        bytes_before = np.cumsum(self.records.body_size[rows]) - self.records.body_size[rows]
        start = 0
        while start < len(rows):
            full = int(np.searchsorted(bytes_before, bytes_before[start] + _PIECE_BYTES))
            # All copies of an entry belong in one piece.
            stop = int(np.searchsorted(ids, ids[max(start, min(full, start + _PIECE_RECORDS_MAX) - 1)], side="right"))
            piece_last = last if stop == len(rows) else int(ids[stop]) - 1
            yield self._read(ledger_id, rows[start:stop], first, piece_last, digest)
            start, first = stop, piece_last + 1
        if not len(rows) and first <= last:
            yield self._read(ledger_id, rows, first, last, digest)

    def _read(self, ledger_id: int, rows: Int64Array, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Read the entries of a range; ``rows`` are all records of the range."""
        ids = self.records.entry_id[rows]
        copies = np.flatnonzero(np.diff(ids, prepend=-1))
        present, first_rows = _at(ids, copies), _at(rows, copies)
        fitting = np.zeros(len(rows), np.uint8)
        # Try the first copy of each entry, then the next copy of those that are damaged, which is rare.
        while len(copies):
            fits = self._fitting(_at(rows, copies), digest)
            fitting[copies] = fits
            copies = copies[fits == 0] + 1
            copies = copies[copies < len(rows)]
            copies = copies[ids[copies] == ids[copies - 1]]
        whole = np.flatnonzero(fitting)
        bad = missing_entries(ledger_id, gaps(present, first, last), truncated=self.truncated, damage=self.damage)
        if len(whole) < len(present):
            is_damaged = np.isin(present, ids[whole], assume_unique=True, invert=True)
            bad += [
                self._damaged_entry(ledger_id, entry_id, row, digest)
                for entry_id, row in zip(present[is_damaged].tolist(), first_rows[is_damaged].tolist(), strict=True)
            ]
            bad.sort(key=lambda entry: -1 if entry.entry_id is None else entry.entry_id)
        return LedgerEntries(self._payloads(_at(rows, whole), _at(fitting, whole)), tuple(bad))

    def _payloads(self, rows: Int64Array, digest_type: NDArray[np.uint8]) -> StoredEntries:
        """Return the payloads of undamaged records in one buffer."""
        body = self.records.offset[rows] + RECORD_SIZE_BYTES
        start, end = body + BODY_HEADER.size + _DIGEST_BYTES[digest_type], body + self.records.body_size[rows]
        ledger_id, entry_id = self.records.ledger_id[rows], self.records.entry_id[rows]
        file_no = self.records.file_no[rows]
        if len(rows) and (file_no == file_no[0]).all():
            first, last = int(start.min()), int(end.max())
            if last - first <= _SPARSE_MAX * int((end - start).sum()):
                # These are mostly records of one ledger: it is faster to copy the bytes between them than to leave them
                # out.
                log = self._logs[file_no[0]]
                return StoredEntries(log[first:last], ledger_id, entry_id, start - first, end - first)
        parts: list[UInt8Array] = []
        order: list[Int64Array] = []
        for octets, where in self._by_file(rows):
            parts.append(gather(octets, start[where], end[where]))
            order.append(np.arange(len(rows))[where])
        # The parts follow each other in the buffer; compute the end of each row in it.
        by_file = np.concatenate(order) if order else np.empty(0, np.int64)
        size = end - start
        gathered_end = np.empty_like(end)
        gathered_end[by_file] = np.cumsum(size[by_file])
        return StoredEntries(
            b"".join(part.data for part in parts), ledger_id, entry_id, gathered_end - size, gathered_end
        )

    def _fitting(self, rows: Int64Array, digest: LedgerDigest) -> UInt8Array:
        """Return the digest type that fits each row, or 0."""
        fitting = np.zeros(len(rows), np.uint8)
        for octets, where in self._by_file(rows):
            start = self.records.offset[rows[where]] + RECORD_SIZE_BYTES
            fitting[where] = digest.fitting(octets, start, start + self.records.body_size[rows[where]])
        return fitting

    def _by_file(self, rows: Int64Array) -> Iterator[tuple[UInt8Array, Int64Array | slice]]:
        """Yield each log that has some of the rows, with the indexes of these rows."""
        file_no = self.records.file_no[rows]
        is_one = len(rows) > 0 and bool((file_no == file_no[0]).all())
        for number in [int(file_no[0])] if is_one else np.unique(file_no).tolist():
            where = slice(None) if is_one else np.flatnonzero(file_no == number)
            yield np.frombuffer(self._logs[number], np.uint8), where

    def locate(self, ledger_id: int, entry_id: int) -> tuple[Path, int] | None:
        """Return file and offset of an entry's first record; None if there is none."""
        rows = self._rows(ledger_id, entry_id, entry_id)
        if not len(rows):
            return None
        return self.files[self.records.file_no[rows[0]]], int(self.records.offset[rows[0]])

    def check_digests(self, digest_of: Callable[[int], LedgerDigest]) -> tuple[NDArray[np.uint8], BoolArray]:
        """Return for each record, in order, the digest type that fits (0 for none) and True if one fits. O(bytes)."""
        fits = np.zeros(len(self.records), np.uint8)
        for ledger_id in self.ledger_ids().tolist():
            rows = self._rows(ledger_id)
            fits[rows] = self._fitting(rows, digest_of(ledger_id))
        return fits, fits > 0

    def _rows(self, ledger_id: int, first: int = 0, last: int | None = None) -> Int64Array:
        """Return the rows of entries ``first`` to ``last``, ascending by entry, copies in log order. O(log n)."""
        start = int(np.searchsorted(self._ledger_sorted, ledger_id))
        end = int(np.searchsorted(self._ledger_sorted, ledger_id, side="right"))
        ids = self._entry_sorted[start:end]
        stop = end if last is None else start + int(np.searchsorted(ids, last, side="right"))
        return self._order[start + int(np.searchsorted(ids, first)) : stop]

    def _body(self, row: int) -> bytes:
        start = int(self.records.offset[row]) + RECORD_SIZE_BYTES
        body: bytes = self._logs[self.records.file_no[row]][start : start + int(self.records.body_size[row])]
        return body

    def _damaged_entry(self, ledger_id: int, entry_id: int, row: int, digest: LedgerDigest) -> BadEntry:
        names = " or ".join(digest_type.name for digest_type in digest.types)
        return BadEntry(
            ledger_id,
            entry_id,
            str(self.files[self.records.file_no[row]]),
            int(self.records.offset[row]),
            f"the {names} digest does not fit, and no log has a good copy",
            remedy=OTHER_BOOKIES,
        )


def open_entry_logs(directories: Sequence[str | Path], *, progress: Progress | None = None) -> EntryLogs:
    """Open the entry logs of one or more bookies.

    Args:
        directories: ledger directories of all bookies together. Each may also be the ``current`` directory inside, or a
            single log. Logs are ``<hex id>.log``, or ``.log.gz`` in an archive.
        progress: called with bytes scanned and bytes in all.
    Raises:
        InvalidInput: a directory does not exist or has no logs.
        LedgerFileInvalid: a file is not an entry log, or is of a newer version.
        OSError: a file cannot be read.
    Cost: O(records); plain files are mapped, not read.
    """
    return _scan_all(find_log_files(directories), progress)


def _scan_all(files: Sequence[Path], progress: Progress | None) -> EntryLogs:
    """Open and scan the files one by one."""
    logs: list[bytes | mmap.mmap] = []
    sizes = [file.stat().st_size for file in files]
    damage: list[BadEntry] = []
    truncated: list[tuple[Path, int]] = []
    parts: list[LogRecords] = []
    for file_no, file in enumerate(files):
        log, wrapping = open_log_file(file)
        logs.append(log)
        part = scan_log(log, str(file))
        parts.append(part)
        damage += bad_stretches(file, len(log), wrapping, part.damage)
        if part.truncated_at is not None:
            truncated.append((file, part.truncated_at))
        if progress is not None:
            progress(sum(sizes[: file_no + 1]), sum(sizes))
    records = RecordColumns.of([(file_no, part.tables) for file_no, part in enumerate(parts)])
    return EntryLogs(files, logs, records, damage=damage, truncated=truncated)


def _at(column: NDArray[Number], where: Int64Array) -> NDArray[Number]:
    """Return the rows ``where``, which are ascending. Does not copy if they are all rows, the usual case."""
    return column if len(where) == len(column) else column[where]


def missing_entries(
    ledger_id: int,
    gaps: Iterable[tuple[int, int]],
    *,
    truncated: Sequence[tuple[Path, int]],
    damage: Sequence[BadEntry],
) -> list[BadEntry]:
    """Return one bad entry for each run of entries that no log has.

    Args:
        ledger_id: the ledger of the entries.
        gaps: first entry and length of each run.
        truncated: files whose last record is cut short, with its offset.
        damage: damaged stretches of the files.
    """
    # The cause is unknown, so the reason names the damaged files, where the entries most likely were.
    reason, place_count = "no log has it", len(truncated) + sum(place.entry_count for place in damage)
    if truncated:
        reason += "; {} is cut short at byte {}".format(*truncated[0])
    elif damage:
        reason += f"; {damage[0].file} is damaged at byte {damage[0].offset}"
    if place_count > 1:
        reason += f" and {place_count - 1} places more"
    return [
        BadEntry(ledger_id, first, None, None, reason, entry_count=count, remedy=OTHER_BOOKIES) for first, count in gaps
    ]


def gaps(present: Int64Array, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield first entry and length of each run in ``first`` to ``last`` that is not in ``present``, ascending."""
    if not len(present):
        if first <= last:
            yield first, last - first + 1
        return
    if first < present[0]:
        yield first, int(present[0]) - first
    for row in np.flatnonzero(np.diff(present) > 1).tolist():
        yield int(present[row]) + 1, int(present[row + 1] - present[row]) - 1
    if present[-1] < last:
        yield int(present[-1]) + 1, last - int(present[-1])
