"""Block-compressed SequenceFiles: ledger entries in ``data``, positions in ``index``.

A block is -1, the sync mark, the number of records, then four zlib streams, each behind its length: the lengths of the
keys, the keys, the lengths of the values, the values. Each stream has its own checksum; the bytes around the streams
have none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.errors import CompressedDataInvalid
from delayed_tracker.ledger.offload.entry_rows import Damage, EntryRows
from delayed_tracker.ledger.offload.inflating import VALUE_BYTES_MAX, inflate
from delayed_tracker.ledger.offload.kernels import framed_values, read_lengths
from delayed_tracker.ledger.offload.local_file import LocalFile, ReadAhead
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_file import ESCAPE, SequenceHeader, next_sync, vint

_VINT_BYTES_MAX: Final = 5
_KEY_BYTES: Final = 8
_RECORDS_MAX: Final = 1 << 24
"""Most records of a block. Blocks are cut at about a megabyte, so a block that claims more records is damaged."""


class BlockInvalid(Exception):
    """No block begins at this offset, or the block contradicts itself."""


@dataclass(frozen=True, slots=True)
class Block:
    """Offsets of a block and its parts in the file."""

    offset: int
    count: int
    """Number of records, as the block's beginning states it."""
    streams: tuple[tuple[int, int], ...]
    """Start and end of the key lengths, keys, value lengths, values."""

    @property
    def end(self) -> int:
        """Offset at which the next block begins."""
        return self.streams[-1][1]


@dataclass(frozen=True, slots=True)
class BlockRecords:
    """Content of a block."""

    keys: Int64Array
    value_lengths: Int64Array
    values: bytes


