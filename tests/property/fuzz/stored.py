"""Decoders of the storage: snapshots, catalogue, add log, objects, nodes of a cluster."""

import base64
import gzip
import json
import struct
from dataclasses import replace

import google_crc32c

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.metadata.layout import Layout
from delayed_tracker.bookkeeper.wire.batch_reads import BATCH_REPLIES, BatchReadRequest, split_bodies
from delayed_tracker.bookkeeper.wire.frames import FrameInvalid
from delayed_tracker.bookkeeper.wire.replies import Reply, Status, good_body, parse_reply
from delayed_tracker.bookkeeper.wire.requests import AddRequests, ReadRequests, reply_header
from delayed_tracker.cluster.cursor_node import CursorNode
from delayed_tracker.cluster.errors import ClusterNodeInvalid
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.values.changes import (
    Added,
    CursorMoved,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.pulsar.v1 import bookie_pb2, managed_ledger_pb2
from delayed_tracker.storage.bookkeeper.log.owners import Owner
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments, encode_snapshot
from delayed_tracker.storage.codec.log_records import ROWS_MAX, decode_change, encode_change
from delayed_tracker.storage.codec.pulsar import encode_metadata, encode_segment
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.objects.snapshot_object import TRAILER_BYTES, read_entries, read_index, read_tail
from delayed_tracker.storage.protocol import LogMark
from delayed_tracker.storage.shared.document import (
    Document,
    Part,
    Reference,
    Row,
    decode_head,
    decode_rows,
    encode_body,
    encode_head,
    encode_row,
)
from delayed_tracker.storage.summary import decode_summary, encode_summary
from tests.golden.pulsar_pack import PACK, metadata_nodes
from tests.property.fuzz.decoder import Decoder
from tests.property.fuzz.mutator import SIZE_MAX

NAME = "a"
LEDGER_DEPTH, TOPIC_DEPTH, CURSOR_DEPTH = 4, 5, 6
"""Parts of the paths of nodes."""
DAMAGE = (SnapshotCorrupt, StorageFormatUnsupported)
ROWS = IndexColumns.of([(1_700_000_060_000 + 900 * row, 5 + row // 12, row) for row in range(40)])
BOUNDS = cut_segments(ROWS.deliver_at_ms, step_ms=60_000, count_max=25)
POSITIONS = PositionColumns(ROWS.ledger_id, ROWS.entry_id)
ASKED = {
    reply_header(request.operation, 5): request
    for request in (ReadRequests(77).of(3), AddRequests(77, bytes(20)).of(3, bytes(36), b"entry"))
}
"""Requests by the header of their reply."""


BATCH = BatchReadRequest(77, 3, 10, 1_000)


def changes() -> list[bytes]:
    given = [Added(ROWS), Rescheduled(ROWS), Removed(POSITIONS)]
    position = Position(5, 7)
    places = (MarkDeleteAdvanced(position), OfferedThrough(position), CursorMoved(Position(4, -1), position))
    return [encode_change(one) for one in (*given, *places)]


def small_change(octets: bytes) -> bytes:
    """Lower a count of rows that is allowed, but takes long."""
    if len(octets) < 5 or not 1_000 < int.from_bytes(octets[1:5], "little") <= ROWS_MAX:
        return octets
    return octets[:1] + (1_000).to_bytes(4, "little") + octets[5:]


def summaries() -> list[bytes]:
    bits = decode_metadata(encode_metadata(ROWS, BOUNDS)).positions()
    return [encode_summary(BOUNDS, bits, 2_000)]


def documents() -> list[bytes]:
    position = Position(5, 7)
    plain = Document(
        "t", "s", bytes(range(16)), (bytes(16),), 3, "w", False, position, LogMark(4, position, "log", position)
    )
    parted = replace(plain, parts=(Part(1, 300, b"key"),))
    found = []
    for document in (plain, parted):
        reference = Reference(1, 0, 20, 7)
        table = [Row(9, position, Position(6, 1), 4, position, b"p", b"summary", reference)]
        filled = replace(document, rows={row.bucket_id: encode_row(document, row) for row in table})
        body = encode_body(filled)
        found.append(encode_head(filled, len(body)) + body)
    return found


def decode_document(octets: bytes) -> object:
    head = decode_head(octets, NAME)
    return decode_rows(head, octets[head.head_bytes :], NAME)


def resealed_document(octets: bytes) -> bytes:
    """Put the checksum of the head where its length says that the head ends."""
    if len(octets) < 24:
        return octets
    (head_bytes,) = struct.unpack_from("<I", octets, 8)
    end = head_bytes - 4
    if not 20 <= end <= len(octets) - 4:
        return octets
    return octets[:end] + struct.pack("<I", google_crc32c.value(octets[:end])) + octets[head_bytes:]


def decode_object(octets: bytes) -> object:
    tail = read_tail(NAME, len(octets), octets)
    index = read_index(NAME, tail, octets)
    return read_entries(NAME, index, 0, tail.entry_count - 1, octets) if tail.entry_count else None


def objects() -> list[bytes]:
    seed = google_crc32c.value(NAME.encode())
    entries = [encode_metadata(ROWS, BOUNDS), encode_segment(ROWS)]
    checksums = [
        google_crc32c.extend(google_crc32c.extend(seed, struct.pack("<I", number)), entry)
        for number, entry in enumerate(entries)
    ]
    index = struct.pack("<4I", *map(len, entries), *checksums)
    payload = b"".join(entries)
    trailer = struct.pack("<IIQH4s", google_crc32c.extend(seed, index), 2, len(payload), 1, b"DTSO")
    return [payload + index + trailer + struct.pack("<I", google_crc32c.extend(seed, trailer))]


def resealed_object(octets: bytes) -> bytes:
    """Put the checksum of the trailer at its end."""
    if len(octets) < TRAILER_BYTES:
        return octets
    checksum = google_crc32c.extend(google_crc32c.value(NAME.encode()), octets[-TRAILER_BYTES:-4])
    return octets[:-4] + struct.pack("<I", checksum)


def nodes(part: str, depth: int) -> list[bytes]:
    """Return values of a real cluster's nodes whose path contains a part, and has so many parts."""
    found = [value for path, value in metadata_nodes().items() if part in path and path.count("/") == depth and value]
    return sorted(set(found), key=lambda value: (len(value), value))[:40]


def cursors() -> list[bytes]:
    info = managed_ledger_pb2.ManagedCursorInfo(cursors_ledger_id=3, mark_delete_ledger_id=4, mark_delete_entry_id=5)
    info.cursor_properties.add(name="#pulsar.internal.delayed.bucket_1_2", value="7")
    return [info.SerializeToString(), *nodes("/persistent/", CURSOR_DEPTH)]


def replies() -> list[bytes]:
    pb, ids = bookie_pb2, {"status": 0, "ledgerId": 77, "entryId": 3}

    def reply(operation: int, **part: object) -> bytes:
        header = pb.BKPacketHeader(version=3, operation=operation, txnId=5)
        encoded: bytes = pb.Response(header=header, status=0, **part).SerializeToString()
        return encoded

    return [
        reply(pb.READ_ENTRY, readResponse=pb.ReadResponse(**ids, body=b"entry", maxLAC=9)),
        reply(pb.READ_ENTRY, readResponse=pb.ReadResponse(**ids, body=bytes(3_900), maxLAC=9)),
        reply(pb.ADD_ENTRY, addResponse=pb.AddResponse(**ids)),
        reply(pb.READ_LAC, readLacResponse=pb.ReadLacResponse(status=0, ledgerId=77, lacBody=b"l", lastEntryBody=b"e")),
    ]


def decode_reply(octets: bytes) -> Reply:
    """Read a reply as a connection does, by comparison with a good one and by protobuf, which have to agree."""
    header_bytes = 2 + octets[1] if len(octets) > 1 else 0
    request = ASKED.get(octets[:header_bytes])
    body = None if request is None else good_body(octets, header_bytes, len(octets), request)
    try:
        reply = parse_reply(octets)
    except FrameInvalid:
        assert body is None
        raise
    if request is not None and body is not None:
        found = (reply.operation, reply.status, reply.ledger_id, reply.entry_id, reply.body or b"")
        assert found == (request.operation, Status.OK, 77, 3, body)
    return reply


def batch_replies() -> list[bytes]:
    head = struct.Struct(">BBHiqqq")
    bodies = (bytes(36) + b"entry", bytes(400), b"")
    entries = b"".join(struct.pack(">i", len(body)) + body for body in bodies)
    return [head.pack(2, 7, 0, 0, 77, 3, 5) + entries, head.pack(2, 7, 0, 2, 77, 3, 5)]


def decode_batch_reply(octets: bytes) -> Reply:
    """Read a reply as a connection for batch reads does, both ways as :func:`decode_reply`."""
    start, end = BATCH_REPLIES.header_bounds(octets, 0, len(octets))
    body = None if octets[start:end] != bytes(7) + b"\x05" else BATCH_REPLIES.good_body(octets, end, len(octets), BATCH)
    try:
        reply = BATCH_REPLIES.parse(octets)
    except FrameInvalid:
        assert body is None
        raise
    if body is not None:
        assert reply == Reply(5, BATCH.operation, Status.OK, 77, 3, body)
    split = split_bodies(reply.body or b"", 10)
    assert sum(len(each) + 4 for each in split) <= len(reply.body or b"")
    return reply


def buckets() -> tuple[list[bytes], list[bytes]]:
    """Return metadata and segments that a real Pulsar wrote."""
    with gzip.open(PACK / "buckets" / "entries.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    small = [(row["entry"], base64.b64decode(row["payload"])) for row in rows]
    small = [row for row in small if len(row[1]) < SIZE_MAX]
    return [octets for entry, octets in small if not entry][:20], [octets for entry, octets in small if entry][:20]


def columnar_entries() -> list[bytes]:
    """Return metadata, then segments, of one ledger and of several."""
    snapshot = encode_snapshot(
        SnapshotCodec.COLUMNAR,
        SealedIndexes(ROWS, BOUNDS, Position(5, 0), Position(8, 39)),
        PositionBitmap.of(POSITIONS),
    )
    return [snapshot.metadata, *snapshot.segments]


DECODERS = (
    Decoder("segment of a snapshot", lambda octets: decode_segments([octets]), DAMAGE, lambda: [encode_segment(ROWS), *buckets()[1]]),
    Decoder("metadata of a snapshot", decode_metadata, DAMAGE, lambda: [encode_metadata(ROWS, BOUNDS), *buckets()[0]]),
    Decoder("columnar segment", lambda octets: decode_segments([octets]), DAMAGE, lambda: columnar_entries()[1:]),
    Decoder("columnar metadata", decode_metadata, DAMAGE, lambda: columnar_entries()[:1]),
    Decoder("summary of a bucket", decode_summary, DAMAGE, summaries),
    Decoder("record of the add log", decode_change, DAMAGE, changes, small_change),
    Decoder("catalogue document", decode_document, DAMAGE, documents, resealed_document),
    Decoder("snapshot object", decode_object, DAMAGE, objects, resealed_object),
    Decoder("owner of a tracker", lambda octets: Owner.parse(NAME, octets, 0), (SnapshotCorrupt,), lambda: [
        b'{"epoch": 3, "writer": "w", "instance": "0011223344556677", "moving": false}'
    ]),
    Decoder("cursor of a subscription", CursorNode.decode, (ClusterNodeInvalid,), cursors),
    Decoder("layout of ledgers", Layout.parse, (LedgerMetadataInvalid,), lambda: [
        b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1", b"2\nhierarchical:1", b"1\nflat:1"
    ]),
    Decoder("reply of a bookie", decode_reply, (FrameInvalid,), replies),
    Decoder("reply to a batch read", decode_batch_reply, (FrameInvalid,), batch_replies),
)  # fmt: skip
