"""Bytes of a snapshot object: the entries, an index of them, and a trailer.

Layout, little-endian::

    entry 0, the metadata | entries 1..n, the segments
    index    n + 1 times u32 length | n + 1 times u32 crc32c
    trailer  u32 crc32c of the index | u32 n + 1 | u64 bytes of all entries | u16 version = 1 | "DTSO"
             | u32 crc32c of the trailer's other bytes

Every checksum begins with the object's key, that of an entry also with its number: an object under another key fails
like one with a flipped bit. A range of entries is one range of bytes. The index is at the end, since the
entries arrive one by one.
"""

import itertools
import struct
from array import array
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from dataclasses import dataclass
from sys import byteorder
from typing import Final

import google_crc32c

from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported

CHUNK_BYTES: Final = 1024 * 1024
"""Entries are passed on in chunks of this size or more."""
OBJECT_VERSION: Final = 1

_MAGIC: Final = b"DTSO"
_TRAILER: Final = struct.Struct("<IIQH4sI")
TRAILER_BYTES: Final = _TRAILER.size
_CHECKSUM_BYTES: Final = 4
_INDEX_BYTES: Final = 8
"""Bytes of the index for each entry."""


@dataclass(frozen=True, slots=True)
class ObjectTail:
    """Sizes that the trailer has."""

    entry_count: int
    payload_bytes: int
    index_crc: int

    @property
    def tail_bytes(self) -> int:
        """Bytes of index and trailer."""
        return _INDEX_BYTES * self.entry_count + TRAILER_BYTES


@dataclass(frozen=True, slots=True)
class ObjectIndex:
    """Places and checksums of the entries: 16 bytes each."""

    offsets: Sequence[int]
    """Place at which each entry begins, and the place at which the last one ends."""
    checksums: Sequence[int]


class SnapshotObjectWriter:
    """Turns entries into the chunks of an object.

    Args:
        key: of the object.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self.tail_bytes = 0
        """Bytes of index and trailer, when all chunks are made."""

    async def chunks(self, metadata: bytes, segments: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Yield the bytes of the object, in chunks."""
        seed, lengths, checksums = _seed(self._key), array("I"), array("I")
        waiting: list[bytes] = []
        waiting_bytes = 0

        def add(entry: bytes) -> int:
            checksums.append(_entry_crc(seed, len(lengths), entry))
            lengths.append(len(entry))
            waiting.append(entry)
            return len(entry)

        waiting_bytes += add(metadata)
        async for segment in segments:
            if waiting_bytes >= CHUNK_BYTES:
                yield b"".join(waiting)
                waiting.clear()
                waiting_bytes = 0
            waiting_bytes += add(segment)
        index = _octets(lengths) + _octets(checksums)
        trailer = _TRAILER.pack(
            google_crc32c.extend(seed, index), len(lengths), sum(lengths), OBJECT_VERSION, _MAGIC, 0
        )[:-_CHECKSUM_BYTES]
        waiting += (index, trailer, struct.pack("<I", google_crc32c.extend(seed, trailer)))
        self.tail_bytes = len(index) + TRAILER_BYTES
        yield b"".join(waiting)


def read_tail(key: str, object_bytes: int, octets: bytes) -> ObjectTail:
    """Return the sizes in the trailer, which is at the end of ``octets``.

    Raises:
        SnapshotCorrupt: it is damaged, or another object's.
        StorageFormatUnsupported: a newer version wrote it.
    """
    trailer = octets[-TRAILER_BYTES:]
    if len(trailer) < TRAILER_BYTES:
        raise corrupt(key, f"it has {object_bytes} bytes, fewer than a trailer")
    index_crc, count, payload_bytes, version, magic, checksum = _TRAILER.unpack(trailer)
    if checksum != google_crc32c.extend(_seed(key), trailer[:-_CHECKSUM_BYTES]):
        raise corrupt(key, "its trailer fails its checksum")
    if version > OBJECT_VERSION:
        raise StorageFormatUnsupported(
            f"the object {key} has format {version}, this program reads up to {OBJECT_VERSION}; use a newer program"
        )
    tail = ObjectTail(count, payload_bytes, index_crc)
    if version != OBJECT_VERSION or magic != _MAGIC:
        raise corrupt(key, f"there is no format {version}")
    if payload_bytes + tail.tail_bytes != object_bytes:
        raise corrupt(key, f"it has {object_bytes} bytes instead of {payload_bytes + tail.tail_bytes}")
    return tail


def read_index(key: str, tail: ObjectTail, octets: bytes) -> ObjectIndex:
    """Return the index that is in ``octets`` before the trailer. Raises SnapshotCorrupt."""
    index = octets[-tail.tail_bytes : -TRAILER_BYTES]
    half = len(index) // 2
    if len(octets) < tail.tail_bytes or google_crc32c.extend(_seed(key), index) != tail.index_crc:
        raise corrupt(key, "its index fails its checksum")
    lengths, checksums = _numbers(index[:half]), _numbers(index[half:])
    offsets = array("Q", itertools.accumulate(lengths, initial=0))
    if offsets[-1] != tail.payload_bytes:
        raise corrupt(key, f"its index has {offsets[-1]} bytes of entries, its trailer {tail.payload_bytes}")
    return ObjectIndex(offsets, checksums)


def read_entries(key: str, index: ObjectIndex, first: int, last: int, octets: bytes) -> list[bytes]:
    """Return entries ``first`` to ``last`` from their bytes, verified. Raises SnapshotCorrupt."""
    seed, start, entries = _seed(key), index.offsets[first], []
    for number in range(first, last + 1):
        entry = octets[index.offsets[number] - start : index.offsets[number + 1] - start]
        if _entry_crc(seed, number, entry) != index.checksums[number]:
            raise corrupt(key, f"entry {number} fails its checksum")
        entries.append(entry)
    return entries


def corrupt(key: str, fault: str) -> SnapshotCorrupt:
    """Return the error of a damaged object."""
    return SnapshotCorrupt(f"the object {key} is damaged: {fault}; rebuild it from the ledgers")


def _seed(key: str) -> int:
    return int(google_crc32c.value(key.encode()))


def _entry_crc(seed: int, number: int, entry: bytes) -> int:
    return int(google_crc32c.extend(google_crc32c.extend(seed, struct.pack("<I", number)), entry))


def _octets(numbers: "array[int]") -> bytes:
    if byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


def _numbers(octets: bytes) -> "array[int]":
    numbers = array("I", octets)
    if byteorder == "big":
        numbers.byteswap()
    return numbers
