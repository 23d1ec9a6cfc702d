"""The index objects of blob offload: they list the ledgers and blocks of a data object.

    v1   magic DE47DE47, length i32, data length i64, data header length i64, block count i32, metadata length i32,
         LedgerMetadataFormat, then blocks
    v2   magic 3D1FB0BC, length i32, data length i64, data header length i64, then for each ledger its id i64, block
         count i32, metadata length i32, LedgerInfo, blocks

A block is its first entry i64, part id i32, and the offset i64 of its header in the data object.
"""

import itertools
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.offload.ledger_segment import LedgerSegment, parse_segment, parse_streamed_segment

INDEX_BYTES_MAX: Final = 64 << 20
"""Largest index that is read. An index has 20 bytes for each block, and a block has megabytes."""

_MAGIC_V1: Final = 0xDE47DE47
_MAGIC_V2: Final = 0x3D1FB0BC
_FIXED: Final = struct.Struct(">Iiqq")
_V1_COUNTS: Final = struct.Struct(">ii")
_V2_LEDGER: Final = struct.Struct(">qii")
_BLOCK: Final = struct.Struct(">qiq")
_DATA_HEADER_BYTES: Final = range(36, 1 << 16)


@dataclass(frozen=True, slots=True)
class BlobBlock:
    """Part of a data object with entries of one ledger."""

    key: str
    """Key of the data object."""
    offset: int
    """Offset of the block's header in the data object."""
    header_bytes: int
    end: int
    """Offset at which the next block begins, or the object ends."""
    first_entry_id: int
    streamed_ledger_id: int | None
    """Ledger of the block, in v2, whose block headers contain it; None in v1."""


@dataclass(frozen=True, slots=True)
class IndexedLedger:
    """A ledger, or a part of it, in one data object."""

    segment: LedgerSegment
    blocks: tuple[BlobBlock, ...]
    """Blocks, ascending by entry; at least one."""


@dataclass(frozen=True, slots=True)
class BlobIndex:
    """Content of an index object."""

    data_bytes: int
    """Length of the data object."""
    ledgers: Mapping[int | None, IndexedLedger]
    """Ledgers by id. In v1 there is only one, with the key None, because only the object's key contains its id."""


def parse_index(content: bytes, *, where: str, data_key: str) -> BlobIndex:
    """Parse an index object of either version.

    Args:
        content: the whole object.
        where: the name of the object, for messages.
        data_key: the key of the data object that it belongs to.
    Raises:
        LedgerFileInvalid: the object is not an index, is cut short, or contradicts itself; the message names the byte.
    """
    fields = _Fields(where, content)
    magic, length, data_bytes, header_bytes = fields.take(_FIXED, "header")
    if magic not in {_MAGIC_V1, _MAGIC_V2}:
        raise LedgerFileInvalid(
            f"{where} is no index of offloaded ledgers: it starts with {magic:08x}, not with {_MAGIC_V1:08x} or "
            f"{_MAGIC_V2:08x}"
        )
    if length != len(content):
        raise LedgerFileInvalid(
            f"{where} has {len(content)} bytes where it says {length} at byte 4; give the whole object"
        )
    if header_bytes not in _DATA_HEADER_BYTES or data_bytes < header_bytes:
        raise LedgerFileInvalid(
            f"{where}: data of {data_bytes} bytes and block headers of {header_bytes} at byte 8 cannot be"
        )
    parsed = list(_v1_ledgers(fields) if magic == _MAGIC_V1 else _v2_ledgers(fields))
    offsets = sorted(offset for _, _, blocks in parsed for _, offset in blocks)
    ends = _ends(where, offsets, header_bytes, data_bytes)
    ledgers: dict[int | None, IndexedLedger] = {}
    for ledger_id, segment, blocks in parsed:
        if ledger_id in ledgers:
            raise LedgerFileInvalid(f"{where} has ledger {ledger_id} twice")
        rows = tuple(
            BlobBlock(data_key, offset, header_bytes, ends[offset], first, ledger_id) for first, offset in blocks
        )
        _check_order(where, ledger_id, rows)
        ledgers[ledger_id] = IndexedLedger(segment, rows)
    return BlobIndex(data_bytes, ledgers)


