"""Golden tests of every bucket that a real Pulsar stored: decoding equals its classes, encoding equals its bytes."""

import base64
import gzip
import json
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import pytest

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import SegmentBounds, cut_segments
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.snapshot.v1 import snapshot_pb2
from delayed_tracker.storage.codec.pulsar import decode_metadata, decode_segments, encode_segment, encode_snapshot
from tests.repository.project_tree import ROOT

PACK = ROOT / "tests" / "data" / "pulsar-a"
STEP_MS = 300_000
COUNT_MAX = 30
"""Most indexes of a segment. The broker ran with this setting to get many segments."""


@dataclass(frozen=True)
class Bucket:
    """One bucket: the bytes that Pulsar stored, and the content that its own classes decode."""

    bucket_id: int
    entries: list[bytes]
    decoded: dict

    @property
    def segments(self) -> list[dict]:
        return self.decoded["segments"]

    @property
    def sealed(self) -> SealedIndexes:
        indexes = IndexColumns.of(row for segment in self.segments for row in segment["indexes"])
        counts, least, most = (
            np.array(column, np.int64)
            for column in zip(
                *((len(segment["indexes"]), segment["min"], segment["max"]) for segment in self.segments), strict=True
            )
        )
        positions = sorted(indexes.positions)
        return SealedIndexes(indexes, SegmentBounds(counts, least, most), positions[0], positions[-1])


def _lines(path: str) -> list[dict]:
    with gzip.open(PACK / path, "rt") as lines:
        return [json.loads(line) for line in lines]


def _buckets() -> list[Bucket]:
    entries: dict[int, dict[int, bytes]] = defaultdict(dict)
    for line in _lines("buckets/entries.jsonl.gz"):
        entries[line["bucket"]][line["entry"]] = base64.b64decode(line["payload"])
    return [
        Bucket(line["bucket"], [entries[line["bucket"]][number] for number in sorted(entries[line["bucket"]])], line)
        for line in _lines("expected/buckets.jsonl.gz")
    ]


BUCKETS = _buckets()


@pytest.fixture(params=BUCKETS, ids=lambda bucket: f"bucket-{bucket.bucket_id}")
def bucket(request) -> Bucket:
    return request.param


def test_the_pack_is_all_there():
    """The pack has 25 buckets with 1,155 segments and 2,079 indexes."""
    assert len(BUCKETS) == 25
    assert sum(len(bucket.segments) for bucket in BUCKETS) == 1_155
    assert sum(len(segment["indexes"]) for bucket in BUCKETS for segment in bucket.segments) == 2_079


def test_segments_decode_to_what_pulsar_decodes(bucket: Bucket):
    """Each segment decodes to what Pulsar decodes, alone and in one pass with all others."""
    for entry, segment in zip(bucket.entries[1:], bucket.segments, strict=True):
        assert [list(row) for row in decode_segments([entry])] == segment["indexes"]
    rows = [tuple(row) for segment in bucket.segments for row in segment["indexes"]]
    assert list(decode_segments(bucket.entries[1:])) == rows


def test_metadata_decodes_to_what_pulsar_decodes(bucket: Bucket):
    """Deadlines and bitmaps of every segment decode to what Pulsar decodes."""
    metadata = decode_metadata(bucket.entries[0])
    assert metadata.bounds.min_deliver_at_ms.tolist() == [segment["min"] for segment in bucket.segments]
    assert metadata.bounds.max_deliver_at_ms.tolist() == [segment["max"] for segment in bucket.segments]
    for bits, segment in zip(metadata.segment_bits, bucket.segments, strict=True):
        expected = {Position(int(ledger), entry) for ledger, entries in segment["bitmaps"].items() for entry in entries}
        assert set(bits.to_columns()) == expected
    assert metadata.bounds.count.tolist() == [len(segment["indexes"]) for segment in bucket.segments]


def test_segments_encode_to_what_pulsar_stored(bucket: Bucket):
    """Each segment encodes to what Pulsar stored, alone and with its bucket."""
    encoded = encode_snapshot(bucket.sealed)
    assert list(encoded.segments) == bucket.entries[1:]
    for number, entry in enumerate(bucket.entries[1:]):
        assert encode_segment(bucket.sealed.segment(number)) == entry
    assert encoded.length == bucket.decoded["length"]


def _with_ledgers_ascending(entry: bytes) -> bytes:
    """Return the same metadata with each segment's map entries in ascending order of their keys."""
    stored = snapshot_pb2.SnapshotMetadata()
    stored.ParseFromString(entry)
    encoded = b""
    for segment in stored.metadata_list:
        parts = [
            snapshot_pb2.SnapshotSegmentMetadata(delayed_index_bit_map={ledger: segment.delayed_index_bit_map[ledger]})
            for ledger in sorted(segment.delayed_index_bit_map)
        ]
        segment.ClearField("delayed_index_bit_map")
        message = b"".join(part.SerializePartialToString() for part in [*parts, segment])
        assert len(message) < 2**14
        length = [len(message)] if len(message) < 2**7 else [len(message) & 0x7F | 0x80, len(message) >> 7]
        encoded += bytes([0x0A, *length]) + message
    return encoded


def test_metadata_encodes_to_what_pulsar_stored(bucket: Bucket):
    """Metadata encodes to what Pulsar stored, except that Pulsar writes map entries in the order of a Java hash map."""
    assert encode_snapshot(bucket.sealed).metadata == _with_ledgers_ascending(bucket.entries[0])


def test_only_the_order_of_a_hash_map_ever_differs():
    """24 of 25 entries are equal, and the other has ledgers 126 to 128 in one segment, with 128 first."""
    differing = [bucket for bucket in BUCKETS if encode_snapshot(bucket.sealed).metadata != bucket.entries[0]]
    assert [bucket.bucket_id for bucket in differing] == [130]
    assert {ledger for segment in differing[0].segments for ledger in segment["bitmaps"]} == {"126", "127", "128"}


def test_bitmaps_encode_to_what_pulsar_stored(bucket: Bucket):
    """Every bitmap encodes to the bytes that Pulsar stored."""
    ours, theirs = snapshot_pb2.SnapshotMetadata(), snapshot_pb2.SnapshotMetadata()
    ours.ParseFromString(encode_snapshot(bucket.sealed).metadata)
    theirs.ParseFromString(bucket.entries[0])
    for one, other in zip(ours.metadata_list, theirs.metadata_list, strict=True):
        assert dict(one.delayed_index_bit_map) == dict(other.delayed_index_bit_map)


def test_segments_are_cut_where_pulsar_cut_them(bucket: Bucket):
    """The same deadlines and settings give the segments that Pulsar cut, with the same bounds."""
    bounds = cut_segments(bucket.sealed.indexes.deliver_at_ms, step_ms=STEP_MS, count_max=COUNT_MAX)
    assert bounds.count.tolist() == [len(segment["indexes"]) for segment in bucket.segments]
    assert bounds.min_deliver_at_ms.tolist() == [segment["min"] for segment in bucket.segments]
    assert bounds.max_deliver_at_ms.tolist() == [segment["max"] for segment in bucket.segments]


def test_bits_are_those_of_the_rows(bucket: Bucket):
    """The bits in the metadata are the positions in the segments."""
    metadata = decode_metadata(bucket.entries[0])
    rows = decode_segments(bucket.entries[1:])
    union = PositionBitmap()
    for bits in metadata.segment_bits:
        union.update(bits)
    assert union == PositionBitmap.of(rows.positions)
