"""Quotas of a running service: what is refused, with which delay, and what is not touched."""

import contextlib
import json

import grpc
import pytest
from grpc_reflection.v1alpha.reflection_pb2 import ServerReflectionRequest
from grpc_reflection.v1alpha.reflection_pb2_grpc import ServerReflectionStub

from delayed_tracker.client import Overloaded
from delayed_tracker.client.errors import call_error
from delayed_tracker.v1 import tracker_pb2
from tests.service.metrics.scraping import parsed
from tests.service.security.secured import RULES, SUBSCRIPTION, TOPIC, secured
from tests.service.security.tokens import bearer, token

REF = tracker_pb2.TrackerRef(topic=TOPIC, subscription=SUBSCRIPTION)
OTHER = tracker_pb2.TrackerRef(topic=TOPIC, subscription="other")
FAR = 4_000_000_000_000
WIDE = [*RULES, {"role": "shop", "topic": TOPIC, "actions": ["dispatch"]}]


@contextlib.asynccontextmanager
async def limited(tmp_path, quota, **changes):
    """Run a service with a quota for the role shop."""
    path = tmp_path / "quotas.json"
    path.write_text(json.dumps({"roles": {"shop": quota}}))
    async with secured(tmp_path, WIDE, quotas_file_path=str(path), **changes) as service:
        yield service


def adding(epoch, count, first=0):
    entries = range(first, first + count)
    return tracker_pb2.AddMessagesRequest(
        tracker=REF, epoch=epoch, ledger_ids=[1] * count, entry_ids=entries, deliver_at_ms=[FAR] * count
    )


async def refusal(call) -> Overloaded:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return overloaded(refused.value)


def overloaded(refused: grpc.aio.AioRpcError) -> Overloaded:
    """Return the error of a call that was refused because of the quota."""
    assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    error = call_error(refused)
    assert isinstance(error, Overloaded)
    assert (error.reason, error.metadata["principal"]) == ("QUOTA_EXCEEDED", "shop")
    return error


async def until_refused(method, request) -> Overloaded:
    """Make a call until the quota has no room for it, and return the error."""
    while True:
        try:
            await method(request)
        except grpc.aio.AioRpcError as error:
            return overloaded(error)


async def test_calls_above_the_rate_are_refused_and_other_principals_are_not(tmp_path):
    """The refusal has the time to wait; other principals, health and the limits of the service are not concerned."""
    async with limited(tmp_path, {"callsPerSecond": 1}) as service, service.trackers(token("shop")) as calls:
        await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))
        # The rate lets a call pass after each second for which the machine stands still.
        error = await until_refused(calls.GetTrackerStats, tracker_pb2.GetTrackerStatsRequest(tracker=REF))
        assert error.metadata["limit"] == "callsPerSecond"
        assert 0 < error.retry_after_s <= 1
        async with service.http(token("shop")) as client:
            while (answer := await client.get("/metrics")).status_code == 403:
                pass
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        async with service.trackers(token("root")) as others:
            for _ in range(5):
                await others.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=REF))
        async with service.http(token("prometheus")) as client:
            samples = parsed((await client.get("/metrics")).text)
        assert samples["delayed_tracker_quota_refused_calls_total", "limit=callsPerSecond"] == 2


