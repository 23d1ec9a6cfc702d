"""PIP-195 snapshots as bytes: entry 0 holds the metadata, entries 1..n one segment each; byte-equal to Pulsar's.

Pure, with compiled loops. A bucket is encoded in one pass over its columns and then sliced: at 27 indexes a segment,
the cost per segment dominates. A row written by Pulsar or by this codec is eight varint tokens (``0A len 08 timestamp
10 ledger 18 entry``), and concatenated segments are one valid segment, so any number of them is decoded in one pass.
Rows of any other valid form (fields in another order, unknown fields, longer varints) go through the generated class, a
segment at a time.

Source: PIP-195 ``DelayedMessageIndexBucketMetadata.proto`` and ``DelayedMessageIndexBucketSegment.proto``. Map keys are
written ascending and bitmaps run-optimised, which reproduces what Pulsar 4.2 stores.
"""

from collections.abc import Sequence

import numpy as np
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from delayed_tracker.core.kernels.compiled import position_order_in_segments
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns, Int64Array
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.snapshot.v1 import snapshot_pb2
from delayed_tracker.storage.codec.kernels import READ_AHEAD_BYTES, decode_rows, encode_rows, encode_segment_metadata
from delayed_tracker.storage.codec.snapshot import EncodedSnapshot, SnapshotMetadata, cut
from delayed_tracker.storage.errors import SnapshotCorrupt


def encode_snapshot(sealed: SealedIndexes) -> EncodedSnapshot:
    """Encode a sealed bucket as Pulsar stores it.

    Raises:
        InvariantViolation: a segment holds a position twice (a bug of the caller).
    Cost: O(n).
    """
    segments = encode_segments(sealed.indexes, sealed.bounds)
    metadata = encode_metadata(sealed.indexes, sealed.bounds)
    return EncodedSnapshot(metadata, segments, len(metadata) + sum(map(len, segments)))


def encode_segments(indexes: IndexColumns, bounds: SegmentBounds) -> list[bytes]:
    """Return one entry for each segment, in one pass over the rows. O(n)."""
    octets, offsets = encode_rows(*_contiguous(indexes), bounds.starts)
    return cut(octets, offsets)


def encode_segment(indexes: IndexColumns) -> bytes:
    """Return one segment with the rows in the order given. O(n)."""
    octets, _ = encode_rows(*_contiguous(indexes), np.empty(0, np.int64))
    return octets.tobytes()


def encode_metadata(indexes: IndexColumns, bounds: SegmentBounds) -> bytes:
    """Return entry 0: for each segment its bitmaps by ledger, then its last and its first deadline.

    The concatenated entries of consecutive segments are the entry of all of them.

    Raises:
        InvariantViolation: a segment holds a position twice (a bug of the caller).
    Cost: O(n).
    """
    _, ledger_id, entry_id = _contiguous(indexes)
    starts = bounds.starts
    order = position_order_in_segments(ledger_id, entry_id, starts)
    octets, repeat = encode_segment_metadata(
        ledger_id[order],
        entry_id[order],
        starts,
        np.ascontiguousarray(bounds.min_deliver_at_ms),
        np.ascontiguousarray(bounds.max_deliver_at_ms),
    )
    if repeat >= 0:
        raise InvariantViolation("a segment to encode holds a position twice")
    return octets.tobytes()