def block_of(blocks: tuple[BlobBlock, ...], entry_id: int) -> int:
    """Return the number of the block that contains an entry; 0 for entries before the first block."""
    return max(0, bisect_right(blocks, entry_id, key=lambda block: block.first_entry_id) - 1)


_Parsed = tuple[int | None, LedgerSegment, list[tuple[int, int]]]


def _v1_ledgers(fields: "_Fields") -> Iterator[_Parsed]:
    count, metadata_bytes = fields.take(_V1_COUNTS, "counts")
    where = f"{fields.where} at byte {fields.at}"
    segment = parse_segment(fields.octets(metadata_bytes, "ledger's metadata"), where)
    blocks = fields.blocks(count)
    if fields.left:
        raise LedgerFileInvalid(f"{fields.where} goes on at byte {fields.at}, behind its last block")
    yield None, segment, blocks


def _v2_ledgers(fields: "_Fields") -> Iterator[_Parsed]:
    while fields.left:
        ledger_id, count, metadata_bytes = fields.take(_V2_LEDGER, "ledger")
        where = f"{fields.where} at byte {fields.at}"
        said, segment = parse_streamed_segment(fields.octets(metadata_bytes, "ledger's metadata"), where)
        if said != ledger_id:
            raise LedgerFileInvalid(f"{where}: metadata of ledger {said} where that of ledger {ledger_id} should be")
        yield ledger_id, segment, fields.blocks(count)


def _ends(where: str, offsets: list[int], header_bytes: int, data_bytes: int) -> Mapping[int, int]:
    """Return the end of each block by its offset. Blocks are adjacent and cover the whole object."""
    if not offsets or offsets[0] != 0:
        raise LedgerFileInvalid(f"{where}: no block begins at byte 0 of the data")
    ends = dict(zip(offsets, [*offsets[1:], data_bytes], strict=True))
    for offset, end in ends.items():
        if end < offset + header_bytes:
            raise LedgerFileInvalid(f"{where}: a block from byte {offset} to {end} of the data cannot be")
    if len(ends) < len(offsets):
        raise LedgerFileInvalid(f"{where}: two blocks begin at the same byte of the data")
    return ends


def _check_order(where: str, ledger_id: int | None, blocks: tuple[BlobBlock, ...]) -> None:
    name = "the ledger" if ledger_id is None else f"ledger {ledger_id}"
    if not blocks:
        raise LedgerFileInvalid(f"{where} has no block of {name}")
    if blocks[0].first_entry_id < 0 or (ledger_id is None and blocks[0].first_entry_id):
        raise LedgerFileInvalid(f"{where}: the first block of {name} begins with entry {blocks[0].first_entry_id}")
    for before, block in itertools.pairwise(blocks):
        if before.first_entry_id >= block.first_entry_id or before.offset >= block.offset:
            raise LedgerFileInvalid(
                f"{where}: blocks of {name} are out of order: entry {block.first_entry_id} at byte {block.offset} "
                f"behind entry {before.first_entry_id} at byte {before.offset}"
            )


class _Fields:
    """Reader of adjacent fields; sizes are checked against the bytes that are left."""

    def __init__(self, where: str, content: bytes) -> None:
        self.where = where
        self.at = 0
        self._content = content

    @property
    def left(self) -> int:
        return len(self._content) - self.at

    def octets(self, size: int, what: str) -> bytes:
        if not 0 <= size <= self.left:
            raise LedgerFileInvalid(
                f"{self.where} is cut short: {size} bytes of {what} at byte {self.at}, {self.left} left"
            )
        self.at += size
        return self._content[self.at - size : self.at]

    def take(self, layout: struct.Struct, what: str) -> tuple[int, ...]:
        return layout.unpack(self.octets(layout.size, what))

    def blocks(self, count: int) -> list[tuple[int, int]]:
        """Read the first entry and the offset of each block."""
        octets = self.octets(count * _BLOCK.size, "blocks")
        return [(first, offset) for first, _, offset in _BLOCK.iter_unpack(octets)]
