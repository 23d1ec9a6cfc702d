"""Finds the records of one BookKeeper entry log.

A log is a header of 1024 bytes ("BKLO", version, offset of the ledgers map) and then records: size i32 and a body of
that size. The first fields of a body are ledger id and entry id. Ledger id -1 marks a record that is no entry (the
ledgers map). A size of 0 or less is padding. Logs written past the page cache pad with negative sizes up to the next
multiple of 4096 and end in zeros.

Source: DefaultEntryLogger.scanEntryLog, LogReaderScan.scan.
"""

import mmap
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER
from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.bookkeeper.next_record import RecordFinder
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.kernels import LEDGER_ID_LIKELY_MAX, walk_log

HEADER_BYTES: Final = 1024
RECORD_SIZE_BYTES: Final = 4
"""Bytes of the size field in front of each body."""
DAMAGE_MAX: Final = 1_000
"""Damaged places that are listed of one log. Those behind them are one more, which counts them."""

_MAGIC: Final = b"BKLO"
_VERSION_MAX: Final = 1
_HEADER: Final = struct.Struct(">4siqi")
_RECORD_START: Final = struct.Struct(">iq")
_RECORD: Final = struct.Struct(">iqqqq")
_INTERNAL_LEDGER: Final = -1
_BODY_BYTES_MIN: Final = 16
_DIRECT_ALIGNMENT: Final = 4096
_DIRECT_FILLER: Final = (_DIRECT_ALIGNMENT - HEADER_BYTES - RECORD_SIZE_BYTES, _INTERNAL_LEDGER)
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_PIECE_RECORDS_MAX: Final = 32_768
_PIECE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Stretch of a log that is not a record."""

    offset: int
    ledger_id: int | None
    entry_id: int | None
    reason: str
    count: int = 1
    """Number of damaged places from ``offset`` on, if they are not listed one by one."""


@dataclass(frozen=True, slots=True)
class LogRecords:
    """Entries of one log in file order, as columns without the bytes of the entries."""

    tables: tuple[Int64Array, ...]
    """One column per entry. The rows are offset of the size field, body size, ledger id, entry id, last add confirmed,
    and length (the payload bytes of the ledger up to and including this entry). The tables are not joined, because a
    caller that reads several logs joins the tables of all of them."""
    damage: tuple[LogDamage, ...]
    """The first ``DAMAGE_MAX`` places; those behind them are one more, and a finished log that is cut short another."""
    truncated_at: int | None
    """Offset at which the last record or the header is cut short, as after a crash; None if the log ends with a record.
    A record that reaches beyond the end while other records follow its start is damage instead."""

    def __len__(self) -> int:
        return sum(table.shape[1] for table in self.tables)


@dataclass(frozen=True, slots=True)
class RecordPiece:
    """Some entries of one log, in file order."""

    table: Int64Array
    """Rows and columns as in :class:`LogRecords`."""
    damage: tuple[LogDamage, ...] = ()
    """Damage of the whole log as in :class:`LogRecords`; only the last piece has it."""
    truncated_at: int | None = None
    """Offset as in :class:`LogRecords`; only the last piece has it."""

    def __len__(self) -> int:
        return len(self._row(0))

    @classmethod
    def empty(cls, damage: tuple[LogDamage, ...] = (), truncated_at: int | None = None) -> "RecordPiece":
        """Return a piece without entries that carries the damage of a log."""
        return cls(np.empty((6, 0), np.int64), damage, truncated_at)

    @property
    def offset(self) -> Int64Array:
        """Offsets of the size fields."""
        return self._row(0)

    @property
    def body_size(self) -> Int64Array:
        """Sizes of the bodies in bytes."""
        return self._row(1)

    @property
    def ledger_id(self) -> Int64Array:
        """Ledger ids."""
        return self._row(2)

    @property
    def entry_id(self) -> Int64Array:
        """Entry ids."""
        return self._row(3)

    @property
    def last_add_confirmed(self) -> Int64Array:
        """Highest entry that the writer knew to be acknowledged when it sent this one; -1 for none."""
        return self._row(4)

    @property
    def end(self) -> int:
        """Offset behind the last record. The piece must have a record."""
        return int(self.offset[-1] + self.body_size[-1]) + RECORD_SIZE_BYTES

    def _row(self, number: int) -> Int64Array:
        row: Int64Array = self.table[number]
        return row


def scan_log(log: bytes | mmap.mmap, name: str) -> LogRecords:
    """Find all entries of a log. Digests are not verified, because that needs the digest type of each ledger.

    Args:
        log: the whole file.
        name: name of the log in errors.
    Raises:
        LedgerFileInvalid: not an entry log, or of a newer version.
    Cost: O(records).
    """
    pieces = list(log_pieces(log, name))
    return LogRecords(tuple(piece.table for piece in pieces), pieces[-1].damage, pieces[-1].truncated_at)


def log_pieces(
    log: bytes | mmap.mmap, name: str, *, start: int = HEADER_BYTES, stop: int | None = None
) -> Iterator[RecordPiece]:
    """Find all entries of a log, in pieces of 4 MB (or one larger record) and at most 32,768 records.

    Args:
        log: the whole file.
        name: name of the log in errors.
        start: offset at which a record begins, taken from a piece that was read before.
        stop: offset at which a record ends, taken from such a piece; None for the end of the log.
    Returns: pieces in file order. The last one has no records and carries the damage of the whole log, of which
        ``DAMAGE_MAX`` places are listed.
    Raises:
        LedgerFileInvalid: not an entry log, or of a newer version.
    """
    # Padding and damage end a run of records. Short runs are joined, because each piece costs its readers memory.
    joined: list[Int64Array] = []
    count, first = 0, start
    for run in _runs(log, name, start, stop):
        is_last = not len(run)
        if joined and (is_last or count + len(run) > _PIECE_RECORDS_MAX or run.end - first > _PIECE_BYTES):
            yield RecordPiece(joined[0] if len(joined) == 1 else np.concatenate(joined, axis=1))
            joined, count = [], 0
        if is_last:
            yield run
            continue
        if not joined:
            first = int(run.offset[0])
        joined.append(run.table)
        count += len(run)


def _runs(log: bytes | mmap.mmap, name: str, start: int, stop: int | None) -> Iterator[RecordPiece]:
    """Find all entries as :func:`log_pieces`, in a piece for each run of records; only the last piece has none."""
    finished = _check_header(log, name) and stop is None
    end = len(log) if stop is None else stop
    direct = len(log) >= HEADER_BYTES + _RECORD_START.size and (
        _RECORD_START.unpack_from(log, HEADER_BYTES) == _DIRECT_FILLER
    )
    octets = np.frombuffer(log, np.uint8)
    finder = RecordFinder(log)
    damage = _DamageList()
    truncated_at = None
    position = start
    while True:
        within = min(end, position + _PIECE_BYTES)
        part, stopped_at = walk_log(octets[:within], position, _PIECE_RECORDS_MAX, direct)
        if part.shape[1]:
            yield RecordPiece(part)
        if stopped_at > position:
            position = int(stopped_at)
            continue
        # `walk_log` stopped. Handle one unusual record or stretch of padding here, then let it go on.
        if position + RECORD_SIZE_BYTES > end:
            break
        if position + _RECORD.size <= end:
            size, ledger_id, entry_id, last_add_confirmed, length = _RECORD.unpack_from(log, position)
        else:
            # Too near the end for an entry, but an internal record still fits.
            padded = log[position:end] + bytes(_RECORD.size)
            size, ledger_id, entry_id, last_add_confirmed, length = _RECORD.unpack_from(padded)
        if size <= 0:
            if direct and size == 0:
                break
            position = _after_padding(log, position, direct=direct)
            continue
        if size < _BODY_BYTES_MIN or not _INTERNAL_LEDGER <= ledger_id < LEDGER_ID_LIKELY_MAX:
            # One to three bytes of padding in front of a record read as a size that is too small.
            aligned = _first_record(log, position, position + RECORD_SIZE_BYTES)
            if aligned is not None:
                position = aligned
                continue
        next_position = position + RECORD_SIZE_BYTES + size
        if size < _BODY_BYTES_MIN or next_position > end:
            found = finder.find(position + 1)
            if found is None and next_position > end:
                truncated_at = position
                break
            rest = "the rest is not read" if found is None else f"reading goes on at byte {found}"
            damage.add(LogDamage(position, None, None, f"a record cannot have {size} bytes; {rest}"))
            if found is None:
                break
            position = found
            continue
        if ledger_id != _INTERNAL_LEDGER:
            if size < BODY_HEADER.size or ledger_id < 0 or entry_id < 0:
                reason = f"a record of {size} bytes for {ledger_id}:{entry_id} is no entry"
                damage.add(LogDamage(position, ledger_id, entry_id, reason))
            else:
                yield RecordPiece(
                    np.array([[position], [size], [ledger_id], [entry_id], [last_add_confirmed], [length]])
                )
        position = next_position

    if end < HEADER_BYTES:
        truncated_at = end
    elif truncated_at is None and not direct and not damage.listed and log[position:end].strip(b"\0"):
        truncated_at = position
    listed = damage.whole()
    if finished and truncated_at is not None:
        listed += (LogDamage(truncated_at, None, None, f"the log was finished, yet is cut short at {end} bytes"),)
    yield RecordPiece.empty(listed, truncated_at)


class _DamageList:
    """Damage of one log in file order, of which only the first ``DAMAGE_MAX`` places are kept."""

    def __init__(self) -> None:
        self.listed: list[LogDamage] = []
        self._first_more: LogDamage | None = None
        self._last: LogDamage | None = None
        self._more_count = 0

    def add(self, damage: LogDamage) -> None:
        """Add the next place."""
        if len(self.listed) < DAMAGE_MAX:
            self.listed.append(damage)
            return
        self._first_more = self._first_more or damage
        self._last = damage
        self._more_count += 1

    def whole(self) -> tuple[LogDamage, ...]:
        """Return what is listed, and the other places as one more."""
        if self._first_more is None or self._last is None:
            return tuple(self.listed)
        reason = (
            f"{self._more_count} more places are damaged, the last at byte {self._last.offset}: {self._last.reason}"
        )
        return (*self.listed, LogDamage(self._first_more.offset, None, None, reason, self._more_count))


def _check_header(log: bytes | mmap.mmap, name: str) -> bool:
    """Return True if the log was finished, that is, if it has its ledgers map."""
    start = log[: _HEADER.size]
    if not _MAGIC.startswith(start[:4]) and not start.startswith(_MAGIC):
        raise LedgerFileInvalid(
            f"{name} does not start with {_MAGIC.decode()} but with {start[:4]!r}: not a BookKeeper entry log; "
            "give the bookie's ledger directories"
        )
    if len(start) < _HEADER.size:
        return False
    _, version, map_offset, _ = _HEADER.unpack(start)
    if not 0 <= version <= _VERSION_MAX:
        raise LedgerFileInvalid(
            f"{name} is an entry log of version {version}; this program reads versions 0 to {_VERSION_MAX}"
        )
    return bool(map_offset > 0)


def _after_padding(log: bytes | mmap.mmap, position: int, *, direct: bool) -> int:
    """Return the next offset at which a record may start."""
    if direct:
        return (position // _DIRECT_ALIGNMENT + 1) * _DIRECT_ALIGNMENT
    # Padding is crossed byte by byte, but a stretch of zeros at once.
    match = _NOT_ZERO.search(log, position)
    if match is None:
        return len(log)
    # The first byte that is not 0 belongs to a size field of four bytes, or the stretch was not padding.
    first = max(position + 1, match.start() - RECORD_SIZE_BYTES + 1)
    return _first_record(log, first, match.start() + 1) or first


def _first_record(log: bytes | mmap.mmap, first: int, stop: int) -> int | None:
    """Return the first offset in a range at which a whole record fits and before which the range has only zeros."""
    for start in range(first, min(stop, len(log) - _RECORD_START.size)):
        size, ledger_id = _RECORD_START.unpack_from(log, start)
        fits = _BODY_BYTES_MIN <= size <= len(log) - start - RECORD_SIZE_BYTES
        if fits and _INTERNAL_LEDGER <= ledger_id < LEDGER_ID_LIKELY_MAX:
            return start
        if log[start]:
            break
    return None
