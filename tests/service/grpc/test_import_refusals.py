"""Imports that contradict themselves or their announcement: each is refused whole, and nothing changes."""

import asyncio
import re

import google_crc32c
import grpc
import pytest

from delayed_tracker.service.grpc.import_stream import CHECKED_AT_ONCE, ImportStream
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.imports import FAR_MS, entries_of, imported, requests, used, world
from tests.service.harness.rpc import REF, opened, refused
from tests.service.harness.shell import running_service, settle


@pytest.fixture(params=list(SnapshotCodec))
async def service(request):
    """Return a service that stores what it imports in either codec."""
    async with running_service(service_limits=ServiceLimits(snapshot_codec=request.param)) as running:
        yield running


def _without(number):
    return lambda sent: sent[:number] + sent[number + 1 :]


def _flip(entry):
    def change(sent):
        encoded = bytearray(sent[2].entries.entries[entry])
        encoded[-1] ^= 1
        sent[2].entries.entries[entry] = bytes(encoded)
        return sent

    return change


def _set(path, value):
    def change(sent):
        *owners, field = path.split(".")
        message = sent[1 if owners[0] == "bucket" else 0]
        for owner in owners:
            message = getattr(message, owner)
        setattr(message, field, value)
        return sent

    return change


WRONG_STREAMS = {
    "nothing": (lambda _: [], "the stream ended before its header"),
    "no header": (_without(0), "send the header that belongs here"),
    "no end": (lambda sent: sent[:-1], "the stream ended before its end"),
    "cut short": (lambda sent: sent[:2], "the stream ended before its entries"),
    "a bucket is missing": (lambda sent: sent[:3], "the stream ended before its bucket"),
    "no description": (_without(1), "send the bucket that belongs here"),
    "an end too early": (lambda sent: [*sent[:3], sent[-1]], "send the bucket that belongs here"),
    "flipped metadata": (_flip(0), "entry 0 of bucket 0 fails its checksum"),
    "flipped segment": (_flip(2), "entry 2 of bucket 0 fails its checksum"),
    "order": (lambda sent: [sent[0], *sent[3:5], *sent[1:3], sent[5]], "bucket 1 begins at 10:0"),
    "no entries": (_set("bucket.entry_count", 0), "count the metadata and every segment"),
    "fewer entries": (_set("bucket.entry_count", 3), "give 1 to 3, which is what is missing"),
    "other range": (_set("bucket.last.entry_id", 7), "its positions are 10:0 to 10:6"),
    "negative": (_set("bucket.first.ledger_id", -1), "bucket.first.ledger_id"),
    "too many buckets": (_set("header.bucket_count", 100_001), "give at most 100000"),
    "no owner": (_set("header.owner", ""), "owner"),
}


@pytest.mark.parametrize("case", WRONG_STREAMS)
async def test_a_wrong_stream_changes_nothing(service, two, case):
    """The import is refused with the reason, and its stored snapshots are deleted."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    change, fault = WRONG_STREAMS[case]
    error, info, _ = await refused(imported(service, change(requests(*two))))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert info.reason in {"INVALID_INPUT", "IMPORT_REJECTED"}
    assert fault in error.details()
    await settle()
    assert await world(service) == before
    assert not service.registry.imports


def _rows(far):
    return [(far + 400 * entry, 10, entry) for entry in range(7)]


def _wrong_bucket(case, far):
    """Return entries that contradict each other, with correct checksums."""
    entries = entries_of(_rows(far))
    other = entries_of([(at_ms + 1, ledger, entry) for at_ms, ledger, entry in _rows(far)])
    match case:
        case "metadata is none":
            return [b"\xff\xff", *entries[1:]]
        case "segments of others":
            return [entries[0], *other[1:]]
        case "a segment is none":
            return [*entries[:2], b"\x0a\x05\xff", *entries[3:]]
        case "a row less":
            return [*entries[:-2], *entries_of(_rows(far)[3:5], count_max=9)[1:], entries[-1]]
        case "order":
            return [entries[0], entries[2], entries[1], *entries[3:]]
        case "twice":
            return entries_of([*_rows(far), (far + 90_000, 10, 0)])
        case "another form":
            # An unknown field is valid protobuf, but the service does not write it.
            return [*entries[:-1], entries[-1] + b"\x98\x06\x01"]
        case "more metadata":
            return [entries[0] + other[0], *entries[1:], *other[1:]]
    raise AssertionError(case)


WRONG_BUCKETS = {
    "metadata is none": "do not decode",
    "segments of others": "are not those of its metadata",
    "a segment is none": "do not decode",
    "a row less": "rows where the metadata counts",
    "order": "are not those of its metadata",
    "twice": "it holds a position twice",
    "another form": "not encoded as this service encodes them",
    "more metadata": "do not ascend|it holds a position twice",
}
"""Faults by case, as patterns; with the columnar codec positions are counted first."""


@pytest.mark.parametrize("case", WRONG_BUCKETS)
async def test_a_bucket_that_contradicts_itself_changes_nothing(service, two, case):
    """A bucket is refused even if every checksum is correct."""
    epoch = await opened(service)
    await used(service, epoch)
    before = await world(service)
    sent = requests(*two)
    entries = _wrong_bucket(case, service.clock.now_ms() + FAR_MS)
    sent[1].bucket.entry_count = len(entries)
    del sent[2].entries.entries[:], sent[2].entries.crc32c[:]
    sent[2:3] = _alone(entries)
    error, info, _ = await refused(imported(service, sent))
    assert (error.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "IMPORT_REJECTED")
    assert re.search(WRONG_BUCKETS[case], error.details())
    await settle()
    assert await world(service) == before


def _alone(entries):
    """Return every entry as a part of its own."""
    return [
        pb.ImportSnapshotsRequest(entries=pb.ImportedEntries(entries=[entry], crc32c=[google_crc32c.value(entry)]))
        for entry in entries
    ]


async def test_entries_may_come_in_any_portions(service, two):
    """Entries may arrive one by one or all at once."""
    sent = requests(two[0])
    sent[2:3] = _alone(list(sent[2].entries.entries))
    assert (await imported(service, sent)).tracked_count == 7


async def _sent(*parts):
    for part in parts:
        yield part


async def test_other_calls_go_on_while_many_entries_are_checked():
    """The event loop has a turn after each few thousand entries of one request."""
    turns = 4
    entries = [b""] * (turns * CHECKED_AT_ONCE)
    header = pb.ImportHeader(tracker=REF, owner="importer", bucket_count=1)
    stream = ImportStream(
        _sent(
            pb.ImportSnapshotsRequest(header=header),
            pb.ImportSnapshotsRequest(bucket=pb.ImportedBucket(entry_count=len(entries))),
            pb.ImportSnapshotsRequest(entries=pb.ImportedEntries(entries=entries, crc32c=[0] * len(entries))),
            pb.ImportSnapshotsRequest(end=pb.ImportEnd()),
        )
    )
    await stream.terms()
    turn_count = 0

    async def count_turns():
        nonlocal turn_count
        while True:
            turn_count += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    async for bucket in stream.buckets():
        assert [len(part) async for part in bucket.entries] == [len(entries)]
    counting.cancel()
    assert turn_count == turns