class SequenceBlocks:
    """Reader of the blocks of one file."""

    def __init__(self, file: LocalFile, header: SequenceHeader, recent: RecentRows | None = None) -> None:
        self._file = file
        self._sync_mark = ESCAPE + header.sync
        self._recent = recent

    def walk(
        self, at: int, key: int | None, *, first: int, last: int, piece_bytes: int
    ) -> Iterator[EntryRows | Damage]:
        """Yield rows of keys up to ``last``, block by block.

        Args:
            at: the offset at which a block begins.
            key: the block's first key; None takes it from the block.
            first: blocks that end before this key are not inflated.
            last: the key at which to stop.
            piece_bytes: bytes to read at once; more if one block is larger.
        """
        for found in self._placed(at, key, first=first, last=last, piece_bytes=piece_bytes):
            yield found if isinstance(found, Damage) else found[1]

    def locate(self, at: int, key: int | None, wanted: int, *, piece_bytes: int) -> int | None:
        """Return the offset of the block that has a key; None if damage hides it. Arguments as for :meth:`walk`."""
        for found in self._placed(at, key, first=wanted, last=wanted, piece_bytes=piece_bytes):
            if not isinstance(found, Damage) and found[1].first <= wanted <= found[1].last:
                return found[0]
        return None

    def _placed(
        self, at: int, key: int | None, *, first: int, last: int, piece_bytes: int
    ) -> Iterator[tuple[int, EntryRows] | Damage]:
        """Yield the results of :meth:`walk`; rows come with the offset of their block."""
        ahead = ReadAhead(self._file, piece_bytes)
        while at < self._file.size_bytes and (key is None or key <= last):
            try:
                block = self.block_at(ahead, at)
            except BlockInvalid as error:
                yield Damage(self._file.name, at, str(error))
                found = next_sync(self._file, self._sync_mark, at + 1)
                at = self._file.size_bytes if found is None else found
                continue
            at = block.end
            if key is not None and key + block.count <= first:
                key += block.count
                continue
            try:
                rows = self._rows(ahead, block)
            except (BlockInvalid, CompressedDataInvalid) as error:
                yield Damage(self._file.name, block.offset, f"in the block that begins here: {error}")
                key = None if key is None else key + block.count
                continue
            if key is not None and rows.first != key:
                yield Damage(self._file.name, block.offset, f"entry {rows.first} follows where {key} should")
            yield block.offset, rows
            key = rows.last + 1

    def block_at(self, ahead: ReadAhead, at: int) -> Block:
        """Read the offsets of the parts of the block at an offset.

        Raises:
            BlockInvalid: no block begins there, or the file does not contain all of it.
        """
        mark = len(self._sync_mark)
        piece = ahead.piece(at, at + mark + _VINT_BYTES_MAX)
        start = at - piece.base
        if piece.buffer[start : start + mark] != self._sync_mark:
            raise BlockInvalid("no block begins here")
        count, at = self._length(ahead, at + mark, "number of records")
        if count > _RECORDS_MAX:
            raise BlockInvalid(f"it claims {count} records; at most {_RECORDS_MAX} are believed")
        streams = []
        for what in ("key lengths", "keys", "value lengths", "values"):
            size, at = self._length(ahead, at, f"size of the {what}")
            if size > min(self._file.size_bytes - at, VALUE_BYTES_MAX):
                left = self._file.size_bytes - at
                raise BlockInvalid(f"{size} bytes of {what} are claimed at byte {at}, {left} bytes are left")
            streams.append((at, at + size))
            at += size
        return Block(piece.base + start, count, tuple(streams))

    def records(self, ahead: ReadAhead, block: Block) -> BlockRecords:
        """Read and inflate all parts of a block.

        Raises:
            BlockInvalid: its parts do not match each other, or a checksum of the file does not match.
            CompressedDataInvalid: a part does not inflate.
        """
        piece = ahead.piece(block.offset, block.end)
        damaged_at = piece.damage_between(block.offset, block.end)
        if damaged_at is not None:
            raise BlockInvalid(f"the checksum of byte {damaged_at} on does not fit")
        view = memoryview(piece.buffer)
        streams = [view[start - piece.base : end - piece.base] for start, end in block.streams]
        key_lengths = inflate(streams[0], block.count)
        if len(key_lengths) != block.count or key_lengths.count(_KEY_BYTES) != block.count:
            raise BlockInvalid(f"the lengths of its {block.count} keys are not all {_KEY_BYTES}")
        keys = inflate(streams[1], _KEY_BYTES * block.count)
        if len(keys) != _KEY_BYTES * block.count:
            raise BlockInvalid(f"it has {len(keys)} bytes of keys, not {_KEY_BYTES} for each of {block.count}")
        packed = inflate(streams[2], _VINT_BYTES_MAX * block.count)
        if len(packed) < block.count:
            raise BlockInvalid(f"it has {len(packed)} bytes of value lengths for {block.count} values")
        value_lengths, well_formed = read_lengths(np.frombuffer(packed, np.uint8), block.count)
        size = int(value_lengths.sum()) if well_formed else -1
        if not 0 <= size <= VALUE_BYTES_MAX:
            raise BlockInvalid("the lengths of its values are no lengths")
        values = inflate(streams[3], size)
        if len(values) != size:
            raise BlockInvalid(f"it has {len(values)} bytes of values, not {size}")
        return BlockRecords(np.frombuffer(keys, ">i8").astype(np.int64), value_lengths, values)

    def _rows(self, ahead: ReadAhead, block: Block) -> EntryRows:
        cached = self._recent.get(self._file.name, block.offset) if self._recent is not None else None
        if cached is not None:
            return cached
        records = self.records(ahead, block)
        if not block.count or (np.diff(records.keys) != 1).any():
            raise BlockInvalid("its keys do not follow one another")
        start, end, good = framed_values(np.frombuffer(records.values, np.uint8), records.value_lengths)
        if good < block.count:
            raise BlockInvalid(f"the value of entry {records.keys[good]} does not begin with its length")
        rows = EntryRows(records.values, int(records.keys[0]), start, end)
        if self._recent is not None:
            self._recent.put(self._file.name, block.offset, rows)
        return rows

    def _length(self, ahead: ReadAhead, at: int, what: str) -> tuple[int, int]:
        piece = ahead.piece(at, at + _VINT_BYTES_MAX)
        number = vint(piece.buffer, at - piece.base)
        if number is None:
            raise BlockInvalid(f"the {what} at byte {at} is no length, or cut short")
        return number[0], piece.base + number[1]
