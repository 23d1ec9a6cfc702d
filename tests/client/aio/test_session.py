"""Tests of the session with a scripted service."""

import asyncio

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2

from delayed_tracker.client import (
    AddResult,
    BatchTooLarge,
    CallTimedOut,
    Cleared,
    ClientSettings,
    DataLoss,
    DelayedTrackerClient,
    Fenced,
    InvalidArgument,
    InvalidInput,
    Overloaded,
    Position,
    ServiceFault,
    SessionClosed,
    TrackerNotOpen,
    Unavailable,
    WrongEventLoop,
)
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.conftest import TOPIC
from tests.client.harness.scripted_service import abort
from tests.client.harness.shells import Batches

ENDS = [("CloseTracker", pb.CloseTrackerResponse()), ("DeleteTracker", pb.DeleteTrackerResponse(deleted_count=1))]


def reason(word: str, **metadata: str) -> error_details_pb2.ErrorInfo:
    return error_details_pb2.ErrorInfo(domain="delayed-tracker", reason=word, metadata=metadata)


def failing(code: grpc.StatusCode, *details):
    async def answer(request, context):
        await abort(context, code, "the service says no", *details)

    return answer


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("SERVER: Received message larger than max (300 vs. 200)", "request has 300 bytes.*200.*grpcMessageBytesMax"),
        ("Received message larger than max (300 vs. 200)", "request has 300 bytes.*200.*grpcMessageBytesMax"),
        ("SERVER: Sent message larger than max (300 vs. 200)", "answer has 300 bytes.*200.*grpcMessageBytesMax"),
        (
            "Stream removed (CLIENT: Received message larger than max (300 vs. 200))",
            "answer has 300 bytes.*client takes 200",
        ),
    ],
)
async def test_a_message_above_a_size_limit_names_the_limit_and_the_setting(service, session, told, words):
    """A message that gRPC refuses as too large raises BatchTooLarge and not "try again later"."""

    async def refuse(request, context):
        await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, told)

    service.on("AddMessages", refuse)
    with pytest.raises(BatchTooLarge, match=words) as raised:
        await session.add_columns([10], [1], [0])
    assert raised.value.metadata == {"size_bytes": "300", "limit_bytes": "200"}


@pytest.mark.parametrize(
    "told",
    [
        "received metadata size exceeds soft limit (9554 vs. 8192);  :path:99B x-large:9037B",
        "received metadata size exceeds hard limit (value length 9554 vs. 8192)",
        "Stream removed (received metadata size exceeds soft limit (9554 vs. 8192))",
    ],
)
async def test_metadata_above_the_limit_is_no_reason_to_try_again(service, session, told):
    """Metadata that gRPC refuses as too large raises an error with this remedy, although its code means overload."""

    async def refuse(request, context):
        await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, told)

    service.on("AddMessages", refuse)
    with pytest.raises(InvalidArgument, match="has 9554 bytes, and the limit is 8192; send less metadata") as raised:
        await session.add_columns([10], [1], [0])
    assert raised.value.metadata == {"size_bytes": "9554", "limit_bytes": "8192"}


async def test_calls_carry_tracker_and_epoch(service, session):
    """Every mutating call carries the tracker and the epoch of its open."""
    service.on("AddMessages", pb.AddMessagesResponse(added_count=2))
    service.on("AdvanceMarkDelete", pb.AdvanceMarkDeleteResponse(mark_delete=pb.Position(ledger_id=4, entry_id=-1)))
    await session.add_columns([10, 20], [1, 1], [0, 1])
    answer = await session.advance_mark_delete(4, -1)
    assert session.epoch == 7
    assert session.opened.recovered_count == 3
    assert answer.mark_delete == Position(4, -1)
    for method in ("AddMessages", "AdvanceMarkDelete"):
        (request,) = service.requests_of(method)
        assert (request.epoch, request.tracker.topic, request.tracker.subscription) == (7, TOPIC, "billing")
    (added,) = service.requests_of("AddMessages")
    assert (list(added.deliver_at_ms), list(added.ledger_ids), list(added.entry_ids)) == ([10, 20], [1, 1], [0, 1])


async def test_long_columns_travel_in_several_calls_with_offsets_of_the_whole(service, session):
    """Ten rows are sent in three calls (batch_max is 4) and have one answer."""

    async def second_is_due(request, context):
        return pb.AddMessagesResponse(added_count=len(request.ledger_ids) - 1, due_offsets=[1])

    service.on("AddMessages", second_is_due)
    answer = await session.add_columns(range(10), [1] * 10, range(10))
    assert [len(request.ledger_ids) for request in service.requests_of("AddMessages")] == [4, 4, 2]
    assert answer.added_count == 7
    assert answer.due_offsets == (1, 5, 9)
    assert answer.results(10).count(AddResult.DUE) == 3


