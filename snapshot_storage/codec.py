"""PIP-195 snapshots as bytes: entry 0 holds the metadata, entries 1..n one segment each; byte-equal to Pulsar's.

Pure and vectorised: a bucket is encoded in one pass over its columns and then sliced, because at 27 indexes a segment
the cost per segment is all that matters. A row that Pulsar or we wrote is eight varint tokens (``0A len 08 timestamp 10
ledger 18 entry``), and segments concatenated are one valid segment, so any number of them decodes in one pass. Rows of
any other valid form (fields in another order, unknown fields, longer varints) go through the generated class.

Source: PIP-195 ``DelayedMessageIndexBucketMetadata.proto`` and ``DelayedMessageIndexBucketSegment.proto``. Map keys are
written ascending and bitmaps run-optimised, which reproduces what Pulsar 4.2 stores.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from google.protobuf.message import DecodeError
from pyroaring import BitMap

from delayed_tracker.storage.v1 import snapshot_pb2
from snapshot_storage.errors import SnapshotCorrupt
from snapshot_storage.roaring_columns import serialize_bitmaps
from snapshot_storage.varint_columns import CellTable, VarintReader, spans, varint_widths
from tracker.core.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns, Int64Array
from tracker.core.errors import InvariantViolation
from tracker.core.position_bitmap import PositionBitmap
from tracker.core.seal import SealedIndexes
from tracker.core.segment import SegmentBounds

_FIELD_1_BYTES: Final = 0x0A
_FIELD_2_BYTES: Final = 0x12
_FIELD_1_VARINT: Final = 0x08
_FIELD_2_VARINT: Final = 0x10
_FIELD_3_VARINT: Final = 0x18
_TOKENS_PER_ROW: Final = 8
_VALUE_WIDTH_MAX: Final = 9
# Rows are written and read in blocks whose columns stay in the processor's cache: twice as fast as all at once.
_BLOCK_ROWS: Final = 8_192
_BLOCK_BYTES: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class EncodedSnapshot:
    """A bucket ready to be stored."""

    metadata: bytes
    segments: Sequence[bytes]
    """One for each segment, in time order."""
    length: int
    """Bytes of metadata and segments together."""


@dataclass(frozen=True, slots=True)
class SnapshotMetadata:
    """What entry 0 of a snapshot says about its segments."""

    bounds: SegmentBounds
    segment_bits: list[PositionBitmap]
    """The positions of each segment; the caller's own."""


def encode_snapshot(sealed: SealedIndexes) -> EncodedSnapshot:
    """A sealed bucket as Pulsar stores it.

    Raises:
        InvariantViolation: a segment holds a position twice (a bug of the caller).
    Cost: O(n log n) in indexes, to sort the bitmaps' values.
    """
    segments = encode_segments(sealed.indexes, sealed.bounds)
    metadata = encode_metadata(sealed.indexes, sealed.bounds)
    return EncodedSnapshot(metadata, segments, len(metadata) + sum(map(len, segments)))


def encode_segments(indexes: IndexColumns, bounds: SegmentBounds) -> list[bytes]:
    """One entry for each segment, in one pass over the rows. O(n)."""
    rows, row_ends = _encode_rows(indexes)
    segment_ends = row_ends[bounds.starts[1:]].tolist()
    return [rows[start:end] for start, end in pairwise([0, *segment_ends])]


def encode_segment(indexes: IndexColumns) -> bytes:
    """One segment: the rows in the order given. O(n)."""
    return _encode_rows(indexes)[0]


def _encode_rows(indexes: IndexColumns) -> tuple[bytes, Int64Array]:
    """The bytes of all rows, and where each ends, a 0 before the first."""
    blocks = [
        _encode_block(indexes.take(slice(start, start + _BLOCK_ROWS))) for start in range(0, len(indexes), _BLOCK_ROWS)
    ]
    ends = np.zeros(len(indexes) + 1, np.int64)
    if blocks:
        np.cumsum(np.concatenate([block.widths for block in blocks]), out=ends[1:])
    return b"".join(block.flat().tobytes() for block in blocks), ends


def _encode_block(indexes: IndexColumns) -> CellTable:
    columns = (
        (_FIELD_1_VARINT, indexes.deliver_at_ms, varint_widths(indexes.deliver_at_ms)),
        (_FIELD_2_VARINT, indexes.ledger_id, varint_widths(indexes.ledger_id)),
        (_FIELD_3_VARINT, indexes.entry_id, varint_widths(indexes.entry_id)),
    )
    table = CellTable(len(indexes), 5 + sum(int(np.max(widths)) for _, _, widths in columns))
    table.put(_FIELD_1_BYTES)
    table.put(3 + columns[0][2] + columns[1][2] + columns[2][2])
    for tag, values, widths in columns:
        table.put(tag)
        table.put_varint(values, widths)
    return table


