"""Finds a ledger's records in its log without an index, or past damage: used by recovery and for lost indexes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import BoolArray, Int64Array
from delayed_tracker.ledger.bookkeeper.entry_log import HEADER_BYTES, RECORD_SIZE_BYTES
from delayed_tracker.ledger.local.files.kernels import RECORD_HEADER_BYTES
from delayed_tracker.ledger.local.files.records import (
    INDEX_ROW_BYTES,
    LEFT_OUT_MAX,
    RecordNumbers,
    check_log_header,
    read_exactly,
    walk_records,
)

_PIECE_BYTES_MIN: Final = 64 << 10
_PIECE_BYTES_MAX: Final = 2 << 20
_TRIES_MAX: Final = 65_536
"""Index rows that are tried to get past one damaged place: enough to skip a megabyte of small entries."""


@dataclass(frozen=True, slots=True)
class FoundRecords:
    """Places of the entries 0, 1, 2, ... of a ledger."""

    end: Int64Array
    """Offset at which each entry's record ends, which is where the next one starts. Damaged bytes count as part of the
    entry that belongs there. An entry without a record ends where the previous one ends."""
    whole: BoolArray
    """True for each entry whose record was found with a correct checksum."""
    file_bytes: int
    last_add_confirmed: int
    """Highest "last add confirmed" of all records; -1 if there is none."""

    def ends(self, entry_count: int) -> Int64Array:
        """Return the ends of the first ``entry_count`` entries; entries behind the log's end have no record."""
        known = self.end[:entry_count]
        last_end = known[-1] if len(known) else HEADER_BYTES
        return np.concatenate([known, np.full(entry_count - len(known), last_end, np.int64)])

    def start_of(self, entry_id: int) -> int:
        """Return the offset at which an entry's record starts."""
        return int(self.end[entry_id - 1]) if entry_id else HEADER_BYTES


def find_records(log: Path, index: Path, ledger_id: int) -> FoundRecords:
    """Find all whole records of a log.

    Args:
        log: the ledger's log.
        index: used only to get past damage; may be missing or wrong.
        ledger_id: the ledger; records of other ledgers are ignored.
    Raises:
        LedgerFileInvalid: the file cannot be a ledger's log.
        OSError: the file cannot be read.
    Cost: O(bytes); memory for one piece of the log, and for the offsets.
    """
    descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        check_log_header(descriptor, log)
        return _find(descriptor, os.fstat(descriptor).st_size, index, ledger_id)
    finally:
        os.close(descriptor)


def read_index(index: Path) -> Int64Array:
    """Read an index; it is empty if the file does not exist.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        content = index.read_bytes()
    except FileNotFoundError:
        content = b""
    return np.frombuffer(content[: len(content) // INDEX_ROW_BYTES * INDEX_ROW_BYTES], "<i8").astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Reached:
    """State at the end of the last record that was found."""

    end: int = HEADER_BYTES
    next_entry_id: int = 0
    length: int = 0
    """Bytes of all payloads up to this end."""
    last_add_confirmed: int = -1

    def leads_to(self, start: int, numbers: RecordNumbers, ledger_id: int) -> bool:
        """Return True if a damaged part from here on can end where this record starts.

        The bytes between must be the payload bytes that the record's length implies, plus one record header for each
        missing id, or fewer. This check rejects a record that lies inside a payload.
        """
        if numbers.ledger_id != ledger_id or not numbers.possible:
            return False
        payload_bytes = numbers.length - (numbers.body_size + RECORD_SIZE_BYTES - RECORD_HEADER_BYTES) - self.length
        header_bytes = start - self.end - payload_bytes
        missing = numbers.entry_id - self.next_entry_id
        return (
            payload_bytes >= 0
            and header_bytes % RECORD_HEADER_BYTES == 0
            and (1 <= header_bytes // RECORD_HEADER_BYTES <= missing)
        )


def _find(descriptor: int, file_bytes: int, index: Path, ledger_id: int) -> FoundRecords:
    starts: list[Int64Array] = []
    ends: list[Int64Array] = []
    entry_ids: list[Int64Array] = []
    hints: Int64Array | None = None
    reached = _Reached()
    piece_bytes = _PIECE_BYTES_MIN
    at = HEADER_BYTES
    while at < file_bytes:
        window = read_exactly(descriptor, _window_bytes(descriptor, at, file_bytes, piece_bytes), at)
        found_ends, found_ids = walk_records(window, ledger_id=ledger_id, next_entry_id=reached.next_entry_id)
        if len(found_ends):
            piece_bytes = min(2 * piece_bytes, _PIECE_BYTES_MAX)
            starts.append(at + np.concatenate([np.zeros(1, np.int64), found_ends[:-1]]))
            ends.append(at + found_ends)
            entry_ids.append(found_ids)
            at += int(found_ends[-1])
            last = RecordNumbers.read(descriptor, int(starts[-1][-1]))
            assert last is not None
            reached = _Reached(at, last.entry_id + 1, last.length, last.last_add_confirmed)
            continue
        # Damaged entries are often close together: read small pieces, so that little is read in vain.
        piece_bytes = _PIECE_BYTES_MIN
        if hints is None:
            hints = read_index(index)
        resumed = _next_record(descriptor, at, hints, ledger_id, reached)
        if resumed is None:
            break
        at = resumed
    return _by_entry(starts, ends, entry_ids, file_bytes, reached.last_add_confirmed)


def _window_bytes(descriptor: int, at: int, file_bytes: int, piece_bytes: int) -> int:
    """Return the number of bytes to read: a piece, or a whole record if it is larger."""
    numbers = RecordNumbers.read(descriptor, at)
    record_bytes = RECORD_SIZE_BYTES + numbers.body_size if numbers is not None and numbers.possible else 0
    return min(max(piece_bytes, record_bytes), file_bytes - at)


def _next_record(descriptor: int, at: int, hints: Int64Array, ledger_id: int, reached: _Reached) -> int | None:
    """Return the offset at which a later entry's record may start, behind a record that is not whole."""
    candidates = hints[reached.next_entry_id : reached.next_entry_id + _TRIES_MAX]
    tries = candidates[candidates > at].tolist()
    damaged = RecordNumbers.read(descriptor, at)
    if damaged is not None and damaged.possible:
        tries.append(at + RECORD_SIZE_BYTES + damaged.body_size)
    for start in tries:
        numbers = RecordNumbers.read(descriptor, start)
        if numbers is not None and reached.leads_to(start, numbers, ledger_id):
            return int(start)
    return None


def _by_entry(
    starts: list[Int64Array], ends: list[Int64Array], entry_ids: list[Int64Array], file_bytes: int, confirmed: int
) -> FoundRecords:
    if not ends:
        return FoundRecords(np.empty(0, np.int64), np.empty(0, np.bool_), file_bytes, confirmed)
    start, end, entry_id = (np.concatenate(parts) for parts in (starts, ends, entry_ids))
    # Records of ids that no ledger reaches are damage, whatever their checksums.
    possible = int(np.searchsorted(entry_id - np.arange(len(entry_id)), LEFT_OUT_MAX, side="right"))
    start, end, entry_id = start[:possible], end[:possible], entry_id[:possible]
    count = int(entry_id[-1]) + 1 if possible else 0
    whole = np.zeros(count, np.bool_)
    whole[entry_id] = True
    # An entry that was not found ends where the next found entry starts.
    following = np.searchsorted(entry_id, np.arange(count))
    end_by_entry = np.where(whole, end[following], start[following])
    return FoundRecords(end_by_entry, whole, file_bytes, confirmed)
