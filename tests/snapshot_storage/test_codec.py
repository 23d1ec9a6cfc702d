"""The codec equals protobuf and RoaringBitmap byte for byte, and decodes or refuses any bytes."""

import random

import numpy as np
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns, Position
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.snapshot.v1 import snapshot_pb2
from delayed_tracker.storage.codec.pulsar import decode_metadata, decode_segments, encode_segment, encode_snapshot
from delayed_tracker.storage.errors import SnapshotCorrupt
from tests.snapshot_storage.strategies import indexes, rows, seal_rows, sealed

EXAMPLE = IndexColumns.of([(1_700_000_060_000, 5, 0), (1_700_000_061_000, 5, 2)])
EXAMPLE_SEGMENT = bytes.fromhex("0a0b08e0a499ffbc31100518000a0b08c8ac99ffbc3110051802")
EXAMPLE_METADATA = bytes.fromhex("0a280a18080512143a3000000100000000000100100000000000020010c8ac99ffbc3118e0a499ffbc31")


def reference_segment(columns: IndexColumns) -> bytes:
    """Return the bytes that the generated class writes."""
    message = snapshot_pb2.SnapshotSegment()
    for timestamp, ledger, entry in columns:
        message.indexes.add(timestamp=timestamp, ledger_id=ledger, entry_id=entry)
    return message.SerializeToString()


def reference_rows(encoded: bytes) -> list[tuple[int, int, int]] | None:
    """Return the rows that the generated class reads, or None if the bytes are not a segment of ours."""
    message = snapshot_pb2.SnapshotSegment()
    try:
        message.ParseFromString(encoded)
    except DecodeError:
        return None
    found = [(row.timestamp, row.ledger_id, row.entry_id) for row in message.indexes]
    limits = (INT63_MAX, INT63_MAX, ENTRY_ID_MAX)
    sound = message.IsInitialized() and all(
        value <= most for row in found for value, most in zip(row, limits, strict=True)
    )
    return found if sound else None


def decoded_rows(*entries: bytes) -> list[tuple[int, int, int]] | None:
    """Return the rows that the codec reads, or None if it refuses the bytes."""
    try:
        return list(decode_segments(entries))
    except SnapshotCorrupt:
        return None


def reference_metadata(bucket: SealedIndexes) -> bytes:
    """Return the metadata that Pulsar writes: maps in key order, bitmaps run-optimised."""
    encoded = b""
    for number in range(len(bucket.bounds)):
        segment = bucket.segment(number)
        message = b""
        for ledger in sorted(set(segment.ledger_id.tolist())):
            bitmap = BitMap(segment.entry_id[segment.ledger_id == ledger].tolist())
            bitmap.run_optimize()
            one = snapshot_pb2.SnapshotSegmentMetadata(delayed_index_bit_map={ledger: bitmap.serialize()})
            message += one.SerializePartialToString()
        message += snapshot_pb2.SnapshotSegmentMetadata(
            max_schedule_timestamp=int(segment.deliver_at_ms[-1]), min_schedule_timestamp=int(segment.deliver_at_ms[0])
        ).SerializeToString()
        entry = snapshot_pb2.SnapshotMetadata()
        entry.metadata_list.add().MergeFromString(message)
        encoded += b"\x0a" + _varint(len(message)) + message
    return encoded


def _varint(value: int, *, size: int = 0) -> bytes:
    """Return a varint, stretched to ``size`` bytes if that is more than it needs."""
    octets = []
    while value > 0x7F or len(octets) < size - 1:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


# --- encoding ---


def test_worked_example_of_a_segment():
    """Two indexes are encoded as Pulsar stores them."""
    assert encode_segment(EXAMPLE) == EXAMPLE_SEGMENT


def test_worked_example_of_metadata():
    """The map comes first, then the last deadline, then the first one; they take 68 bytes."""
    encoded = encode_snapshot(seal_rows(list(EXAMPLE), step_ms=300_000, count_max=-1))
    assert encoded.metadata == EXAMPLE_METADATA
    assert encoded.segments == [EXAMPLE_SEGMENT]
    assert encoded.length == 68


