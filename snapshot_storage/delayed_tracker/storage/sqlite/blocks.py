"""Layout of entries in rows: several small entries share a row.

A bucket over a week has thousands of segments of half a kilobyte. With a row for each, SQLite's own work would be most
of the cost of storing, reading and deleting an index. A row therefore holds consecutive entries, up to a size. A large
entry has its own row, and so has entry 0, the metadata, which is read alone.

A row's key is that of its first entry. ``lengths`` are little-endian u32, one for each entry, and NULL for a single
one. The CRC32C covers payload, lengths and key: a row under a wrong key fails as well as a row with a flipped bit.
"""

from array import array
from collections.abc import Iterator, Sequence
from sys import byteorder
from typing import Final

import google_crc32c

from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.sqlite.schema import ENTRY_BITS, ENTRY_ID_MAX, PAGE_BYTES

BLOCK_BYTES: Final = PAGE_BYTES - 64
"""Maximum size of a block of entries with their lengths.

A row then fills a page: the rest is for SQLite, key and checksum. Reading one entry reads the whole block.
"""
_LENGTH_BYTES: Final = 4

Row = tuple[int, int, bytes, bytes | None]
"""Key of the first entry, checksum, payload, lengths."""


def rows_of(entries: Sequence[bytes], first_key: int, block_bytes: int) -> Iterator[Row]:
    """Yield the rows of consecutive entries."""
    start = 0
    while start < len(entries):
        key = first_key + start
        end, size = start + 1, len(entries[start])
        if key & ENTRY_ID_MAX:
            # The first length counts as well: a row of one entry has no lengths, a row of two has both.
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
    """Return the entries with keys from ``first_key`` to ``last_key``; the rows ascend.

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
            raise _corrupt(expected)  # the row ends before the first entry that was read from it
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
    lengths = array("I", packed)  # verified by the checksum: the size is a multiple of 4
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
