"""Ledger entries in SequenceFiles of single records, uncompressed or with each value compressed by itself.

A record is its length i32, the key length i32, the key i64, the value. Keys are consecutive, which reveals damage that
does not affect the lengths. After a damaged length, reading continues at the next sync mark.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.offload.entry_rows import Damage, EntryRows, without
from delayed_tracker.ledger.offload.inflating import VALUE_BYTES_MAX, inflate_some
from delayed_tracker.ledger.offload.kernels import CUT, framed_values, walk_sequence_records
from delayed_tracker.ledger.offload.local_file import LocalFile, Piece
from delayed_tracker.ledger.offload.sequence_file import ESCAPE, SYNC_BYTES, Compression, SequenceHeader, next_sync

_RECORD: Final = struct.Struct(">iiq")
_SYNC_SIZE: Final = len(ESCAPE) + SYNC_BYTES
_LENGTH_BYTES: Final = 4
_EMPTY_VALUE: Final = bytes(_LENGTH_BYTES)
_COMPRESSED_PIECE_BYTES_MAX: Final = 1 << 18
_INFLATED_BYTES_MAX: Final = 16 << 20
"""Most bytes held inflated at once, or one larger entry: a piece could inflate to a thousand times its size."""


class SequenceRecords:
    """Reader of the records of one file."""

    def __init__(self, file: LocalFile, header: SequenceHeader) -> None:
        self._file = file
        self._sync = np.frombuffer(header.sync, np.uint8)
        self._sync_mark = ESCAPE + header.sync
        self._framed = header.compression is Compression.NONE
        self._value_at = _RECORD.size + (_LENGTH_BYTES if self._framed else 0)

    def walk(self, at: int, key: int, *, first: int, last: int, piece_bytes: int) -> Iterator[EntryRows | Damage]:
        """Yield rows of keys up to ``last``, in pieces.

        Args:
            at: the offset at which a record begins, or a sync mark in front of one.
            key: the key of that record.
            first: values of lower keys are not decoded.
            last: the key at which to stop.
            piece_bytes: bytes to read at once; more if one record is larger.
        """
        if not self._framed:
            piece_bytes = min(piece_bytes, _COMPRESSED_PIECE_BYTES_MAX)
        for found in self._records(at, key, last, piece_bytes):
            if isinstance(found, Damage):
                yield found
            else:
                piece, rows = found
                yield from self._values(piece, rows.within(first, last))

    def positions(self, at: int, key: int, last: int, *, every: int, piece_bytes: int) -> Iterator[tuple[int, int]]:
        """Yield (key, offset) of about every n-th record up to ``last``, for a file without an index. O(bytes)."""
        for found in self._records(at, key, last, piece_bytes):
            if not isinstance(found, Damage):
                piece, rows = found
                for row in range(0, len(rows), every):
                    yield rows.first + row, piece.base + int(rows.start[row]) - self._value_at

    def locate(self, at: int, key: int, wanted: int, *, piece_bytes: int) -> int | None:
        """Return the offset of the record of a key, or of a sync mark in front of it; None if damage hides it.

        Args:
            at: as for :meth:`walk`.
            key: the key of the record at ``at``.
            wanted: that key or a higher one.
            piece_bytes: as for :meth:`walk`.
        """
        for found in self._records(at, key, wanted, piece_bytes):
            if not isinstance(found, Damage):
                piece, rows = found
                if rows.first <= wanted <= rows.last:
                    return self._record_offset(piece, rows, wanted - rows.first)
        return None

    def _records(self, at: int, key: int, last: int, piece_bytes: int) -> Iterator[tuple[Piece, EntryRows] | Damage]:
        wanted = piece_bytes
        while key <= last and at < self._file.size_bytes:
            piece = self._file.read(at, at + wanted)
            octets = np.frombuffer(piece.buffer, np.uint8)
            start, end, stopped, status = walk_sequence_records(
                octets, at - piece.base, len(octets), self._sync, key, last, int(self._framed)
            )
            stopped += piece.base
            if len(start):
                yield piece, EntryRows(piece.buffer, key, start, end)
                key += len(start)
            wanted = piece_bytes
            if status == CUT:
                record_bytes = self._record_bytes(piece, stopped)
                if record_bytes is not None:
                    at, wanted = stopped, max(piece_bytes, record_bytes)
                    continue
            at = stopped
            if key <= last and at < self._file.size_bytes:
                damage, at, key = self._resume(at, key)
                yield damage

    def _record_bytes(self, piece: Piece, at: int) -> int | None:
        """Return how many bytes contain the whole record at ``at``; None if the file does not contain all of it."""
        left = self._file.size_bytes - at
        length = piece.buffer[at - piece.base :][:_LENGTH_BYTES]
        if length == ESCAPE or len(length) < _LENGTH_BYTES:
            needed = _SYNC_SIZE + _RECORD.size + _LENGTH_BYTES
            return needed if piece.end < self._file.size_bytes else None
        needed = _LENGTH_BYTES * 2 + int.from_bytes(length, "big")
        return needed if needed <= min(left, VALUE_BYTES_MAX) else None

    def _values(self, piece: Piece, rows: EntryRows) -> Iterator[EntryRows | Damage]:
        """Yield the rows with their entries, and the damage in between."""
        if not len(rows):
            return
        while not self._framed and len(rows):
            inflated, bad = self._inflated(piece, rows)
            yield from without(inflated, bad | self._checksum_damage(piece, rows, len(inflated)))
            rows = rows.within(inflated.last + 1, rows.last)
        yield from without(rows, self._checksum_damage(piece, rows, len(rows)))

    def _checksum_damage(self, piece: Piece, rows: EntryRows, count: int) -> dict[int, Damage]:
        """Return the damage of those of the first ``count`` rows that lie in a chunk with a wrong checksum, by row."""
        bad: dict[int, Damage] = {}
        if not len(piece.damaged):
            return bad
        starts, ends = piece.base + rows.start[:count], piece.base + rows.end[:count]
        spans = zip(starts.tolist(), ends.tolist(), strict=True)
        for row, (start, end) in enumerate(spans):
            damaged_at = piece.damage_between(start - self._value_at, end)
            if damaged_at is not None:
                bad[row] = self._damage(start - self._value_at, f"the checksum of byte {damaged_at} on does not fit")
        return bad

    def _inflated(self, piece: Piece, rows: EntryRows) -> tuple[EntryRows, dict[int, Damage]]:
        """Inflate the first rows into one buffer; return them, and the damage of rows that do not inflate, by row."""
        stored, bad = piece.buffer, {}
        streams = [stored[start:end] for start, end in zip(rows.start.tolist(), rows.end.tolist(), strict=True)]
        values, damaged = inflate_some(streams, _INFLATED_BYTES_MAX)
        for row, error in damaged.items():
            bad[row] = self._damage(self._record_offset(piece, rows, row), error.message)
            values[row] = _EMPTY_VALUE
        buffer, start, end, good = _framed(values)
        if good < len(values):
            for row, value in enumerate(values):
                if (
                    len(value) < _LENGTH_BYTES
                    or int.from_bytes(value[:_LENGTH_BYTES], "big") != len(value) - _LENGTH_BYTES
                ):
                    reason = "its value does not begin with its length"
                    bad[row] = self._damage(self._record_offset(piece, rows, row), reason)
                    values[row] = _EMPTY_VALUE
            buffer, start, end, _ = _framed(values)
        return EntryRows(buffer, rows.first, start, end), bad

    def _resume(self, at: int, key: int) -> tuple[Damage, int, int]:
        """Return damage, offset and key: the place to continue if the record of ``key`` is not at ``at``."""
        here = self._record_at(at)
        if here is not None:
            found, end = here
            behind = self._record_at(end)
            if end == self._file.size_bytes or (behind is not None and behind[0] == key + 1):
                return self._damage(at, f"its key is {found} where {key} should be"), end, key + 1
            if found > key and behind is not None and behind[0] == found + 1:
                return self._damage(at, f"entry {found} follows where {key} should"), at, found
            damage = self._damage(at, f"entry {found} is out of order where {key} should be")
        else:
            damage = self._damage(at, "no whole record begins here")
        mark = next_sync(self._file, self._sync_mark, at + 1)
        while mark is not None:
            here = self._record_at(mark)
            if here is not None and here[0] >= key:
                found, end = here
                behind = self._record_at(end)
                if end == self._file.size_bytes or (behind is not None and behind[0] == found + 1):
                    return damage, mark, found
            mark = next_sync(self._file, self._sync_mark, mark + 1)
        return damage, self._file.size_bytes, key

    def _record_at(self, at: int) -> tuple[int, int] | None:
        """Return key and end of the record at ``at``, or behind a sync mark there; None if it is not whole."""
        piece = self._file.read(at, at + _SYNC_SIZE + self._value_at)
        octets = piece.buffer[at - piece.base :]
        while octets.startswith(self._sync_mark):
            octets, at = octets[_SYNC_SIZE:], at + _SYNC_SIZE
        if len(octets) < self._value_at:
            return None
        length, key_length, key = _RECORD.unpack_from(octets)
        end = at + 2 * _LENGTH_BYTES + length
        if key_length != 8 or length < self._value_at - 2 * _LENGTH_BYTES or end > self._file.size_bytes:
            return None
        if self._framed and int.from_bytes(octets[_RECORD.size :][:_LENGTH_BYTES], "big") != length - 12:
            return None
        return key, end

    def _record_offset(self, piece: Piece, rows: EntryRows, row: int) -> int:
        return piece.base + int(rows.start[row]) - self._value_at

    def _damage(self, offset: int, reason: str) -> Damage:
        return Damage(self._file.name, offset, reason)


def _framed(values: Sequence[bytes]) -> tuple[bytes, Int64Array, Int64Array, int]:
    """Join values; return the buffer, starts and ends of the entries, and the number of leading correct values."""
    buffer = b"".join(values)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return buffer, *framed_values(np.frombuffer(buffer, np.uint8), lengths)