@given(indexes)
def test_a_segment_is_what_protobuf_writes(columns):
    """Segments of any columns with values of any width are as protobuf writes them."""
    assert encode_segment(columns) == reference_segment(columns)


@given(sealed)
def test_a_snapshot_is_what_protobuf_and_roaring_write(bucket):
    """Segments, metadata and length of any bucket are as protobuf and RoaringBitmap write them."""
    encoded = encode_snapshot(bucket)
    assert encoded.metadata == reference_metadata(bucket)
    assert list(encoded.segments) == [reference_segment(bucket.segment(number)) for number in range(len(bucket.bounds))]
    assert encoded.length == len(encoded.metadata) + sum(map(len, encoded.segments))


def test_segments_and_ledgers_beyond_one_word_are_sorted_all_the_same():
    """If segment, ledger and entry do not fit 63 bits together, the slower sort gives the same bytes."""
    rng = random.Random(5)
    table = [(row, rng.randrange(2**40) * 2, rng.randrange(100)) for row in range(70_000)]
    bucket = seal_rows(table, step_ms=1, count_max=1)
    assert len(bucket.bounds) == 70_000
    decoded = decode_metadata(encode_snapshot(bucket).metadata)
    assert [bits.first() for bits in decoded.segment_bits[:100]] == [Position(*row[1:]) for row in table[:100]]
    assert sum(map(len, decoded.segment_bits)) == 70_000


def test_an_empty_bucket_has_no_segments():
    """An empty bucket has empty metadata and no segments."""
    encoded = encode_snapshot(seal_rows([], step_ms=1, count_max=-1))
    assert (encoded.metadata, list(encoded.segments), encoded.length) == (b"", [], 0)


def test_a_position_twice_in_a_segment_is_a_bug():
    """A position twice in a segment is refused: a bitmap cannot express it and would disagree with the rows."""
    twice = IndexColumns.of([(1, 5, 7), (2, 5, 7)])
    bounds = SegmentBounds(np.array([2]), np.array([1]), np.array([2]))
    with pytest.raises(InvariantViolation, match="twice"):
        encode_snapshot(SealedIndexes(twice, bounds, Position(5, 7), Position(5, 7)))


# --- decoding segments ---


@given(st.lists(indexes, max_size=5))
def test_segments_decode_in_one_pass(segments):
    """Any number of segments, some of them empty, give all rows in order."""
    decoded = decode_segments([encode_segment(columns) for columns in segments])
    assert list(decoded) == [row for columns in segments for row in columns]
    assert [column.dtype for column in (decoded.deliver_at_ms, decoded.ledger_id, decoded.entry_id)] == [np.int64] * 3