async def test_a_lower_limit_of_the_service_is_learnt(service, session):
    """After BATCH_TOO_LARGE, which applied nothing, the same rows are sent again in smaller batches."""

    async def two_at_most(request, context):
        if len(request.ledger_ids) > 2:
            await abort(context, grpc.StatusCode.RESOURCE_EXHAUSTED, "too large", reason("BATCH_TOO_LARGE"))
        return pb.AddMessagesResponse(added_count=len(request.ledger_ids))

    service.on("AddMessages", two_at_most)
    assert (await session.add_columns(range(6), [1] * 6, range(6))).added_count == 6
    assert [len(request.ledger_ids) for request in service.requests_of("AddMessages")] == [4, 2, 2, 2]


async def test_a_single_row_that_is_too_large_is_an_error(service, session):
    """A single row that is too large raises the error, because there is no smaller batch."""
    service.on("AddMessages", failing(grpc.StatusCode.RESOURCE_EXHAUSTED, reason("BATCH_TOO_LARGE")))
    with pytest.raises(BatchTooLarge):
        await session.add_columns([1], [1], [1])


async def test_names_that_are_no_text_are_refused(service, session):
    """A name with half a surrogate pair, from bytes that are not UTF-8, is refused with its field."""
    async with DelayedTrackerClient.connect(service.address) as client:
        with pytest.raises(InvalidInput, match="subscription"):
            client.view_tracker(session.topic, "\udcff")
        with pytest.raises(InvalidInput, match="topic"):
            await client.open_tracker("\udcff", "s")
        with pytest.raises(InvalidInput, match="owner"):
            await client.open_tracker("t", "s", owner="\udcff")


async def test_bad_values_are_refused_before_anything_is_sent(service, session):
    """A bad single add is refused at once, so that it does not fail the batch of other adds."""
    with pytest.raises(InvalidInput, match="entry_ids: 4294967296 at offset 1"):
        await session.add_columns([1, 1], [1, 1], [1, 2**32])
    with pytest.raises(InvalidInput, match="deliver_at_ms"):
        await session.add(-1, 1, 1)
    with pytest.raises(InvalidInput, match="max_messages"):
        await session.poll(0)
    with pytest.raises(InvalidInput, match="lease_ms"):
        await session.poll(1, lease_ms=0)
    with pytest.raises(InvalidInput, match=r"mark_delete\.entry_id"):
        await session.advance_mark_delete(1, -2)
    assert [name for name, _ in service.requests] == ["OpenTracker"]


async def test_single_adds_share_a_call(service, shell):
    """Three adds are sent in one request and have three results."""
    service.on("AddMessages", pb.AddMessagesResponse(added_count=2, due_offsets=[1]))
    settings = ClientSettings(flush_count=3, flush_delay_s=3_600.0)
    async with (
        shell.connect(service.address, settings=settings) as client,
        await client.open_tracker(TOPIC, "billing") as session,
    ):
        outcomes = await asyncio.gather(*(session.add(1_000, 1, entry) for entry in range(3)))
    (request,) = service.requests_of("AddMessages")
    assert sorted(request.entry_ids) == [0, 1, 2]
    assert outcomes[request.entry_ids[1]] is AddResult.DUE
    assert outcomes.count(AddResult.ADDED) == 2


async def test_a_poll_is_a_lease(service, session):
    """A poll returns a lease whose context acknowledges under the lease's id."""
    service.on(
        "PollScheduledMessages",
        pb.PollScheduledMessagesResponse(
            lease_id=5,
            lease_expires_at_ms=99,
            deliver_at_ms=[10, 20],
            ledger_ids=[3, 3],
            entry_ids=[1, 2],
            next_delivery_at_ms=40,
            server_time_ms=30,
        ),
    )
    service.on("AckMessages", pb.AckMessagesResponse(acked_count=2, acked_counts=[2]))
    await session.poll_hand_off(1)  # the answer has nothing more due, so the next poll waits
    async with await session.poll(10, wait_ms=250, lease_ms=1_000) as lease:
        assert list(lease.messages) == [(3, 1), (3, 2)]
        assert list(lease.messages.deliver_at_ms) == [10, 20]
        assert (lease.expires_at_ms, lease.messages.next_delivery_at_ms) == (99, 40)
    _, polled = service.requests_of("PollScheduledMessages")
    assert (polled.max_messages, polled.wait_ms, polled.lease_ms, polled.hand_off) == (10, 250, 1_000, False)
    (acked,) = service.requests_of("AckMessages")
    assert list(acked.leases) == [pb.LeaseAck(lease_id=5, held_count=2)]
    assert not acked.lease_id
    assert not acked.ledger_ids


