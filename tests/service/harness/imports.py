"""Snapshots from another writer, the requests that import them, and the content of the service before and after."""

from collections.abc import AsyncIterator, Iterable

import google_crc32c

from delayed_tracker.client.aio.calls import upload
from delayed_tracker.client.queues.importing import SnapshotToImport, import_header, import_requests
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, poll, stats_of
from tests.service.harness.shell import KEY, elapse, settle

FAR_MS = 1_000_000
"""Distance, in milliseconds, of deadlines that must stay in the future."""


def entries_of(rows: Iterable[tuple[int, int, int]], *, step_ms=1_000, count_max=3) -> list[bytes]:
    """Return metadata and segments of (deliver at, ledger, entry) rows."""
    indexes = IndexColumns.of(sorted(rows))
    positions = indexes.positions
    bounds = cut_segments(indexes.deliver_at_ms, step_ms=step_ms, count_max=count_max)
    encoded = encode_snapshot(SealedIndexes(indexes, bounds, *_range(positions)))
    return [encoded.metadata, *encoded.segments]


def _range(positions) -> tuple[Position, Position]:
    rows = sorted(zip(positions.ledger_id.tolist(), positions.entry_id.tolist(), strict=True))
    return Position(*rows[0]), Position(*rows[-1])


def snapshot(*rows: tuple[int, int, int], **cut) -> SnapshotToImport:
    """Return a bucket of (deliver at, ledger, entry) rows."""
    entries = entries_of(rows, **cut)
    places = sorted(Position(ledger, entry) for _, ledger, entry in rows)
    checked = [(entry, google_crc32c.value(entry)) for entry in entries]
    return SnapshotToImport(places[0], places[-1], len(entries), checked)


def requests(*snapshots: SnapshotToImport, **header) -> list[pb.ImportSnapshotsRequest]:
    """Return all requests of a client."""
    terms = {
        "owner": "importer",
        "bucket_count": len(snapshots),
        "expected_epoch": None,
        "mark_delete": None,
        **header,
    }
    return list(import_requests(import_header(REF.topic, REF.subscription, **terms), snapshots))


async def sent(*snapshots: SnapshotToImport, **header) -> AsyncIterator[pb.ImportSnapshotsRequest]:
    """Yield the same requests as a stream for the service."""
    for request in requests(*snapshots, **header):
        yield request


async def used(service, epoch):
    """Open a tracker with a stored bucket of ledger 1, one position in memory and a leased one."""
    now = service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, *((now + FAR_MS, 1, entry) for entry in range(5)), (now + 5, 2, 0)))
    await settle()
    await elapse(service.clock, 5)
    polled = await service.stub.PollScheduledMessages(poll(epoch))
    await service.stub.AddMessages(add(epoch, (now + FAR_MS, 2, 1)))
    assert polled.entry_ids == [0]
    return polled.lease_id


def imported(service, sent):
    return upload(service.stub.ImportSnapshots(), iter(sent))


async def catalogued(service):
    return await service.storage.inner.list(*KEY)


async def stored_ids(service):
    return {found.bucket_id for found in await service.storage.inner.list_bucket_snapshots(*KEY)}


async def world(service):
    """Return all that a failed import must not change."""
    stats = await stats_of(service)
    state = await catalogued(service)
    return stats, state.entries, state.epoch, await stored_ids(service)