def test_a_large_bucket_is_coded_in_blocks():
    """Every row is in its place across blocks, even if one entry in the middle has another form."""
    rng = random.Random(7)
    table = [(rng.randrange(2**41), row // 30_000, row % 30_000) for row in range(60_000)]
    bucket = seal_rows(table, step_ms=2**30, count_max=100)
    segments = list(encode_snapshot(bucket).segments)
    assert b"".join(segments) == reference_segment(bucket.indexes)
    assert all(map(reference_rows, segments))
    assert list(encode_snapshot(seal_rows(table, step_ms=2**41, count_max=-1)).segments) == [b"".join(segments)]
    assert list(decode_segments(segments)) == list(bucket.indexes)
    foreign = segments[len(segments) // 2] + b"\x12\x00"
    segments[len(segments) // 2] = foreign
    assert list(decode_segments(segments)) == list(bucket.indexes)
    segments[-2] += b"\xff"
    with pytest.raises(SnapshotCorrupt, match=f"segment {len(segments) - 1} of {len(segments)}"):
        decode_segments(segments)


@st.composite
def foreign_row(draw: st.DrawFn) -> tuple[tuple[int, int, int], bytes]:
    """Draw a valid row in another form: fields in any order, unknown fields, values repeated or stretched."""
    row = draw(rows.filter(bool))[0]
    fields = [
        bytes([number << 3]) + _varint(value, size=draw(st.integers(0, 10))) for number, value in enumerate(row, 1)
    ]
    unknown = draw(
        st.lists(st.sampled_from([b"\x20\x07", b"\x2a\x03abc", b"\x35\x01\x02\x03\x04", b"\x82\x01\x00"]), max_size=2)
    )
    encoded = b"".join(draw(st.permutations([*fields, *unknown])))
    return row, b"\x0a" + _varint(len(encoded), size=draw(st.integers(0, 2))) + encoded


@given(st.lists(st.lists(foreign_row(), max_size=3), min_size=1, max_size=4), indexes)
def test_rows_in_other_forms_decode_the_same(segments, usual):
    """Every form that protobuf allows is read, also beside segments in the usual form."""
    entries = [b"".join(encoded for _, encoded in segment) for segment in segments]
    decoded = decode_segments([*entries, encode_segment(usual)])
    assert list(decoded) == [row for segment in segments for row, _ in segment] + list(usual)


def test_unknown_fields_of_the_segment_are_skipped():
    """A map in field 2 is skipped: Pulsar wrote one for three days in 2023."""
    assert decoded_rows(b"\x12\x04\x08\x05\x12\x00" + EXAMPLE_SEGMENT) == list(EXAMPLE)


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (b"\x0a\x06\x08\x01\x10\x02\x18", "do not decode"),
        (EXAMPLE_SEGMENT[:-1], "do not decode"),
        (b"\x0a\x04\x08\x01\x10\x02", "required field is missing"),
        (b"\x0a\x0f\x08" + _varint(2**63) + b"\x10\x01\x18\x01", "timestamp: 9223372036854775808"),
        (b"\x0a\x0f\x08\x01\x10" + _varint(2**64 - 1) + b"\x18\x01", "ledger_id: 18446744073709551615"),
        (b"\x0a\x0a\x08\x01\x10\x01\x18" + _varint(2**32), "entry_id: 4294967296"),
        (b"\xff", "do not decode"),
        (b"not protobuf", "do not decode"),
    ],
)
def test_what_is_no_segment_is_corrupt(encoded, message):
    """The error names the entry by its place and describes the fault."""
    with pytest.raises(SnapshotCorrupt, match=f"segment 2 of 3.*{message}"):
        decode_segments([EXAMPLE_SEGMENT, encoded, EXAMPLE_SEGMENT])


def test_a_row_that_two_entries_share_is_corrupt():
    """A row divided over two entries is corrupt: concatenated they would decode, but each entry must be a segment."""
    for cut in range(1, len(EXAMPLE_SEGMENT)):
        halves = EXAMPLE_SEGMENT[:cut], EXAMPLE_SEGMENT[cut:]
        expected = list(EXAMPLE) if cut == 13 else None
        assert decoded_rows(*halves) == expected


def test_every_flipped_bit_of_a_segment_decodes_as_protobuf_does_or_is_corrupt():
    """A segment with one flipped bit gives protobuf's rows or is corrupt."""
    columns = IndexColumns.of([(1_700_000_000_000 + row, 2**40 + row % 2, row * 9_000) for row in range(8)])
    encoded = encode_segment(columns)
    for place in range(len(encoded)):
        for bit in range(8):
            flipped = bytearray(encoded)
            flipped[place] ^= 1 << bit
            assert decoded_rows(bytes(flipped)) == reference_rows(bytes(flipped))


@given(st.data(), indexes)
def test_damaged_segments_decode_as_protobuf_does_or_are_corrupt(data, columns):
    """Bytes changed, cut off or inserted give protobuf's rows or are corrupt."""
    damaged = _damage(data, encode_segment(columns))
    assert decoded_rows(damaged) == reference_rows(damaged)


@given(st.binary(max_size=60))
def test_any_bytes_decode_as_protobuf_does_or_are_corrupt(encoded):
    """The decoder accepts or refuses any bytes without another error."""
    assert decoded_rows(encoded) == reference_rows(encoded)


def _damage(data: st.DataObject, encoded: bytes) -> bytes:
    damaged = bytearray(encoded)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(damaged)))
        match data.draw(st.sampled_from(["change", "cut", "insert"])):
            case "change":
                damaged[place : place + 1] = data.draw(st.binary(min_size=1, max_size=1))
            case "cut":
                del damaged[place:]
            case "insert":
                damaged[place:place] = data.draw(st.binary(max_size=4))
    return bytes(damaged)


