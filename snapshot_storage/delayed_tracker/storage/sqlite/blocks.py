"""How entries lie in rows: small ones together, so that a row is worth its cost.

A bucket over a week has thousands of segments of half a kilobyte. Of a row for each, SQLite's own work would be most of
what storing, reading and deleting an index costs. So a row holds entries that follow each other, up to a size; a large
entry has a row of its own, and so has entry 0, the metadata, which is read alone.

A row's key is that of its first entry. ``lengths`` are little-endian u32, one for each entry, and NULL for a single one.
The CRC32C covers payload, lengths and key: a row that strayed fails as well as a flipped bit does.
"""

from array import array
from collections.abc import Iterator, Sequence
from sys import byteorder
from typing import Final

import google_crc32c

from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.sqlite.schema import ENTRY_BITS, ENTRY_ID_MAX, PAGE_BYTES

BLOCK_BYTES: Final = PAGE_BYTES - 64
"""Entries are put together up to this, their lengths included, so that a row fills a page: the rest is for SQLite, key and
checksum. A read of one entry reads them all."""
_LENGTH_BYTES: Final = 4

Row = tuple[int, int, bytes, bytes | None]
"""Key of the first entry, checksum, payload, lengths."""


def rows_of(entries: Sequence[bytes], first_key: int, block_bytes: int) -> Iterator[Row]:
    """The rows of entries that follow each other."""
    start = 0
    while start < len(entries):
        key = first_key + start
        end, size = start + 1, len(entries[start])
        if key & ENTRY_ID_MAX:
            # The first length counts as well: a row of one entry has none, and with a second one it does.
            size += _LENGTH_BYTES
            while end < len(entries) and (more := size + len(entries[end]) + _LENGTH_BYTES) <= block_bytes:
                size = more
                end += 1
        block = entries[start:end]
        payload = block[0] if len(block) == 1 else b"".join(block)
        lengths = None if len(block) == 1 else _pack(array("I", map(len, block)))
        yield key, _checksum(key, payload, lengths), payload, lengths
        start = end


def entries_of(rows: Sequence[tuple[object, ...]], first_key: int, last_key: int) -> list[bytes]:
    """The entries with keys from ``first_key`` to ``last_key`` out of rows as they were read, ascending.

    Raises:
        SnapshotCorrupt: a row is damaged or missing.
    """
    entries: list[bytes] = []
    for number, (key, checksum, payload, lengths) in enumerate(rows):
        expected = first_key + len(entries)
        if not (
            isinstance(key, int)
            and isinstance(payload, bytes)
            and (lengths is None or isinstance(lengths, bytes))
            and (key == expected or (number == 0 and key < expected))
            and checksum == _checksum(key, payload, lengths)
        ):
            raise _corrupt(expected)
        block = [payload] if lengths is None else _cut(payload, lengths)
        entries += block[expected - key : last_key - key + 1]
        if first_key + len(entries) == expected:
            raise _corrupt(expected)  # the row ends before what it was read for
    if first_key + len(entries) <= last_key:
        raise _corrupt(first_key + len(entries))
    return entries


def _cut(payload: bytes, lengths: bytes) -> list[bytes]:
    block, offset = [], 0
    for length in _unpack(lengths):
        block.append(payload[offset : offset + length])
        offset += length
    return block


def _pack(lengths: "array[int]") -> bytes:
    if byteorder == "big":
        lengths.byteswap()
    return lengths.tobytes()


def _unpack(packed: bytes) -> "array[int]":
    lengths = array("I", packed)  # verified: its size is that of some numbers
    if byteorder == "big":
        lengths.byteswap()
    return lengths


def _checksum(key: int, payload: bytes, lengths: bytes | None) -> int:
    return int(google_crc32c.extend(google_crc32c.value(payload), (lengths or b"") + key.to_bytes(8, "little")))


def _corrupt(key: int) -> SnapshotCorrupt:
    return SnapshotCorrupt(
        f"bucket {key >> ENTRY_BITS}, entry {key & ENTRY_ID_MAX}: it is missing, or its checksum does not match; "
        "drop the snapshot and rebuild it from the ledgers"
    )