async def test_the_servers_default_lease_is_left_to_the_server(service, session):
    """``lease_ms`` is sent only if it is given."""
    service.on("PollScheduledMessages", pb.PollScheduledMessagesResponse())
    lease = await session.poll(1)
    assert not lease
    assert lease.messages.next_delivery_at_ms is None
    assert not service.requests_of("PollScheduledMessages")[0].HasField("lease_ms")


@pytest.mark.parametrize("hand_off", [True, False])
async def test_polls_are_never_repeated(service, session, hand_off):
    """A failed poll is not repeated by the client: the service receives one request."""
    service.on("PollScheduledMessages", failing(grpc.StatusCode.UNAVAILABLE))
    with pytest.raises(Unavailable):
        await (session.poll_hand_off(1) if hand_off else session.poll(1))
    assert len(service.requests_of("PollScheduledMessages")) == 1
    assert service.requests_of("PollScheduledMessages")[0].hand_off is hand_off


async def test_calls_that_may_be_repeated_are(service, session):
    """An add is repeated after two refusals and succeeds."""
    refusals = iter([True, True])

    async def third_time(request, context):
        if next(refusals, False):
            await context.abort(grpc.StatusCode.UNAVAILABLE, "starting")
        return pb.AddMessagesResponse(added_count=1)

    service.on("AddMessages", third_time)
    assert (await session.add_columns([1], [1], [1])).added_count == 1
    assert len(service.requests_of("AddMessages")) == 3


async def test_an_add_that_finds_no_room_is_made_again(service, session):
    """An add refused as OVERLOADED applied nothing; the session repeats it after the service's pause."""
    refusals = iter([True, True])
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=20_000_000))
    refuse = failing(grpc.StatusCode.RESOURCE_EXHAUSTED, reason("OVERLOADED"), retry)
    loop = asyncio.get_running_loop()
    started_s = loop.time()

    async def third_time(request, context):
        if next(refusals, False):
            return await refuse(request, context)
        return pb.AddMessagesResponse(added_count=1)

    service.on("AddMessages", third_time)
    assert (await session.add_columns([1], [1], [1])).added_count == 1
    assert len(service.requests_of("AddMessages")) == 3
    assert loop.time() - started_s >= 0.04


@pytest.mark.parametrize(
    ("code", "word", "kind"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, "FENCED", Fenced),
        (grpc.StatusCode.ABORTED, "SNAPSHOT_CONFLICT", Fenced),
        (grpc.StatusCode.NOT_FOUND, "TRACKER_NOT_OPEN", TrackerNotOpen),
        (grpc.StatusCode.ABORTED, "CLEARED", Cleared),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "LEASES_EXHAUSTED", Overloaded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "OVERLOADED", Overloaded),
        (grpc.StatusCode.UNAVAILABLE, "RECOVERING", Unavailable),
        (grpc.StatusCode.UNAVAILABLE, "SHUTTING_DOWN", Unavailable),
        (grpc.StatusCode.DATA_LOSS, "SNAPSHOT_CORRUPT", DataLoss),
        (grpc.StatusCode.INTERNAL, "SOMETHING_NEW", ServiceFault),
    ],
)
async def test_reasons_become_exceptions(service, session, code, word, kind):
    """Each reason becomes one exception with the service's message and retry time."""
    # Longer than the call's time limit: it is not repeated.
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=60, nanos=250_000_000))
    service.on("ClearMessages", failing(code, reason(word, owner="somebody"), retry))
    with pytest.raises(kind, match="the service says no") as caught:
        await session.clear()
    assert type(caught.value) is kind
    assert caught.value.reason == word
    assert caught.value.metadata == {"owner": "somebody"}
    assert caught.value.retry_after_s == 60.25


async def test_violations_are_handed_on(service, session):
    """The error of a malformed request contains the fields and their problems."""
    bad = error_details_pb2.BadRequest()
    bad.field_violations.add(field="tracker.topic", description="'': give 1 to 4096 bytes")
    service.on("ClearMessages", failing(grpc.StatusCode.INVALID_ARGUMENT, reason("INVALID_INPUT"), bad))
    with pytest.raises(InvalidArgument) as caught:
        await session.clear()
    assert [(row.field, row.description) for row in caught.value.violations] == [
        ("tracker.topic", "'': give 1 to 4096 bytes")
    ]


