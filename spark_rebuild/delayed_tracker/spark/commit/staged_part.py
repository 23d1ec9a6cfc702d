"""One part of a snapshot, which a task stages as an object for the driver.

Layout, little-endian::

    segments, one after the other | their metadata | segment lengths u32... | index counts u32... |
    first deadlines i64... | last deadlines i64... | footer

The footer holds the sizes and a CRC32C of all bytes before it, and ends with a magic number. It comes last because
segments are written as they are produced.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import google_crc32c
import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_cutter import WholeSegments
from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.spark.errors import StagedWorkInvalid
from delayed_tracker.storage.codec.pulsar import encode_metadata, encode_segments

_MAGIC: Final = b"dtpart01"
_FOOTER: Final = struct.Struct("<QQIQI8s")
_PER_SEGMENT_BYTES: Final = 4 + 4 + 8 + 8
_READ_BYTES: Final = 1 << 20


class Sink(Protocol):
    """Destination of bytes."""

    def write(self, data: bytes, /) -> object:
        """Write the next bytes."""


class PartWriter:
    """Writer of one part that writes segments as they are added. Holds the metadata and one batch of rows in memory."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._checksum = 0
        self._metadata = bytearray()
        self._lengths: list[int] = []
        self._bounds: list[SegmentBounds] = []
        self.segment_bytes = 0
        self.index_count = 0

    def add(self, whole: WholeSegments) -> None:
        """Encode and write the next segments."""
        segments = encode_segments(whole.indexes, whole.bounds)
        octets = b"".join(segments)
        self._write(octets)
        self.segment_bytes += len(octets)
        self._lengths += map(len, segments)
        self._metadata += encode_metadata(whole.indexes, whole.bounds)
        self._bounds.append(whole.bounds)
        self.index_count += len(whole.indexes)

    @property
    def metadata_bytes(self) -> int:
        """Bytes of metadata added so far."""
        return len(self._metadata)

    def end(self) -> None:
        """Write the metadata, the tables and the footer."""
        bounds = SegmentBounds.concat(self._bounds)
        metadata = bytes(self._metadata)
        for rest in (
            metadata,
            np.array(self._lengths, "<u4").tobytes(),
            bounds.count.astype("<u4").tobytes(),
            bounds.min_deliver_at_ms.astype("<i8").tobytes(),
            bounds.max_deliver_at_ms.astype("<i8").tobytes(),
        ):
            self._write(rest)
        footer = _FOOTER.pack(self.segment_bytes, len(metadata), len(bounds), self.index_count, self._checksum, _MAGIC)
        self._sink.write(footer)

    def _write(self, octets: bytes) -> None:
        self._checksum = google_crc32c.extend(self._checksum, octets)
        self._sink.write(octets)


Fetch = Callable[[int, int], bytes]
"""(start, end) -> the bytes of an object from ``start`` to before ``end``."""


@dataclass(frozen=True, slots=True)
class StagedPart:
    """Part with a valid layout, read as needed."""

    name: str
    """Name of the part in messages."""
    fetch: Fetch
    segment_bytes: int
    metadata: bytes
    lengths: Int64Array
    """Bytes of each segment."""
    bounds: SegmentBounds
    index_count: int
    checksum: int
    """CRC32C of the object without its footer."""

    @property
    def snapshot_bytes(self) -> int:
        """Bytes that the part adds to the snapshot."""
        return self.segment_bytes + len(self.metadata)

    def segments(self) -> Iterator[bytes]:
        """Yield all segments in order; they are verified once the last one is yielded.

        Raises:
            StagedWorkInvalid: the checksum does not match.
        """
        checksum, start, number = 0, 0, 0
        ends = np.cumsum(self.lengths)
        while number < len(ends):
            behind = int(np.searchsorted(ends, start + _READ_BYTES, side="right"))
            stop = max(number + 1, behind)
            octets = self.fetch(start, int(ends[stop - 1]))
            checksum = google_crc32c.extend(checksum, octets)
            offset = 0
            for length in self.lengths[number:stop].tolist():
                yield octets[offset : offset + length]
                offset += length
            start, number = int(ends[stop - 1]), stop
        rest = self.fetch(self.segment_bytes, self.segment_bytes + len(self.metadata) + _PER_SEGMENT_BYTES * len(ends))
        if google_crc32c.extend(checksum, rest) != self.checksum:
            raise StagedWorkInvalid(f"{self.name} fails its checksum; remove it and run the job again")

    def verify(self) -> None:
        """Read and verify the whole part.

        Raises: as :meth:`segments`.
        """
        for _ in self.segments():
            pass


def open_part(name: str, size: int, fetch: Fetch) -> StagedPart:
    """Return a part from its object. Reads everything but the segments.

    Args:
        name: for messages.
        size: of the object, in bytes.
        fetch: reads a range of the object.
    Raises:
        StagedWorkInvalid: the object is cut short or not a part.
    """
    if size < _FOOTER.size:
        raise StagedWorkInvalid(f"{name} has {size} bytes and is no staged part; remove it and run the job again")
    segment_bytes, metadata_bytes, count, index_count, checksum, magic = _FOOTER.unpack(
        fetch(size - _FOOTER.size, size)
    )
    if magic != _MAGIC or segment_bytes + metadata_bytes + _PER_SEGMENT_BYTES * count + _FOOTER.size != size:
        raise StagedWorkInvalid(f"{name} is cut short, or no staged part; remove it and run the job again")
    rest = fetch(segment_bytes, size - _FOOTER.size)
    lengths, counts, first, last = (
        np.frombuffer(rest, kind, count, metadata_bytes + offset * count).astype(np.int64)
        for kind, offset in (("<u4", 0), ("<u4", 4), ("<i8", 8), ("<i8", 16))
    )
    if int(lengths.sum()) != segment_bytes or int(counts.sum()) != index_count:
        raise StagedWorkInvalid(f"{name} contradicts itself; remove it and run the job again")
    return StagedPart(
        name,
        fetch,
        segment_bytes,
        rest[:metadata_bytes],
        lengths,
        SegmentBounds(counts, first, last),
        index_count,
        checksum,
    )
