"""The columnar codec returns what it was given, in few bytes, and decodes or refuses any bytes."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments, join_segments
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec import columnar, pulsar
from delayed_tracker.storage.codec.codec import (
    MetadataEncoder,
    codec_of,
    decode_metadata,
    decode_segments,
    encode_segments,
    encode_snapshot,
)
from delayed_tracker.storage.codec.snapshot import EncodedSnapshot
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from tests.snapshot_storage.strategies import seal_rows, sealed

DAMAGE = (SnapshotCorrupt, StorageFormatUnsupported)
EXAMPLE = seal_rows(
    [
        (1_700_000_060_000, 5, 0),
        (1_700_000_060_003, 5, 2),
        (1_700_000_061_000, 9, 1),
        (1_700_000_061_001, 9, 7),
    ],
    step_ms=1_000,
    count_max=-1,
)
EXAMPLE_SEGMENTS = [
    # Version 1 of a segment, 2 rows, steps of 2 bits, entries of 2 bits, the first deadline, entry 0, 1 ledger: 5.
    # Then the step 3 and the entries 0 and 2.
    bytes.fromhex("0f 02 02 02 e0a499ffbc31 00 01 05 23"),
    bytes.fromhex("0f 02 01 03 c8ac99ffbc31 01 01 09 61"),
]
EXAMPLE_METADATA = bytes.fromhex(
    # Version 1 of metadata, 2 segments, the first deadline.
    "0e 02000000 6052e6cf8b010000"
    # Row counts, of 1 bit each, above 2; gaps 0 and 997 of 10 bits; spans 3 and 1 of 2 bits above 1.
    "01 0200000000000000 00  0a 0000000000000000 00940f  02 0100000000000000 02"
    # Two ledgers: 5 with the entries 0 and 2, and 9 with 1 and 7.
    "02000000"
    "0500000000000000 14000000 3a300000010000000000010010000000 00000200"
    "0900000000000000 14000000 3a300000010000000000010010000000 01000700"
)


def encoded(bucket: SealedIndexes) -> EncodedSnapshot:
    return encode_snapshot(SnapshotCodec.COLUMNAR, bucket, PositionBitmap.of(bucket.indexes.positions))


def columns_of(bounds: SegmentBounds) -> list[list[int]]:
    return [column.tolist() for column in (bounds.count, bounds.min_deliver_at_ms, bounds.max_deliver_at_ms)]


# --- encoding and decoding ---


def test_worked_example():
    """The bytes of a small snapshot, which later versions of this program have to read."""
    snapshot = encoded(EXAMPLE)
    assert snapshot.segments == EXAMPLE_SEGMENTS
    assert snapshot.metadata == EXAMPLE_METADATA
    assert snapshot.length == len(EXAMPLE_METADATA) + 2 * 14
    assert list(decode_segments(EXAMPLE_SEGMENTS)) == list(EXAMPLE.indexes)


@given(sealed)
def test_a_snapshot_comes_back(bucket):
    """Rows, bounds and positions of any bucket come back from either codec, for all segments and for each."""
    positions = PositionBitmap.of(bucket.indexes.positions)
    for codec in SnapshotCodec:
        snapshot = encode_snapshot(codec, bucket, positions)
        assert list(decode_segments(snapshot.segments)) == list(bucket.indexes)
        for number, segment in enumerate(snapshot.segments):
            assert list(decode_segments([segment])) == list(bucket.segment(number))
            assert codec_of(segment) is codec
        metadata = decode_metadata(snapshot.metadata)
        assert columns_of(metadata.bounds) == columns_of(bucket.bounds)
        assert metadata.positions() == positions
        assert snapshot.length == len(snapshot.metadata) + sum(map(len, snapshot.segments))


@given(sealed, st.integers(1, 4))
def test_metadata_made_in_parts_is_the_same(bucket, parts):
    """An encoder that gets the segments a few at a time returns the same entry, in both codecs."""
    positions = PositionBitmap.of(bucket.indexes.positions)
    for codec in SnapshotCodec:
        encoder = MetadataEncoder(codec)
        for start in range(0, len(bucket.bounds), parts):
            some = bucket.bounds.take(slice(start, start + parts))
            rows = slice(int(bucket.bounds.starts[start]), int(bucket.bounds.starts[start]) + int(some.count.sum()))
            encoder.add(bucket.indexes.take(rows), some)
        assert encoder.finish(positions) == encode_snapshot(codec, bucket, positions).metadata
        assert columns_of(encoder.bounds) == columns_of(bucket.bounds)


def test_the_largest_values_come_back():
    """Deadlines and ledgers of 63 bits and entries of 32 stand beside zeros."""
    table = [(0, 0, 0), (0, INT63_MAX, ENTRY_ID_MAX), (INT63_MAX, 7, ENTRY_ID_MAX), (INT63_MAX, INT63_MAX, 0)]
    bucket = seal_rows(table, step_ms=INT63_MAX, count_max=-1)
    snapshot = encoded(bucket)
    assert list(decode_segments(snapshot.segments)) == table
    assert columns_of(decode_metadata(snapshot.metadata).bounds) == columns_of(bucket.bounds)


def test_a_bucket_of_many_ledgers():
    """Each row has the number of its ledger in as few bits as the segment's ledgers need."""
    table = [(1_700_000_000_000 + 977 * row, 100 + 37 * (row * 7_919 % 300), row) for row in range(3_000)]
    bucket = seal_rows(table, step_ms=300_000, count_max=-1)
    assert list(decode_segments(encoded(bucket).segments)) == table


