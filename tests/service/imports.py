"""Snapshots as somebody else makes them, and the requests that bring them to the service."""

from collections.abc import AsyncIterator, Iterable

import google_crc32c

from delayed_tracker.v1 import tracker_pb2 as pb
from snapshot_storage.codec import encode_snapshot
from tests.service.rpc import REF
from tracker.client.importing import SnapshotToImport, import_header, import_requests
from tracker.core.columns import IndexColumns, Position
from tracker.core.seal import SealedIndexes
from tracker.core.segment import cut_segments


def entries_of(rows: Iterable[tuple[int, int, int]], *, step_ms=1_000, count_max=3) -> list[bytes]:
    """Metadata and segments of (deliver at, ledger, entry) rows."""
    indexes = IndexColumns.of(sorted(rows))
    positions = indexes.positions
    bounds = cut_segments(indexes.deliver_at_ms, step_ms=step_ms, count_max=count_max)
    encoded = encode_snapshot(SealedIndexes(indexes, bounds, *_range(positions)))
    return [encoded.metadata, *encoded.segments]


def _range(positions) -> tuple[Position, Position]:
    rows = sorted(zip(positions.ledger_id.tolist(), positions.entry_id.tolist(), strict=True))
    return Position(*rows[0]), Position(*rows[-1])


def snapshot(*rows: tuple[int, int, int], **cut) -> SnapshotToImport:
    """A bucket of (deliver at, ledger, entry) rows."""
    entries = entries_of(rows, **cut)
    places = sorted(Position(ledger, entry) for _, ledger, entry in rows)
    checked = [(entry, google_crc32c.value(entry)) for entry in entries]
    return SnapshotToImport(places[0], places[-1], len(entries), checked)


def requests(*snapshots: SnapshotToImport, **header) -> list[pb.ImportSnapshotsRequest]:
    """Everything that a client sends."""
    terms = {
        "owner": "importer",
        "bucket_count": len(snapshots),
        "expected_epoch": None,
        "mark_delete": None,
        **header,
    }
    return list(import_requests(import_header(REF.topic, REF.subscription, **terms), snapshots))


async def sent(*snapshots: SnapshotToImport, **header) -> AsyncIterator[pb.ImportSnapshotsRequest]:
    """The same as a stream that the service reads."""
    for request in requests(*snapshots, **header):
        yield request
