"""Tests of further calls of a dispatcher over both shells: cancel, extend, reset, delete, the discontinuous read."""

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from delayed_tracker.client import EntryRange, InvalidInput, Position, RescheduleResult, Unavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.aio.test_session import failing, reason
from tests.client.conftest import TOPIC


def offsets_of_multiples(number: int, values) -> list[int]:
    return [offset for offset, value in enumerate(values) if value % number == 0]


async def test_a_cancel_answers_each_position(service, session):
    """Five rows are sent in two calls (batch_max is 4), and the offsets count from the first row of all."""

    async def answer(request, context):
        leased = offsets_of_multiples(2, request.entry_ids)
        unknown = offsets_of_multiples(5, request.entry_ids)
        return pb.CancelMessagesResponse(
            cancelled_count=len(request.entry_ids) - len(leased) - len(unknown),
            leased_offsets=leased,
            unknown_offsets=unknown,
        )

    service.on("CancelMessages", answer)
    answer = await session.cancel([3] * 5, [1, 2, 3, 5, 4])
    assert (answer.cancelled_count, answer.leased_offsets, answer.unknown_offsets) == (2, (1, 4), (3,))
    assert [(request.epoch, len(request.ledger_ids)) for request in service.requests_of("CancelMessages")] == [
        (7, 4),
        (7, 1),
    ]


async def test_a_cancel_is_never_repeated(service, session):
    """A cancel is not repeated, because the second answer would list the cancelled positions as unknown."""
    service.on("CancelMessages", failing(grpc.StatusCode.UNAVAILABLE))
    with pytest.raises(Unavailable):
        await session.cancel([1], [1])
    assert len(service.requests_of("CancelMessages")) == 1


async def test_a_reschedule_answers_each_position(service, session):
    """Five rows are sent in two calls (batch_max is 4), and each position has one result."""

    async def answer(request, context):
        unknown = offsets_of_multiples(5, request.entry_ids)
        due = offsets_of_multiples(2, request.entry_ids)
        return pb.RescheduleMessagesResponse(
            rescheduled_count=len(request.entry_ids) - len(unknown), due_offsets=due, unknown_offsets=unknown
        )

    service.on("RescheduleMessages", answer)
    answer = await session.reschedule([9, 8, 7, 6, 5], [3] * 5, [1, 2, 3, 5, 4])
    assert (answer.rescheduled_count, answer.due_offsets, answer.unknown_offsets) == (4, (1, 4), (3,))
    moved, due, unknown = RescheduleResult.RESCHEDULED, RescheduleResult.DUE, RescheduleResult.UNKNOWN
    assert answer.results(5) == [moved, due, moved, unknown, due]
    first, second = service.requests_of("RescheduleMessages")
    assert (first.epoch, list(first.deliver_at_ms), list(first.entry_ids)) == (7, [9, 8, 7, 6], [1, 2, 3, 5])
    assert (second.epoch, list(second.deliver_at_ms), list(second.entry_ids)) == (7, [5], [4])


async def test_a_reschedule_has_a_result_for_each_list(service, session):
    """No list of the answer is lost on its way."""
    message = pb.RescheduleMessagesResponse(
        duplicate_offsets=[3], leased_offsets=[0], unknown_offsets=[1], beyond_max_delay_offsets=[2]
    )
    service.on("RescheduleMessages", message)
    answer = await session.reschedule([9] * 4, [3] * 4, [0, 1, 2, 0])
    assert answer.results(4) == [
        RescheduleResult.LEASED,
        RescheduleResult.UNKNOWN,
        RescheduleResult.BEYOND_MAX_DELAY,
        RescheduleResult.DUPLICATE,
    ]


async def test_a_reschedule_is_repeated(service, session):
    """The second answer is that of the first, so gRPC repeats the call while the service is unavailable."""
    calls = []

    async def answer(request, context):
        calls.append(request)
        if len(calls) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "starting")
        return pb.RescheduleMessagesResponse(rescheduled_count=1)

    service.on("RescheduleMessages", answer)
    assert (await session.reschedule([5], [1], [1])).rescheduled_count == 1
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("field", "offsets", "columns"),
    [
        ("deliver_at_ms", (1,), ([1, -1], [1, 1], [1, 2])),
        ("ledger_ids", (0,), ([1], [2**63], [1])),
        ("entry_ids", (0,), ([1], [1], [2**32])),
        ("deliver_at_ms", (), ([1], [1, 1], [1, 2])),
    ],
)
async def test_a_reschedule_with_wrong_values_is_not_sent(service, session, field, offsets, columns):
    """The error names the column and the offset."""
    with pytest.raises(InvalidInput) as refused:
        await session.reschedule(*columns)
    assert (refused.value.field, refused.value.offsets) == (field, offsets)
    assert service.requests_of("RescheduleMessages") == []