def test_an_empty_bucket():
    """A bucket without rows has metadata and no segments."""
    snapshot = encoded(seal_rows([], step_ms=1, count_max=-1))
    assert not snapshot.segments
    metadata = decode_metadata(snapshot.metadata)
    assert len(metadata.bounds) == 0
    assert not metadata.positions()
    assert list(decode_segments([])) == []


def test_a_position_twice_is_a_bug_of_the_caller():
    """A snapshot whose rows are more than its positions is not encoded."""
    twice = IndexColumns.of([(1, 5, 7), (2, 5, 7)])
    bounds = cut_segments(twice.deliver_at_ms, step_ms=10, count_max=-1)
    with pytest.raises(InvariantViolation, match="2 rows has 1 positions"):
        encoded(SealedIndexes(twice, bounds, Position(5, 7), Position(5, 7)))


def test_segments_that_overlap_are_a_bug_of_the_caller():
    """Bounds have to ascend, because their gaps are stored."""
    column = np.array([10, 5], np.int64)
    with pytest.raises(InvariantViolation, match="overlap"):
        columnar.encode_metadata(
            SegmentBounds(np.ones(2, np.int64), column, column),
            PositionBitmap.of(IndexColumns.of([(5, 1, 1), (10, 1, 2)]).positions),
        )


def test_bytes_of_an_index():
    """50,000 consecutive positions over 30 days, six in a step of 300 s, take 4.5 bytes each; Pulsar's bytes are 24."""
    rng = np.random.default_rng(5)
    rows = IndexColumns(
        1_760_000_000_000 + rng.integers(0, 30 * 86_400_000, 50_000),
        np.full(50_000, 120_000, np.int64),
        np.arange(50_000),
    ).sorted()
    bounds = cut_segments(rows.deliver_at_ms, step_ms=300_000, count_max=5_000)
    joined = join_segments(bounds, rows_min=SnapshotCodec.COLUMNAR.segment_rows_min, count_max=5_000)
    snapshot = encoded(SealedIndexes(rows, joined, Position(120_000, 0), Position(120_000, 49_999)))
    assert 4.3 < snapshot.length / 50_000 < 4.6
    theirs = pulsar.encode_snapshot(SealedIndexes(rows, bounds, Position(120_000, 0), Position(120_000, 49_999)))
    assert theirs.length > 5 * snapshot.length


# --- foreign bytes ---


def _segment(*fields: bytes) -> bytes:
    return b"".join(fields)


def _varint(value: int) -> bytes:
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*octets, value])


def _one_row(*, rows=1, step_width=0, entry_width=0, deadline=9, entry=3, ledgers=1, ledger=b"\x05", rest=b"") -> bytes:
    numbers = (_varint(rows), bytes([step_width, entry_width]), _varint(deadline), _varint(entry), _varint(ledgers))
    return _segment(b"\x0f", *numbers, ledger, rest)


