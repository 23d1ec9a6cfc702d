"""One ledger as Pulsar's blob store driver stores it: blocks of records, in one or several objects.

    v1 header   magic FBDBABCB, header length i64, block length i64, first entry i64
    v2 header   magic 26A66D32, header length i64, block length i64, first entry i64, ledger i64
    record      size i32, entry id i64, the entry
    padding     FE DC DE AD, again and again, up to the block's length

The format has no checksums, and only the order of the entry ids reveals a wrong size. A payload with a wrong byte is
returned unchanged; the message's CRC32C reveals it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.offload.blob_index import BlobBlock, block_of
from delayed_tracker.ledger.offload.blob_store import BlobStore
from delayed_tracker.ledger.offload.entry_rows import Damage, DamageKind, EntryRows, joined, ledger_entries
from delayed_tracker.ledger.offload.kernels import CUT, OUT_OF_ORDER, WALKED, walk_blob_records

_MAGIC_V1: Final = 0xFBDBABCB
_MAGIC_V2: Final = 0x26A66D32
_HEADER_V1: Final = struct.Struct(">Iqqq")
_HEADER_V2: Final = struct.Struct(">Iqqqq")
_RECORD: Final = struct.Struct(">iq")
_PADDING: Final = b"\xfe\xdc\xde\xad" * 3
_AROUND_BYTES: Final = 16 << 10
"""Bytes fetched before and behind a small range: a request costs much more than the bytes that it returns."""
_KEPT_BYTES_MAX: Final = 128 << 10


@dataclass(frozen=True, slots=True)
class FetchSizes:
    """Number of bytes to fetch at a time; more if one entry is larger."""

    first_bytes: int
    max_bytes: int
    """Limit of a piece; each piece is twice as large as the one before, up to this."""
    remembers: bool
    """True if the places of records are to be remembered."""


READ: Final = FetchSizes(1 << 16, 4 << 20, remembers=True)
SCAN: Final = FetchSizes(8 << 20, 8 << 20, remembers=False)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Range of an object."""

    key: str
    start: int
    octets: bytes

    def has(self, key: str, start: int, end: int) -> bool:
        """Return True if the piece contains a range."""
        return key == self.key and self.start <= start and end <= self.start + len(self.octets)