def _contiguous(indexes: IndexColumns) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the three columns as C-contiguous arrays; copies only those that are not."""
    return (
        np.ascontiguousarray(indexes.deliver_at_ms),
        np.ascontiguousarray(indexes.ledger_id),
        np.ascontiguousarray(indexes.entry_id),
    )


def decode_segments(entries: Sequence[bytes]) -> IndexColumns:
    """Return the rows of any number of segments, in stored order.

    Args:
        entries: stored segments (entries 1..n of a snapshot); may be empty.
    Raises:
        SnapshotCorrupt: an entry is not a segment, or has a value out of range; names the entry by its place in
            ``entries``.
    Cost: O(bytes); about ten times more for entries whose rows are not in the usual form.
    """
    octets = np.frombuffer(b"".join((*entries, bytes(READ_AHEAD_BYTES))), np.uint8)
    ends = np.cumsum(np.fromiter(map(len, entries), np.int64, len(entries)))
    parts = []
    first = 0
    while first < len(entries):
        *columns, stop = decode_rows(octets, ends, first)
        parts.append(IndexColumns(*columns))
        if stop < len(entries):
            parts.append(_decode_any(entries[stop], f"segment {stop + 1} of {len(entries)}"))
        first = stop + 1
    return IndexColumns.concat(parts)


def _decode_any(entry: bytes, where: str) -> IndexColumns:
    """Return the rows of one segment in any valid form."""
    message = snapshot_pb2.SnapshotSegment()
    _parse(message, entry, where)
    rows = message.indexes
    return IndexColumns(
        _in_range([row.timestamp for row in rows], INT63_MAX, f"{where}: timestamp"),
        _in_range([row.ledger_id for row in rows], INT63_MAX, f"{where}: ledger_id"),
        _in_range([row.entry_id for row in rows], ENTRY_ID_MAX, f"{where}: entry_id"),
    )


def decode_metadata(entry: bytes) -> SnapshotMetadata:
    """Decode entry 0 of a snapshot, with map keys in any order.

    Raises:
        SnapshotCorrupt: the bytes are not metadata, or hold an invalid bitmap or a value out of range.
    Cost: O(bytes), with a bitmap object for each segment and ledger.
    """
    message = snapshot_pb2.SnapshotMetadata()
    _parse(message, entry, "snapshot metadata")
    segments = message.metadata_list
    segment_bits = []
    for number, segment in enumerate(segments, 1):
        bitmaps = {}
        for ledger, encoded in segment.delayed_index_bit_map.items():
            where = f"snapshot metadata, segment {number}, ledger {ledger}"
            if ledger > INT63_MAX:
                raise SnapshotCorrupt(f"{where}: ledger ids go up to {INT63_MAX}; rebuild it from the ledgers")
            bitmaps[ledger] = _bitmap(encoded, where)
        segment_bits.append(PositionBitmap.from_bitmaps(bitmaps))
    least = _in_range([segment.min_schedule_timestamp for segment in segments], INT63_MAX, "min_schedule_timestamp")
    most = _in_range([segment.max_schedule_timestamp for segment in segments], INT63_MAX, "max_schedule_timestamp")
    if bool((least > most).any()):
        number = int(np.argmax(least > most))
        raise SnapshotCorrupt(
            f"snapshot metadata, segment {number + 1}: min_schedule_timestamp {least[number]} is above "
            f"max_schedule_timestamp {most[number]}; rebuild it from the ledgers"
        )
    count = np.fromiter(map(len, segment_bits), np.int64, len(segment_bits))
    return SnapshotMetadata(SegmentBounds(count, least, most), segment_bits)


def _parse(message: snapshot_pb2.SnapshotSegment | snapshot_pb2.SnapshotMetadata, entry: bytes, where: str) -> None:
    try:
        message.ParseFromString(entry)
    except DecodeError as error:
        raise SnapshotCorrupt(f"{where}: {len(entry)} bytes do not decode; rebuild it from the ledgers") from error
    if not message.IsInitialized():
        raise SnapshotCorrupt(f"{where}: a required field is missing; rebuild it from the ledgers")


def _in_range(values: list[int], maximum: int, where: str) -> Int64Array:
    column = np.array(values, np.uint64)
    if len(column) and int(column.max()) > maximum:
        number = int(np.argmax(column > maximum))
        raise SnapshotCorrupt(
            f"{where}: {values[number]} (number {number + 1}) is above {maximum}; rebuild it from the ledgers"
        )
    return column.astype(np.int64)


def _bitmap(encoded: bytes, where: str) -> BitMap:
    if not encoded:  # the library reads one byte before it tests the length
        raise SnapshotCorrupt(f"{where}: no bytes where a RoaringBitmap belongs; rebuild it from the ledgers")
    try:
        return BitMap.deserialize(encoded)
    except ValueError as error:
        raise SnapshotCorrupt(f"{where}: not a RoaringBitmap ({error}); rebuild it from the ledgers") from error