async def test_indexes_of_requests_and_of_polls_count(tmp_path):
    """A large batch passes whole, and the next call waits for as long as its indexes take."""
    async with limited(tmp_path, {"indexesPerSecond": 10}) as service, service.trackers(token("shop")) as calls:
        epoch = (await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch
        assert (await calls.AddMessages(adding(epoch, 1_000))).added_count == 1_000
        error = await refusal(calls.AddMessages(adding(epoch, 1, first=1_000)))
        assert error.metadata["limit"] == "indexesPerSecond"
        assert 90 < error.retry_after_s <= 100


async def test_pending_indexes_have_a_bound_and_consumption_makes_room(tmp_path):
    """Adds above the bound are refused, all other calls go on."""
    async with limited(tmp_path, {"pendingIndexesMax": 100}) as service, service.trackers(token("shop")) as calls:
        epoch = (await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch
        await calls.AddMessages(adding(epoch, 100))
        error = await refusal(calls.AddMessages(adding(epoch, 1, first=100)))
        assert error.metadata["limit"] == "pendingIndexesMax"
        stream = calls.AddMessagesStream()
        await stream.write(tracker_pb2.AddMessagesStreamRequest(add=adding(epoch, 1, first=100)))
        assert await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        cleared = await calls.ClearMessages(tracker_pb2.ClearMessagesRequest(tracker=REF, epoch=epoch))
        assert cleared.cleared_count == 100
        while True:
            try:
                added = await calls.AddMessages(adding(cleared.epoch, 1, first=100))
            except grpc.aio.AioRpcError:
                continue
            assert added.added_count == 1
            break


async def test_open_trackers_have_a_bound(tmp_path):
    """A tracker that another principal took over, or that is closed, counts no more."""
    async with limited(tmp_path, {"openTrackersMax": 1}) as service, service.trackers(token("shop")) as calls:
        of_first = tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests")
        of_second = tracker_pb2.OpenTrackerRequest(tracker=OTHER, owner="tests")
        await calls.OpenTracker(of_first)
        epoch = (await calls.OpenTracker(of_first)).epoch
        assert (await refusal(calls.OpenTracker(of_second))).metadata["limit"] == "openTrackersMax"
        await calls.CloseTracker(tracker_pb2.CloseTrackerRequest(tracker=REF, epoch=epoch))
        await calls.OpenTracker(of_second)
        async with service.trackers(token("root")) as others:
            await others.OpenTracker(of_second)
        await calls.OpenTracker(of_first)


async def begun_stream(calls, epoch, entry):
    """Return a stream of adds that the service has begun, and that is idle now."""
    stream = calls.AddMessagesStream()
    await stream.write(tracker_pb2.AddMessagesStreamRequest(add=adding(epoch, 1, first=entry)))
    assert (await stream.read()).added.added_count == 1
    return stream


async def test_idle_streams_of_one_principal_leave_room_for_others(tmp_path):
    """Streams above the quota are refused by its name, below the limit that all share; one that ends makes room."""
    quota = {"callsInFlightMax": 4}
    async with limited(tmp_path, quota, grpc_streams_max=5) as service, service.trackers(token("shop")) as calls:
        epoch = (await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch
        held = [await begun_stream(calls, epoch, entry) for entry in range(4)]
        for _ in range(20):
            with pytest.raises(grpc.aio.AioRpcError, match="callsInFlightMax"):
                await calls.AddMessagesStream().read()
        error = await refusal(calls.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=REF)))
        assert error.metadata["limit"] == "callsInFlightMax"
        assert error.retry_after_s > 0
        async with service.trackers(token("root")) as others:
            await begun_stream(others, epoch, 4)
        async with service.http(token("shop")) as client:
            assert (await client.get("/metrics")).status_code == 429
        await held[0].done_writing()
        assert await held[0].code() is grpc.StatusCode.OK
        await calls.GetTrackerStats(tracker_pb2.GetTrackerStatsRequest(tracker=REF))
        await held[1].write(tracker_pb2.AddMessagesStreamRequest(add=adding(epoch + 9, 1)))
        assert await held[1].code() is not grpc.StatusCode.OK
        async with service.http(token("prometheus")) as client:
            samples = parsed((await client.get("/metrics")).text)
        assert samples["delayed_tracker_quota_refused_calls_total", "limit=callsInFlightMax"] == 22


async def answered(method, request):
    """Make a call until the quota has room for it: the service notices a cancellation by and by."""
    while True:
        try:
            return await method(request)
        except grpc.aio.AioRpcError as error:
            if "callsInFlightMax" not in error.details():
                raise


async def test_no_end_of_a_call_leaves_it_in_flight(tmp_path):
    """The only call that may be in flight ends with an answer, an error or a cancellation, and the next one is made."""
    quota = {"callsInFlightMax": 1}
    async with limited(tmp_path, quota) as service, service.trackers(token("shop")) as calls:
        epoch = (await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch
        stats = tracker_pb2.GetTrackerStatsRequest(tracker=REF)
        forbidden = tracker_pb2.GetTrackerStatsRequest(tracker=tracker_pb2.TrackerRef(topic=TOPIC + "s"))
        fenced = tracker_pb2.ClearMessagesRequest(tracker=REF, epoch=epoch + 9)
        for entry in range(2):
            for method, request in ((calls.GetTrackerStats, forbidden), (calls.ClearMessages, fenced)):
                with pytest.raises(grpc.aio.AioRpcError) as failed:
                    await method(request)
                assert failed.value.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED
            async with service.http(token("shop")) as client:
                assert (await client.get("/metrics")).status_code == 403
                assert (await client.get("/no-such-route")).status_code == 404
            stream = await begun_stream(calls, epoch, entry)
            stream.cancel()
            await answered(calls.GetTrackerStats, stats)
            polling = calls.PollScheduledMessages(
                tracker_pb2.PollScheduledMessagesRequest(tracker=REF, epoch=epoch, max_messages=1, wait_ms=20_000)
            )
            error = await until_refused(calls.GetTrackerStats, stats)
            assert error.metadata["limit"] == "callsInFlightMax"
            assert not polling.done()
            polling.cancel()
            await answered(calls.GetTrackerStats, stats)


async def test_reflection_is_a_call_in_flight(tmp_path):
    """A stream of reflection counts until it ends."""
    stats = tracker_pb2.GetTrackerStatsRequest(tracker=REF)
    async with limited(tmp_path, {"callsInFlightMax": 1}) as service, service.trackers(token("shop")) as calls:
        await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))
        async with service.channel() as channel:
            stream = ServerReflectionStub(channel).ServerReflectionInfo(
                metadata=(("authorization", bearer(token("shop"))),)
            )
            await stream.write(ServerReflectionRequest(list_services=""))
            assert (await stream.read()).list_services_response.service
            assert (await refusal(calls.GetTrackerStats(stats))).metadata["limit"] == "callsInFlightMax"
            await stream.done_writing()
            assert await stream.code() is grpc.StatusCode.OK
            await calls.GetTrackerStats(stats)