def test_the_segment_of_these_tests_is_sound():
    """The bytes that the next test damages decode."""
    assert list(decode_segments([_one_row()])) == [(9, 5, 3)]


@pytest.mark.parametrize(
    ("segment", "fault"),
    [
        (_one_row(rows=0), "row count 0"),
        (_one_row(rows=2**31), "row count 2147483648"),
        (_one_row(rows=2, rest=b"\0\0"), "entry width 0"),
        (_one_row(rows=1_000_000, entry_width=32, rest=bytes(50)), "bytes: its header says another number"),
        (_one_row(step_width=64), "step width 64"),
        (_one_row(entry_width=33, rest=bytes(5)), "entry width 33"),
        (_one_row(entry=2**32), "lowest entry 4294967296"),
        (_one_row(entry=ENTRY_ID_MAX, entry_width=1, rest=b"\1"), "entry id 4294967296"),
        (_one_row(ledgers=0), "ledger count 0"),
        (_one_row(ledgers=2), "ledger count 2"),
        (_one_row(ledger=b"\xff" * 9 + b"\1"), "ledger number 0"),
        (_one_row(ledger=b""), "its header says another number"),
        (_one_row(rest=b"\0"), "its header says another number"),
        (_one_row(rows=2, entry_width=1, rest=b"\x06"), "a bit behind its last row"),
        (_one_row(rows=2, step_width=1, deadline=INT63_MAX, entry_width=1, rest=b"\x01"), "step 1: the deadline is above"),
        (_one_row(rows=3, ledgers=3, ledger=b"\1\1\1", rest=b"\xff"), "a bit behind its last row"),
        (_one_row(rows=3, ledgers=3, ledger=b"\1\1\1", rest=b"\x3f"), "ledger index 3"),
        (_one_row(rows=3, ledgers=3, ledger=b"\1\0\1", rest=b"\x24"), "ledger number 1"),
        (_one_row()[:5], "first deadline|lowest entry|ledger count|header says"),
        (b"\x0e" + _one_row()[1:], "first byte 0e"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_named(segment, fault):
    """A refusal names the field with its value, the place of its segment, and the remedy."""
    with pytest.raises(SnapshotCorrupt, match=rf"segment 2 of 2: .*(?:{fault}).*; rebuild it from the ledgers"):
        columnar.decode_segments([_one_row(), segment])


def test_entries_of_two_codecs_in_one_snapshot_are_refused():
    """A snapshot has one codec; an entry of the other one is damage."""
    theirs = pulsar.encode_segment(EXAMPLE.indexes)
    for entries in ([theirs, EXAMPLE_SEGMENTS[0]], [EXAMPLE_SEGMENTS[0], theirs], [EXAMPLE_SEGMENTS[0], b""]):
        with pytest.raises(SnapshotCorrupt, match="segment 2 of 2"):
            decode_segments(entries)


def test_a_newer_version_is_refused_and_not_taken_for_damaged():
    """A snapshot of a newer program stays: the error asks for that program."""
    for octet, decode in ((0x17, lambda entry: decode_segments([entry])), (0x16, decode_metadata)):
        with pytest.raises(StorageFormatUnsupported, match=r"version 2 of the columnar codec, .* use a newer program"):
            decode(bytes([octet]) + bytes(30))


@pytest.mark.parametrize("octet", range(256))
def test_no_protobuf_begins_like_an_entry_of_this_codec(octet):
    """The lowest bits of the first byte are wire types that protobuf does not have."""
    if columnar.is_columnar(bytes([octet])):
        assert octet & 7 in (6, 7)
        for decode in (lambda entry: pulsar.decode_segments([entry]), pulsar.decode_metadata):
            with pytest.raises(SnapshotCorrupt):
                decode(bytes([octet]) + bytes(40))


def test_every_byte_wrong():
    """Any damaged byte of an entry raises, or gives other rows in proportion to the bytes."""
    bucket = seal_rows([(1_700_000_000_000 + 7 * row, 5 + row % 2, row) for row in range(60)], step_ms=99, count_max=-1)
    snapshot = encoded(bucket)
    refused = 0
    for number, segment in enumerate(snapshot.segments):
        for at in range(len(segment)):
            for flip in (1, 0x80, 0xFF):
                wrong = segment[:at] + bytes([segment[at] ^ flip]) + segment[at + 1 :]
                try:
                    rows = decode_segments([wrong])
                except DAMAGE:
                    refused += 1
                else:
                    assert len(rows) <= 8 * len(wrong)
                    assert list(rows) != list(bucket.segment(number))
    assert refused
    for at in range(len(snapshot.metadata)):
        for flip in (1, 0x80, 0xFF):
            wrong = snapshot.metadata[:at] + bytes([snapshot.metadata[at] ^ flip]) + snapshot.metadata[at + 1 :]
            try:
                metadata = decode_metadata(wrong)
            except DAMAGE:
                continue
            assert len(metadata.bounds) <= 8 * len(wrong)
            assert len(metadata.positions()) == int(metadata.bounds.count.sum())


@pytest.mark.parametrize("at", range(len(EXAMPLE_METADATA)))
def test_metadata_cut_short(at):
    """No beginning of metadata is taken for the whole."""
    with pytest.raises(SnapshotCorrupt, match="rebuild it from the ledgers"):
        columnar.decode_metadata(EXAMPLE_METADATA[:at])


@pytest.mark.parametrize(
    ("offset", "form", "value", "fault"),
    [
        (1, "<I", 2**31, "row counts: 2147483648 values of 1 bits are more than"),
        (5, "<q", -1, "deadlines: one is negative"),
        (5, "<q", INT63_MAX, "deadlines: one is above"),
        (13, "<B", 0, "row counts: width 0"),
        (13, "<B", 64, "row counts: width 64"),
        (14, "<q", -5, "row counts: width 1 and base -5"),
        (14, "<q", 3, "row counts: they sum to 6 where the bitmap has 4 positions"),
        (14, "<q", 5, "row counts: one is [0-9]+ where the bitmap has 4 positions"),
        (35, "<B", 9, "spans|bitmap"),
    ],
)
def test_a_wrong_field_of_metadata_is_named(offset, form, value, fault):
    """A refusal names the field with its value and the remedy."""
    entry = bytearray(EXAMPLE_METADATA)
    struct.pack_into(form, entry, offset, value)
    with pytest.raises(SnapshotCorrupt, match=rf"(?:{fault}).*; rebuild it from the ledgers"):
        decode_metadata(bytes(entry))


def test_row_counts_with_a_sum_that_wraps_around():
    """Row counts of which the sum of 64 bits is that of the bitmap are refused."""
    bits = PositionBitmap.of(PositionColumns.of([(5, 1)]))
    count, zeros = np.array([INT63_MAX, INT63_MAX, 3]), np.zeros(3, np.int64)
    assert int(count.sum()) == len(bits)
    entry = columnar.encode_metadata(SegmentBounds(count, zeros, zeros), bits)
    with pytest.raises(SnapshotCorrupt, match=rf"row counts: one is {INT63_MAX} where the bitmap has 1 positions"):
        decode_metadata(entry)


@given(st.binary(max_size=80))
def test_any_bytes_decode_or_are_refused(octets):
    """Bytes that follow a header of this codec give rows in range, or one of two errors."""
    for entry in (b"\x0f" + octets, EXAMPLE_SEGMENTS[0][:4] + octets):
        try:
            rows = decode_segments([entry])
        except DAMAGE:
            continue
        assert len(rows) <= 8 * len(entry)
        assert int(rows.deliver_at_ms.min()) >= 0
        assert 0 <= int(rows.entry_id.min()) <= int(rows.entry_id.max()) <= ENTRY_ID_MAX
        assert (np.diff(rows.deliver_at_ms) >= 0).all()
    for entry in (b"\x0e" + octets, EXAMPLE_METADATA[:13] + octets):
        try:
            decode_metadata(entry)
        except DAMAGE:
            continue


def test_columns_that_are_not_contiguous_are_encoded():
    """A slice with a step is copied first."""
    rows = IndexColumns.of([(deadline, 5, deadline) for deadline in range(10)])
    every_second = IndexColumns(rows.deliver_at_ms[::2], rows.ledger_id[::2], rows.entry_id[::2])
    bounds = cut_segments(np.ascontiguousarray(every_second.deliver_at_ms), step_ms=4, count_max=-1)
    assert list(decode_segments(encode_segments(SnapshotCodec.COLUMNAR, every_second, bounds))) == list(every_second)