def encode_metadata(indexes: IndexColumns, bounds: SegmentBounds) -> bytes:
    """Entry 0: for each segment its bitmaps by ledger, then its last and its first deadline.

    The entries of consecutive segments, one after the other, are the entry of them all.

    Raises:
        InvariantViolation: a segment holds a position twice (a bug of the caller).
    Cost: O(n log n) in indexes, to sort the bitmaps' values.
    """
    if not len(bounds):
        return b""
    segment, ledger, entry = _by_segment_and_position(indexes, bounds)
    opens = np.ones(len(segment), np.bool_)
    opens[1:] = (segment[1:] != segment[:-1]) | (ledger[1:] != ledger[:-1])
    if bool((~opens[1:] & (entry[1:] == entry[:-1])).any()):
        raise InvariantViolation("a segment to encode holds a position twice")
    group_starts = np.flatnonzero(opens)
    group_segment = segment[group_starts]
    bitmaps = serialize_bitmaps(entry, group_starts)

    # A map entry: 0A length | 08 ledger 12 length bitmap.
    ledger_widths = varint_widths(ledger[group_starts])
    bitmap_length_widths = varint_widths(bitmaps.widths)
    entry_lengths = 2 + ledger_widths + bitmap_length_widths + bitmaps.widths
    heads = CellTable(len(group_starts), 3 + 3 * _VALUE_WIDTH_MAX)
    heads.put(_FIELD_1_BYTES)
    heads.put_varint(entry_lengths, varint_widths(entry_lengths))
    heads.put(_FIELD_1_VARINT)
    heads.put_varint(ledger[group_starts], ledger_widths)
    heads.put(_FIELD_2_BYTES)
    heads.put_varint(bitmaps.widths, bitmap_length_widths)
    group_widths = heads.widths + bitmaps.widths

    tails = CellTable(len(bounds), 2 + 2 * _VALUE_WIDTH_MAX)
    for tag, values in ((_FIELD_2_VARINT, bounds.max_deliver_at_ms), (_FIELD_3_VARINT, bounds.min_deliver_at_ms)):
        tails.put(tag)
        tails.put_varint(values, varint_widths(values))

    # A segment's message: 0A length | map entries | 10 last deadline 18 first deadline.
    maps_widths = np.bincount(group_segment, weights=group_widths, minlength=len(bounds)).astype(np.int64)
    message_widths = maps_widths + tails.widths
    openings = CellTable(len(bounds), 1 + _VALUE_WIDTH_MAX)
    openings.put(_FIELD_1_BYTES)
    openings.put_varint(message_widths, varint_widths(message_widths))

    segment_ends = np.cumsum(openings.widths + message_widths)
    segment_base = segment_ends - openings.widths - message_widths
    # Map entries follow each other except where a segment's tail and the next one's opening come between.
    before_maps = np.cumsum(openings.widths) + np.cumsum(tails.widths) - tails.widths
    group_base = np.cumsum(group_widths) - group_widths + before_maps[group_segment]
    flat = np.empty(int(segment_ends[-1]), np.uint8)
    flat[spans(segment_base, openings.widths)] = openings.flat()
    flat[spans(group_base, heads.widths)] = heads.flat()
    flat[spans(group_base + heads.widths, bitmaps.widths)] = bitmaps.flat
    flat[spans(segment_ends - tails.widths, tails.widths)] = tails.flat()
    return flat.tobytes()


