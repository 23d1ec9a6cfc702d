"""The codecs of snapshots: one to write with, chosen by name; readers tell them apart by the first byte of each entry.

Snapshots of both codecs stand side by side in one tracker, and a merge reads both.
"""

from collections.abc import Sequence

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec import columnar, pulsar
from delayed_tracker.storage.codec.snapshot import EncodedSnapshot, SnapshotMetadata
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec


def codec_of(entry: bytes) -> SnapshotCodec:
    """Return the codec of an entry, metadata or segment."""
    return SnapshotCodec.COLUMNAR if columnar.is_columnar(entry) else SnapshotCodec.PULSAR


def decode_metadata(entry: bytes) -> SnapshotMetadata:
    """Decode entry 0 of a snapshot of any codec.

    Raises:
        SnapshotCorrupt: the bytes are not metadata, or have an invalid bitmap or a value out of range.
        StorageFormatUnsupported: a newer program wrote it.
    """
    return columnar.decode_metadata(entry) if columnar.is_columnar(entry) else pulsar.decode_metadata(entry)


def decode_segments(entries: Sequence[bytes]) -> IndexColumns:
    """Return the rows of any number of segments of one snapshot of any codec, in stored order.

    Raises:
        SnapshotCorrupt: an entry is not a segment of the codec of the first, or has a value out of range; names the entry
            by its place in ``entries``.
        StorageFormatUnsupported: a newer program wrote it.
    """
    if entries and columnar.is_columnar(entries[0]):
        return columnar.decode_segments(entries)
    return pulsar.decode_segments(entries)


def encode_segments(codec: SnapshotCodec, indexes: IndexColumns, bounds: SegmentBounds) -> list[bytes]:
    """Return one entry for each segment. O(n)."""
    encode = columnar.encode_segments if codec is SnapshotCodec.COLUMNAR else pulsar.encode_segments
    return encode(indexes, bounds)


def encode_snapshot(codec: SnapshotCodec, sealed: SealedIndexes, positions: PositionBitmap) -> EncodedSnapshot:
    """Encode a sealed bucket.

    Args:
        codec: to write with.
        sealed: rows and segments, no position twice.
        positions: of the rows.
    Cost: O(n).
    """
    if codec is SnapshotCodec.PULSAR:
        return pulsar.encode_snapshot(sealed)
    segments = columnar.encode_segments(sealed.indexes, sealed.bounds)
    metadata = columnar.encode_metadata(sealed.bounds, positions)
    return EncodedSnapshot(metadata, segments, len(metadata) + sum(map(len, segments)))


class MetadataEncoder:
    """Encoder of entry 0 of a snapshot whose segments come a few at a time.

    Args:
        codec: to write with.
    """

    __slots__ = ("_bounds", "_codec", "_octets")

    def __init__(self, codec: SnapshotCodec) -> None:
        self._codec = codec
        self._octets = bytearray()
        self._bounds: list[SegmentBounds] = []

    @property
    def size(self) -> int:
        """Bytes of metadata so far, to end early what grows too large; of the columnar codec a lower bound."""
        if self._codec is SnapshotCodec.PULSAR:
            return len(self._octets)
        return columnar.BOUNDS_BYTES * sum(map(len, self._bounds))

    def add(self, indexes: IndexColumns, bounds: SegmentBounds) -> None:
        """Add the next segments. O(n)."""
        if self._codec is SnapshotCodec.PULSAR:
            self._octets += pulsar.encode_metadata(indexes, bounds)
        self._bounds.append(bounds)

    def finish(self, positions: PositionBitmap) -> bytes:
        """Return entry 0; ``positions`` are those of all segments."""
        if self._codec is SnapshotCodec.PULSAR:
            return bytes(self._octets)
        return columnar.encode_metadata(self.bounds, positions)

    @property
    def bounds(self) -> SegmentBounds:
        """Bounds of the segments so far."""
        return SegmentBounds.concat(self._bounds)