async def test_a_stream_is_slowed_down_to_its_rate(tmp_path):
    """Requests of a stream wait unread. They are all added, at the rate."""
    async with limited(tmp_path, {"callsPerSecond": 20}) as service, service.trackers(token("shop")) as calls:
        epoch = (await calls.OpenTracker(tracker_pb2.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch
        clock = service.server.trackers.clock
        begun_ms, added = clock.elapsed_ms(), 0
        stream = calls.AddMessagesStream()
        for number in range(40):
            await stream.write(tracker_pb2.AddMessagesStreamRequest(add=adding(epoch, 1, first=number)))
        await stream.done_writing()
        async for answer in stream:
            added += answer.added.added_count
        assert added == 40
        assert clock.elapsed_ms() - begun_ms >= 1_000 * (40 - 20) / 20


@pytest.mark.slow
async def test_a_changed_file_is_in_force_without_a_restart(tmp_path):
    """A broken file leaves the quotas of before, and the metrics say so."""
    async with limited(tmp_path, {"callsPerSecond": 1}) as service, service.trackers(token("shop")) as calls:
        path = tmp_path / "quotas.json"

        async def stale():
            async with service.http(token("prometheus")) as client:
                samples = parsed((await client.get("/metrics")).text)
            return samples["delayed_tracker_security_stale", "kind=quotas"]

        path.write_text("{")
        while not await stale():
            pass
        path.write_text('{"roles": {"shop": {"callsPerSecond": 100000}}}')
        while await stale():
            pass
        for _ in range(20):
            await calls.ListTrackers(tracker_pb2.ListTrackersRequest())