def _by_segment_and_position(indexes: IndexColumns, bounds: SegmentBounds) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Columns (segment, ledger, entry) of all rows, ascending."""
    segment = np.repeat(np.arange(len(bounds)), bounds.count)
    first_ledger = indexes.ledger_id[0] if len(indexes) else np.int64(0)
    if bool((indexes.ledger_id == first_ledger).all()):
        ledgers, rank = np.array([first_ledger], np.int64), np.zeros(len(indexes), np.int64)
    else:
        ledgers, rank = np.unique(indexes.ledger_id, return_inverse=True)
    rank_bits = (len(ledgers) - 1).bit_length()
    if 32 + rank_bits + len(bounds).bit_length() <= 63:
        # All three in one word: sorting plain integers is ten times faster than sorting by three keys.
        keys = np.sort((((segment << rank_bits) | rank) << 32) | indexes.entry_id)
        upper = keys >> 32
        return upper >> rank_bits, ledgers[upper & ((1 << rank_bits) - 1)], keys & ENTRY_ID_MAX
    order = np.lexsort((indexes.entry_id, indexes.ledger_id, segment))
    return segment[order], indexes.ledger_id[order], indexes.entry_id[order]


def decode_segments(entries: Sequence[bytes]) -> IndexColumns:
    """The rows of any number of segments, in stored order.

    Args:
        entries: stored segments (entries 1..n of a snapshot); may be empty.
    Raises:
        SnapshotCorrupt: an entry is no segment, or holds a value out of range; names the entry by its place in ``entries``.
    Cost: O(bytes); about ten times more for entries whose rows are not in the usual form.
    """
    sizes = np.fromiter(map(len, entries), np.int64, len(entries))
    ends = np.cumsum(sizes)
    parts = []
    first = 0
    while first < len(entries):
        block_end = ends[first] - sizes[first] + _BLOCK_BYTES
        end = max(int(np.searchsorted(ends, block_end, side="right")), first + 1)
        parts += _decode_block(entries, slice(first, end), np.cumsum(sizes[first:end]))
        first = end
    return IndexColumns.concat(parts)


def _decode_block(entries: Sequence[bytes], block: slice, ends: Int64Array) -> list[IndexColumns]:
    """The rows of some of the entries: together if all are in the usual form, else one by one."""
    rows = _decode_usual(b"".join(entries[block]), ends)
    if rows is not None:
        return [rows]
    parts = []
    for number, entry in enumerate(entries[block], block.start + 1):
        rows = _decode_usual(entry, np.array([len(entry)]))
        parts.append(_decode_any(entry, f"segment {number} of {len(entries)}") if rows is None else rows)
    return parts


def _decode_usual(encoded: bytes, ends: Int64Array) -> IndexColumns | None:
    """The rows, or None unless each is eight canonical tokens in the usual order and no segment ends inside one."""
    if not encoded:
        return IndexColumns.empty()
    reader = VarintReader(encoded)
    octets = reader.octets
    token_ends = np.flatnonzero(octets < 0x80)
    if len(token_ends) % _TOKENS_PER_ROW or not len(token_ends) or token_ends[-1] != len(octets) - 1:
        return None
    table = np.ascontiguousarray(token_ends.reshape(-1, _TOKENS_PER_ROW).T)
    row, size, tag_1, value_1, tag_2, value_2, tag_3, value_3 = table
    starts = np.empty_like(row)
    starts[0] = 0
    starts[1:] = value_3[:-1] + 1
    row_ends = np.append(0, value_3 + 1)
    width_1, width_2, width_3 = value_1 - tag_1, value_2 - tag_2, value_3 - tag_3
    usual = (
        (row == starts).all()
        and (octets[row] == _FIELD_1_BYTES).all()
        and (size == starts + 1).all()
        and (octets[size] == value_3 - size).all()
        and (tag_1 == starts + 2).all()
        and (octets[tag_1] == _FIELD_1_VARINT).all()
        and (tag_2 == value_1 + 1).all()
        and (octets[tag_2] == _FIELD_2_VARINT).all()
        and (tag_3 == value_2 + 1).all()
        and (octets[tag_3] == _FIELD_3_VARINT).all()
        and ((octets[value_1] != 0) | (width_1 == 1)).all()
        and ((octets[value_2] != 0) | (width_2 == 1)).all()
        and ((octets[value_3] != 0) | (width_3 == 1)).all()
        and max(int(width_1.max()), int(width_2.max()), int(width_3.max())) <= _VALUE_WIDTH_MAX
        and (row_ends[np.searchsorted(row_ends, ends)] == ends).all()
    )
    if not usual:
        return None
    entry_id = reader.read(tag_3 + 1, width_3)
    if int(entry_id.max()) > ENTRY_ID_MAX:
        return None
    return IndexColumns(reader.read(tag_1 + 1, width_1), reader.read(tag_2 + 1, width_2), entry_id)


def _decode_any(entry: bytes, where: str) -> IndexColumns:
    """The rows of one segment in any valid form."""
    message = snapshot_pb2.SnapshotSegment()
    _parse(message, entry, where)
    rows = message.indexes
    return IndexColumns(
        _in_range([row.timestamp for row in rows], INT63_MAX, f"{where}: timestamp"),
        _in_range([row.ledger_id for row in rows], INT63_MAX, f"{where}: ledger_id"),
        _in_range([row.entry_id for row in rows], ENTRY_ID_MAX, f"{where}: entry_id"),
    )


def decode_metadata(entry: bytes) -> SnapshotMetadata:
    """What entry 0 of a snapshot says, map keys in any order.

    Raises:
        SnapshotCorrupt: the bytes are no metadata, hold an invalid bitmap, or a value out of range.
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
    if not encoded:  # the library reads one byte before it looks at the length
        raise SnapshotCorrupt(f"{where}: no bytes where a RoaringBitmap belongs; rebuild it from the ledgers")
    try:
        return BitMap.deserialize(encoded)
    except ValueError as error:
        raise SnapshotCorrupt(f"{where}: not a RoaringBitmap ({error}); rebuild it from the ledgers") from error