# --- decoding metadata ---


@given(sealed)
def test_metadata_round_trip(bucket):
    """Bounds, counts and the positions of each segment are decoded as encoded."""
    decoded = decode_metadata(encode_snapshot(bucket).metadata)
    for name in ("count", "min_deliver_at_ms", "max_deliver_at_ms"):
        assert getattr(decoded.bounds, name).tolist() == getattr(bucket.bounds, name).tolist()
    expected = [PositionBitmap.of(bucket.segment(number).positions) for number in range(len(bucket.bounds))]
    assert decoded.segment_bits == expected


def test_map_keys_decode_in_any_order():
    """Map keys decode in any order, as Java's maps have one of their own; of a repeated key the last one counts."""
    message = snapshot_pb2.SnapshotSegmentMetadata(max_schedule_timestamp=9, min_schedule_timestamp=3)
    encoded = message.SerializeToString()
    for ledger, entry in ((7, 1), (5, 2), (7, 3)):
        bitmap = BitMap([entry]).serialize()
        inner = b"\x08" + _varint(ledger) + b"\x12" + _varint(len(bitmap)) + bitmap
        encoded += b"\x0a" + _varint(len(inner)) + inner
    decoded = decode_metadata(b"\x0a" + _varint(len(encoded)) + encoded)
    assert list(decoded.segment_bits[0].to_columns()) == [(5, 2), (7, 3)]
    assert decoded.bounds.count.tolist() == [2]


def _metadata(**fields: object) -> bytes:
    message = snapshot_pb2.SnapshotMetadata()
    message.metadata_list.add(**{"max_schedule_timestamp": 2, "min_schedule_timestamp": 1, **fields})
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("encoded", "message"),
    [
        (EXAMPLE_METADATA[:-1], "do not decode"),
        (b"\x0a\x02\x10\x05", "required field is missing"),
        (_metadata(delayed_index_bit_map={5: b""}), "segment 1, ledger 5: no bytes"),
        (_metadata(delayed_index_bit_map={5: b"\x3a\x30"}), "segment 1, ledger 5: not a RoaringBitmap"),
        (_metadata(delayed_index_bit_map={2**63: BitMap([1]).serialize()}), "ledger ids go up to"),
        (_metadata(min_schedule_timestamp=3), "3 is above max_schedule_timestamp 2"),
        (_metadata(max_schedule_timestamp=2**63), "max_schedule_timestamp: 9223372036854775808"),
    ],
)
def test_what_is_no_metadata_is_corrupt(encoded, message):
    """The error names the segment and describes the fault."""
    with pytest.raises(SnapshotCorrupt, match=message):
        decode_metadata(encoded)


def test_every_flipped_bit_of_metadata_decodes_or_is_corrupt():
    """A bitmap that decodes has as many positions as it counts."""
    table = [(row * 100_000, 5 + row % 2, row * 3_000 + extra) for row in range(20) for extra in range(5)]
    encoded = encode_snapshot(seal_rows(table, step_ms=300_000, count_max=-1)).metadata
    outcomes = {True: 0, False: 0}
    for place in range(len(encoded)):
        for bit in range(8):
            flipped = bytearray(encoded)
            flipped[place] ^= 1 << bit
            outcomes[_decodes_soundly(bytes(flipped))] += 1
    assert min(outcomes.values()) > 100


@given(st.binary(max_size=80))
def test_any_bytes_are_metadata_or_corrupt(encoded):
    """The decoder accepts or refuses any bytes without another error."""
    _decodes_soundly(encoded)


def _decodes_soundly(encoded: bytes) -> bool:
    try:
        decoded = decode_metadata(encoded)
    except SnapshotCorrupt:
        return False
    for bits, count in zip(decoded.segment_bits, decoded.bounds.count.tolist(), strict=True):
        bits.check()
        assert len(bits) == count
    return True
