"""Repeated fields with far more values than a call may have: refused by their number, and never converted."""

import tracemalloc

import grpc
import pytest

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.queries.entry_ranges import RANGES_MAX
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.calls import ACKS_MAX
from delayed_tracker.wire.column_fields import varint
from tests.service.harness.rpc import REF, opened, poll, refused
from tests.service.harness.shell import running_service

COUNT = 100_000
POLL_MAX = ServiceLimits().poll_messages_max
PEAK_BYTES_MAX = 4 * 2**20
"""Python's memory for one request of at most 200 KB and all its copies. As Python objects, the values take more."""


@pytest.fixture
async def service():
    async with running_service() as running:
        yield running


def _empty_messages(request, field):
    tag = bytes((request.DESCRIPTOR.fields_by_name[field].number << 3 | 2, 0))
    return request.SerializeToString() + tag * COUNT


def _zeros(request, field):
    tag = bytes((request.DESCRIPTOR.fields_by_name[field].number << 3 | 2,))
    return request.SerializeToString() + tag + varint(COUNT) + bytes(COUNT)


@pytest.mark.parametrize(
    ("method", "request_of", "field", "limit"),
    [
        (
            "FilterEntries",
            lambda _: _empty_messages(pb.FilterEntriesRequest(tracker=REF), "ranges"),
            "ranges",
            f"1 to {RANGES_MAX}",
        ),
        (
            "PollScheduledMessages",
            lambda epoch: _zeros(poll(epoch), "share_messages"),
            "share_messages",
            f"at most {POLL_MAX}",
        ),
        (
            "AckMessages",
            lambda epoch: _empty_messages(pb.AckMessagesRequest(tracker=REF, epoch=epoch), "leases"),
            "leases",
            f"at most {ACKS_MAX}",
        ),
    ],
)
async def test_too_many_values_are_refused_before_they_are_converted(service, method, request_of, field, limit):
    """The error has the field, the number of its values and the limit."""
    encoded = request_of(await opened(service))
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.unary_unary(f"/delayed_tracker.v1.DelayedDeliveryTrackerService/{method}")
        tracemalloc.start()
        try:
            error, info, details = await refused(call(encoded))
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (error.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert [row.field for row in details["BadRequest"].field_violations] == [field]
    assert str(COUNT) in error.details()
    assert f"give {limit}" in error.details()
    assert peak_bytes < PEAK_BYTES_MAX


@pytest.mark.parametrize(
    ("method", "bytes_max"),
    [("FilterEntries", 262_144), ("PollScheduledMessages", 175_536), ("AckMessages", 3_697_536)],
)
async def test_a_request_that_is_too_large_for_its_rows_is_not_parsed(service, method, bytes_max):
    """Bytes that are no message show that only their number was looked at."""
    encoded = b"\xff" * (bytes_max + 1)
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.unary_unary(f"/delayed_tracker.v1.DelayedDeliveryTrackerService/{method}")
        error, info, _ = await refused(call(encoded))
    assert info.reason == "INVALID_INPUT"
    assert error.details() == f"request: '{bytes_max + 1} bytes' is not valid; send at most {bytes_max} bytes"


@pytest.mark.parametrize(
    ("field", "part"),
    [
        ("entries", lambda: pb.ImportSnapshotsRequest(entries=pb.ImportedEntries(entries=[b""] * COUNT))),
        ("part", lambda: b"\x1a\x00\x22\x00" * COUNT),
    ],
)
async def test_empty_parts_of_an_import_are_refused(service, field, part):
    """Protobuf keeps all of them until the message is gone."""
    sent = part()
    encoded = sent if isinstance(sent, bytes) else sent.SerializeToString()
    async with grpc.aio.insecure_channel(service.address) as channel:
        call = channel.stream_unary("/delayed_tracker.v1.DelayedDeliveryTrackerService/ImportSnapshots")
        error, info, details = await refused(call(iter([encoded])))
    assert (error.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert [row.field for row in details["BadRequest"].field_violations] == [field]


async def test_an_ack_with_too_many_positions_learns_how_many_it_may_have(service):
    """Twice too many are still counted."""
    epoch = await opened(service)
    count = 2 * ServiceLimits().batch_max
    request = pb.AckMessagesRequest(
        tracker=REF, epoch=epoch, lease_id=1, ledger_ids=[1] * count, entry_ids=range(count)
    )
    _, info, _ = await refused(service.stub.AckMessages(request))
    assert (info.reason, info.metadata["limit"]) == ("BATCH_TOO_LARGE", str(ServiceLimits().batch_max))


async def test_the_largest_legal_request_for_ranges_is_answered(service):
    """The numbers are as long as they may be."""
    await opened(service)
    widest = pb.EntryRange(ledger_id=2**63 - 1, first_entry_id=2**32 - 1, last_entry_id=2**32 - 1)
    answer = await service.stub.FilterEntries(pb.FilterEntriesRequest(tracker=REF, ranges=[widest] * RANGES_MAX))
    assert len(answer.ranges) == RANGES_MAX