async def test_status_codes_without_a_reason_still_become_exceptions(service, session):
    """A status without a reason, as from a proxy, becomes an exception by its code."""
    service.on("ClearMessages", failing(grpc.StatusCode.UNIMPLEMENTED))
    with pytest.raises(ServiceFault, match="no delayed-tracker of this version answers there") as caught:
        await session.clear()
    assert caught.value.reason == "INTERNAL"


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        (grpc.StatusCode.UNAVAILABLE, Unavailable, "the service cannot be reached, or went away during the call"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, CallTimedOut, "no answer in time"),
    ],
)
async def test_what_grpc_says_of_sockets_is_explained(service, session, code, kind, said):
    """The error contains the meaning, gRPC's own message and the remedy."""
    service.on("ClearMessages", failing(code))
    with pytest.raises(kind, match=rf"{said} \(the service says no\); .*try again"):
        await session.clear()


async def test_a_stream_whose_status_was_lost_may_be_begun_again(service, session):
    """GRPC loses the status of a stream that ends while a request is being written: the next call learns the reason."""

    async def refuse(request, context):
        await context.abort(grpc.StatusCode.INTERNAL, "Internal error from Core")

    service.on("ClearMessages", refuse)
    with pytest.raises(Unavailable, match="gRPC lost the reason; make the call again"):
        await session.clear()


async def test_a_call_without_an_answer_ends(service, shell):
    """A call without an answer ends after its time limit."""

    async def never(request, context):
        await asyncio.Event().wait()

    service.on("GetTrackerStats", never)
    settings = ClientSettings(call_timeout_s=0.05)
    async with shell.connect(service.address, settings=settings) as client:
        with pytest.raises(CallTimedOut):
            await client.view_tracker(TOPIC, "billing").stats()


async def test_clear_goes_on_under_the_new_epoch(service, session):
    """Calls after a clear carry the epoch of its answer."""
    service.on("ClearMessages", pb.ClearMessagesResponse(epoch=8, cleared_count=4))
    service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
    assert await session.clear() == 4
    await session.add_columns([1], [1], [1])
    assert service.requests_of("AddMessages")[0].epoch == 8


@pytest.mark.parametrize(("method", "answer"), ENDS, ids=[method for method, _ in ENDS])
async def test_the_end_of_a_session_sends_the_buffer_first(service, shell, method, answer):
    """Buffered adds reach the service before the tracker is unloaded or deleted; later adds are refused."""
    service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
    service.on(method, answer)
    settings = ClientSettings(flush_delay_s=3_600.0)
    async with shell.connect(service.address, settings=settings) as client:
        session = await client.open_tracker(TOPIC, "billing")
        add = asyncio.create_task(session.add(1, 1, 1))
        while not len(session._adds._buffer):  # noqa: ASYNC110  # works with both shells
            await asyncio.sleep(0)
        await (session.close() if method == "CloseTracker" else session.delete())
        assert await add is AddResult.ADDED
        assert [name for name, _ in service.requests] == ["OpenTracker", "AddMessages", method]
        with pytest.raises(SessionClosed, match="open the tracker again"):
            await session.add(1, 1, 2)


async def test_a_client_that_was_closed_makes_no_calls(service, shell):
    """Sessions of a closed client raise SessionClosed."""
    async with shell.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
    with pytest.raises(SessionClosed, match="connect again"):
        await session.stats()
    with pytest.raises(SessionClosed, match="connect again"):
        await anext(aiter(session.add_stream(Batches())))


async def test_nobody_at_the_address_is_said_so(shell):
    """The error of a failed connection contains the address and the remedy."""
    settings = ClientSettings(connect_timeout_s=0.05)
    with pytest.raises(Unavailable, match=r"no service answers at 127\.0\.0\.1:1 within 0\.05 s"):
        async with shell.connect("127.0.0.1:1", settings=settings):
            pass


def test_settings_that_cannot_work_are_refused():
    """The error contains the field and the value."""
    with pytest.raises(InvalidInput, match="batch_max: 0"):
        ClientSettings(batch_max=0)


async def test_a_call_from_another_event_loop_is_refused_and_harms_nobody(service):
    """A call from another event loop sends nothing, and calls of the client's own loop are not affected."""
    service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
    async with DelayedTrackerClient.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
        for call in (
            lambda: session.add(1, 1, 1),
            lambda: session.add_columns([1], [1], [1]),
            lambda: session.poll(1),
            lambda: session.ack(1, [1], [1]),
            session.stats,
        ):
            with pytest.raises(WrongEventLoop, match="run_coroutine_threadsafe"):
                await asyncio.to_thread(asyncio.run, call())
        assert [name for name, _ in service.requests] == ["OpenTracker"]
        assert await session.add(1, 1, 2) is AddResult.ADDED


async def test_a_session_of_a_client_that_was_closed_takes_no_adds(service, shell):
    """A session of a closed client refuses adds in every state of its buffer."""
    async with shell.connect(service.address) as client:
        session = await client.open_tracker(TOPIC, "billing")
    with pytest.raises(SessionClosed, match="connect again"):
        await session.add(1, 1, 1)