async def test_all_of_a_lease_is_extended_without_naming_it(service, session):
    """An extend without columns extends the whole lease; the earliest expiry of several calls counts."""
    expiries = iter([90, 80, 85])

    async def answer(request, context):
        return pb.ExtendLeaseResponse(
            extended_count=len(request.ledger_ids) or 9, lease_expires_at_ms=next(expiries), stale_offsets=[0]
        )

    service.on("ExtendLease", answer)
    whole = await session.extend(5, 1_000)
    assert (whole.extended_count, whole.expires_at_ms) == (9, 90)
    some = await session.extend(5, 1_000, [1] * 6, range(6))
    assert (some.extended_count, some.expires_at_ms, some.stale_offsets) == (6, 80, (0, 4))
    first, *_ = service.requests_of("ExtendLease")
    assert (first.epoch, first.lease_id, first.lease_ms, list(first.ledger_ids)) == (7, 5, 1_000, [])


@pytest.mark.parametrize("columns", [([], []), ([1], []), ([1], None)])
async def test_an_extend_of_no_positions_is_refused(service, session, columns):
    """An extend of no positions is refused instead of extending the whole lease."""
    with pytest.raises(InvalidInput, match="ledger_ids"):
        await session.extend(5, 1_000, *columns)
    with pytest.raises(InvalidInput, match="lease_ms"):
        await session.extend(5, 0)
    assert service.requests_of("ExtendLease") == []


@pytest.mark.parametrize("mark_delete", [None, Position(3, -1)])
async def test_a_reset_goes_on_under_the_new_epoch(service, session, mark_delete):
    """The answer contains the position to replay from, and later calls carry its epoch."""
    service.on(
        "ResetCursor",
        pb.ResetCursorResponse(epoch=8, cleared_count=4, replay_from=pb.Position(ledger_id=3) if mark_delete else None),
    )
    service.on("SealBucket", pb.SealBucketResponse(sealed_count=2))
    answer = await session.reset_cursor(mark_delete)
    assert answer.cleared_count == 4
    assert answer.replay_from == (Position(3, 0) if mark_delete else None)
    assert await session.seal() == 2
    assert service.requests_of("ResetCursor")[0].HasField("mark_delete") is (mark_delete is not None)
    assert [request.epoch for request in service.requests_of("SealBucket")] == [8]
    with pytest.raises(InvalidInput, match="mark_delete"):
        await session.reset_cursor(Position(-2, 0))


async def test_a_reset_forgets_everything_unless_it_is_told_otherwise(service, session):
    """The index is kept only if the caller says so."""
    service.on("ResetCursor", pb.ResetCursorResponse(epoch=8))
    await session.reset_cursor(Position(3, 1))
    await session.reset_cursor(Position(3, 1), keep_index=True)
    first, second = service.requests_of("ResetCursor")
    assert (first.keep_index, second.keep_index, second.epoch) == (False, True, 8)


async def test_an_owner_deletes_in_its_epoch_and_anybody_without(service, client, session):
    """A delete by the session carries its epoch; a delete by the client carries none."""
    service.on("DeleteTracker", pb.DeleteTrackerResponse(deleted_count=6))
    assert await session.delete() == 6
    assert await client.delete_tracker(TOPIC, "billing") == 6
    first, second = service.requests_of("DeleteTracker")
    assert (first.epoch, second.HasField("epoch")) == (7, False)
    assert (second.tracker.topic, second.tracker.subscription) == (TOPIC, "billing")


async def test_untracked_entries_come_back_as_ranges(service, session):
    """Untracked ranges are returned in the order of the requested ranges."""
    service.on(
        "FilterEntries",
        pb.FilterEntriesResponse(ranges=[pb.EntryRange(ledger_id=4, first_entry_id=0, last_entry_id=6)]),
    )
    assert await session.filter_entries([EntryRange(4, 0, 9)]) == (EntryRange(4, 0, 6),)
    (request,) = service.requests_of("FilterEntries")
    assert [(row.ledger_id, row.first_entry_id, row.last_entry_id) for row in request.ranges] == [(4, 0, 9)]
    assert await session.filter_entries([]) == ()
    with pytest.raises(InvalidInput, match="4:3-2' at offset 1"):
        await session.filter_entries([EntryRange(4, 0, 9), EntryRange(4, 3, 2)])
    assert len(service.requests_of("FilterEntries")) == 1


async def test_polls_hand_on_the_hint_to_pause(service, session):
    """A poll returns the service's hint that all messages have the same delay."""
    service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse(pause_reading=True))
    assert (await session.poll(1)).messages.pause_reading
    assert (await session.poll_hand_off(1)).pause_reading


async def test_a_poll_that_is_repeated_waits_for_the_rest_of_its_time(service, session):
    """Its time limit is that of its wait and of a call: with the whole wait again it would end in the middle of it."""
    waits_ms = []
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=20_000_000))
    refuse = failing(grpc.StatusCode.RESOURCE_EXHAUSTED, reason("OVERLOADED"), retry)

    async def third_time(request, context):
        waits_ms.append(request.wait_ms)
        if len(waits_ms) < 3:
            return await refuse(request, context)
        return pb.PollScheduledMessagesResponse()

    service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse())
    await session.poll(1)  # nothing more is due, so the next poll waits at the service
    service.on("PollScheduledMessages", third_time)
    assert len(await session.poll(1, wait_ms=60_000)) == 0
    assert waits_ms[0] == 60_000
    assert waits_ms[1] <= 59_980
    assert waits_ms[2] <= waits_ms[1] - 20
