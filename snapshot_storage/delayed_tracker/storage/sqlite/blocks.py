"""Layout of entries in rows: several small entries share a row.

A bucket over a week has thousands of segments of half a kilobyte. With a row for each, SQLite's own work would be most
of the cost of storing, reading and deleting an index. A row therefore holds consecutive entries, up to a size. A large
entry has its own row, and so has entry 0, the metadata, which is read alone. The first block of a snapshot takes what the
last page has left: with a page of its own for small metadata, a snapshot of 200 KB would take 5 % more.

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
_ROW_BYTES: Final = 40
"""Bytes that a row takes in its page beside payload and lengths, at most."""

Row = tuple[int, int, bytes, bytes | None]
"""Key of the first entry, checksum, payload, lengths."""


class LastPage:
    """Estimate of the bytes in the last page of the table, which takes the next row if it has room.

    A wrong estimate, as after a start or a deletion, costs only space.
    """

    __slots__ = ("_page_bytes", "_used_bytes")

    def __init__(self, page_bytes: int = BLOCK_BYTES) -> None:
        self._page_bytes = page_bytes
        self._used_bytes = 0

    def room_for(self, row_bytes: int) -> int:
        """Return the size of the largest row for the page that takes a row of this size: the last one, or a new one."""
        room = self._page_bytes - self._used_bytes
        return room if self._used_bytes and row_bytes <= room else self._page_bytes

    def add(self, row_bytes: int) -> None:
        """Count a row that is added."""
        if row_bytes > self._page_bytes - self._used_bytes:
            self._used_bytes = 0
        self._used_bytes = min(self._page_bytes, self._used_bytes + row_bytes + _ROW_BYTES)


def rows_of(
    entries: Sequence[bytes], first_key: int, block_bytes: int, last_page: LastPage | None = None
) -> Iterator[Row]:
    """Yield the rows of consecutive entries.

    Args:
        entries: to store.
        first_key: key of the first of them.
        block_bytes: maximum size of a block.
        last_page: counts the rows; None if each block may have a page of its own.
    """
    start = 0
    while start < len(entries):
        key = first_key + start
        end, size = start + 1, len(entries[start])
        if key & ENTRY_ID_MAX:
            # The first length counts as well: a row of one entry has no lengths, a row of two has both.
            size += _LENGTH_BYTES
            limit = min(block_bytes, last_page.room_for(size)) if last_page else block_bytes
            while end < len(entries) and (more := size + len(entries[end]) + _LENGTH_BYTES) <= limit:
                size = more
                end += 1
        block = entries[start:end]
        payload = block[0] if len(block) == 1 else b"".join(block)
        lengths = None if len(block) == 1 else _pack(array("I", map(len, block)))
        if last_page:
            last_page.add(size)
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