@dataclass(slots=True)
class BlobLedger:
    """Ledger in blob objects; implements :class:`~delayed_tracker.ledger.topic.topic_log.Ledger`.

    A block has no index of its own, so the first read of an entry walks the block up to it. The places of the records
    are then remembered, with 8 bytes for each. Later reads fetch only the requested range and a little around it. The
    last piece is kept, because a search ends with reads of adjacent entries.
    """

    ledger_id: int
    last_entry_id: int
    payload_bytes: int | None
    store: BlobStore
    blocks: tuple[BlobBlock, ...]
    """Blocks, ascending by entry."""
    end_damage: Damage | None = None
    """Damage at the ledger's end, because of which ``last_entry_id`` may not be its last entry."""
    _end_checked: bool = field(default=False, repr=False)
    _boundaries: dict[int, Int64Array] = field(default_factory=dict, repr=False)
    """By number of the block: the starts of the records walked so far, then the end of the last of them."""
    _kept: _Piece | None = field(default=None, repr=False)
    """The piece that was fetched last; at most 128 KB."""

    @property
    def closed(self) -> bool:
        """Always True: offloaded ledgers count as closed."""
        return True

    @property
    def lacks_digests(self) -> bool:
        """Always True: brokers copy entries to tiered storage without the bookies' digests."""
        return True

    def read(self, first: int, last: int) -> LedgerEntries:
        """Read entries ``first`` to ``last``.

        Cost: for a first read, the bytes of the block up to the range, in pieces that grow from 64 KB to 4 MB. Later,
            the range, with 16 KB on either side if it is smaller than that, or nothing if the last read fetched it.
        """
        return joined(self._entries(first, last, READ))

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Yield the same range in pieces of about 8 MB, or one entry if that is larger."""
        return self._entries(first, last, SCAN)

    def locate(self, entry_id: int) -> tuple[str, int] | None:
        """Return object and offset of an entry's record; None if damage before it hides that."""
        self.read(entry_id, entry_id)
        number = block_of(self.blocks, entry_id)
        known, row = self._boundaries.get(number), entry_id - self.blocks[number].first_entry_id
        if known is None or not 0 <= row < len(known) - 1:
            return None
        return self._name(self.blocks[number]), int(known[row])

    def _entries(self, first: int, last: int, pace: FetchSizes) -> Iterator[LedgerEntries]:
        found = self._walk(first, last, pace)
        return ledger_entries(self.ledger_id, found, first, last, file=self._name(self.blocks[0]))

    def _walk(self, first: int, last: int, pace: FetchSizes) -> Iterator[EntryRows | Damage]:
        if last < first:
            return
        for number in range(block_of(self.blocks, first), block_of(self.blocks, last) + 1):
            end = self.blocks[number + 1].first_entry_id - 1 if number + 1 < len(self.blocks) else last
            for found in self.walk_block(number, first, min(end, last), pace):
                yield found.within(first, last) if isinstance(found, EntryRows) else found

    def walk_block(self, number: int, first: int, last: int, pace: FetchSizes = SCAN) -> Iterator[EntryRows | Damage]:
        """Yield rows of one block, and its damage.

        Args:
            number: the number of the block.
            first: the entry at which to begin, if its place is remembered; otherwise entries before it are walked, too.
            last: the entry at which to stop; at most the last of the block.
            pace: how many bytes to fetch at a time.
        """
        block = self.blocks[number]
        at, entry_id, stop = self._nearest(number, first, last)
        piece_bytes = pace.first_bytes
        while entry_id <= last and at < block.end:
            end = min(at + max(piece_bytes, block.header_bytes), block.end) if stop is None else stop
            # If the walk ends at the end of this range, no bytes are needed behind the last record.
            seen_behind = 0 if end in {block.end, stop} else _RECORD.size
            stop = None
            buffer = self._fetch(block, at, end) if pace.remembers else self.store.fetch(block.key, at, end)
            skipped = block.header_bytes if at == block.offset else 0
            problem = _header_problem(buffer, block) if skipped else None
            if problem is not None:
                yield Damage(self._name(block), block.offset, problem)
                return
            octets = np.frombuffer(buffer, np.uint8)
            starts, ends, stopped, status = walk_blob_records(octets, skipped, len(octets), entry_id, last, seen_behind)
            rows, behind = EntryRows(buffer, entry_id, starts, ends), buffer[stopped : stopped + _RECORD.size]
            base, at, entry_id = at, at + stopped, rows.last + 1
            if status == WALKED or (status == CUT and end < block.end):
                if pace.remembers:
                    self._remember(number, rows, base)
                yield rows
                wanted = self._record_bytes(behind)
                if status == CUT and not len(rows) and at + wanted > block.end:
                    yield self._broken(block, at, entry_id, behind)
                    return
                piece_bytes = max(min(2 * piece_bytes, pace.max_bytes), wanted + _RECORD.size if status == CUT else 0)
                continue
            go_on_at = self._next_but_one(block, at, entry_id) if status == OUT_OF_ORDER else None
            if go_on_at is not None:
                yield rows
                yield self._broken(block, at, entry_id, behind)
                at, entry_id = go_on_at, entry_id + 1
                continue
            # A size is doubtful if its entry is not followed by what is expected there.
            sure = _is_padding(behind) or (status == CUT and len(behind) == _RECORD.size)
            if not sure and len(rows):
                at, entry_id = base + int(starts[-1]) - _RECORD.size, rows.last
                rows = rows.within(rows.first, rows.last - 1)
            yield rows
            yield self._broken(block, at, entry_id, behind)
            return
        if entry_id <= last:
            reason = f"the block ends where entry {entry_id} should begin"
            yield Damage(self._name(block), at, reason, DamageKind.PADDING)
        elif last == self.last_entry_id:
            self._check_end(block, at)
            if self.end_damage is not None:
                yield self.end_damage

    def _check_end(self, block: BlobBlock, at: int) -> None:
        """Read once what follows the last entry, because only the index states which entry is the last."""
        if not self._end_checked:
            behind = self.store.fetch(block.key, at, min(at + _RECORD.size, block.end))
            if not _is_padding(behind):
                reason = f"by the index entry {self.last_entry_id} is the last, but something follows it"
                self.end_damage = Damage(self._name(block), at, reason, DamageKind.BEYOND_END)
            self._end_checked = True

    def _fetch(self, block: BlobBlock, start: int, end: int) -> bytes:
        """Return a range of a block, from the kept piece if that contains it."""
        piece = self._kept
        if piece is None or not piece.has(block.key, start, end):
            around = _AROUND_BYTES if end - start < _AROUND_BYTES else 0
            first = max(start - around, block.offset)
            piece = _Piece(block.key, first, self.store.fetch(block.key, first, min(end + around, block.end)))
            self._kept = piece if len(piece.octets) <= _KEPT_BYTES_MAX else None
        return piece.octets[start - piece.start : end - piece.start]

    def _nearest(self, number: int, first: int, last: int) -> tuple[int, int, int | None]:
        """Return where to begin: an offset, the entry there, and the end of ``last`` if it is known."""
        block, known = self.blocks[number], self._boundaries.get(number)
        if known is None:
            return block.offset, block.first_entry_id, None
        row = min(max(first - block.first_entry_id, 0), len(known) - 1)
        end_row = last - block.first_entry_id + 1
        return int(known[row]), block.first_entry_id + row, int(known[end_row]) if end_row < len(known) else None

    def _remember(self, number: int, rows: EntryRows, base: int) -> None:
        if not len(rows):
            return
        known = self._boundaries.get(number)
        have = 0 if known is None else len(known) - 1
        new_from = self.blocks[number].first_entry_id + have - rows.first
        if 0 <= new_from < len(rows):
            begins = base + rows.start[new_from:] - _RECORD.size
            parts = [begins, base + rows.end[-1:]]
            self._boundaries[number] = np.concatenate(parts if known is None else [known[:-1], *parts])

    def _next_but_one(self, block: BlobBlock, at: int, entry_id: int) -> int | None:
        """Return the offset of the next entry's record if the one at ``at`` is whole and only its id is wrong."""
        size, _ = _RECORD.unpack(self.store.fetch(block.key, at, at + _RECORD.size))
        end = at + _RECORD.size + size
        if end == block.end:
            return int(end)
        if end + _RECORD.size > block.end:
            return None
        next_size, next_id = _RECORD.unpack(self.store.fetch(block.key, end, end + _RECORD.size))
        return int(end) if next_id == entry_id + 1 and next_size >= 0 else None

    def _record_bytes(self, octets: bytes) -> int:
        if len(octets) < _RECORD.size:
            return _RECORD.size
        return _RECORD.size + int(_RECORD.unpack_from(octets)[0])

    def _broken(self, block: BlobBlock, at: int, entry_id: int, behind: bytes) -> Damage:
        kind = DamageKind.CORRUPT
        if _is_padding(behind):
            reason, kind = f"padding, or the block's end, where entry {entry_id} should begin", DamageKind.PADDING
        elif len(behind) < _RECORD.size:
            reason = f"{len(behind)} bytes before the block's end that are neither an entry nor padding"
        else:
            size, found = _RECORD.unpack(behind)
            reason = f"entry {entry_id}, or the record after it, is damaged: header of entry {found}, {size} bytes"
        return Damage(self._name(block), at, reason, kind)

    def _name(self, block: BlobBlock) -> str:
        return f"{self.store.name}/{block.key}"


def _header_problem(octets: bytes, block: BlobBlock) -> str | None:
    """Compare a block's header with the index; return the difference, or None."""
    streamed = block.streamed_ledger_id is not None
    magic, *found = (_HEADER_V2 if streamed else _HEADER_V1).unpack_from(octets)
    known_magic = _MAGIC_V2 if streamed else _MAGIC_V1
    names = "header length", "block length", "first entry", "ledger"
    wanted = block.header_bytes, block.end - block.offset, block.first_entry_id, block.streamed_ledger_id
    if magic != known_magic:
        return f"no block begins here: {magic:08x} instead of {known_magic:08x}"
    for name, ours, theirs in zip(names, found, wanted, strict=False):
        if ours != theirs:
            return f"the block's {name} is {ours}, by the index {theirs}"
    return None


def _is_padding(octets: bytes) -> bool:
    return _PADDING.startswith(octets[: len(_PADDING)])
