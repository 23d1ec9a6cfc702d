"""Tests of an operator's calls over both shells: peek, explain, histogram, verify and the listing of trackers."""

import grpc
import pytest
from pyroaring import BitMap

from delayed_tracker.client import Cleared, InvalidInput, MessagePlace, Position, SessionClosed, TrackerNotOpen
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.aio.test_session import failing, reason
from tests.client.conftest import TOPIC


@pytest.fixture
def view(client):
    return client.view_tracker(TOPIC, "billing")


async def test_a_peek_takes_nothing(service, view):
    """A peek carries a range of deadlines and no epoch."""
    service.on(
        "PeekMessages",
        pb.PeekMessagesResponse(
            deliver_at_ms=[10, 20], ledger_ids=[3, 3], entry_ids=[1, 2], leased_offsets=[1], truncated=True
        ),
    )
    peeked = await view.peek(2, from_ms=5, until_ms=30)
    assert list(peeked) == [Position(3, 1), Position(3, 2)]
    assert (list(peeked.deliver_at_ms), peeked.leased_offsets, peeked.truncated) == ([10, 20], (1,), True)
    await view.peek(2)
    first, second = service.requests_of("PeekMessages")
    assert (first.from_ms, first.until_ms, first.max_messages, first.tracker.topic) == (5, 30, 2, TOPIC)
    assert not second.HasField("until_ms")
    for wrong in ({"from_ms": -1}, {"until_ms": 2**63}):
        with pytest.raises(InvalidInput):
            await view.peek(1, **wrong)


async def test_an_explanation_has_what_there_is(service, view):
    """Fields that the service leaves out are None."""
    service.on(
        "ExplainMessage",
        pb.ExplainMessageResponse(
            place=pb.MESSAGE_PLACE_UNLOADED_SEGMENT,
            deliver_at_ms=90,
            bucket_id=4,
            segment=0,
            explanation="on disk",
            server_time_ms=7,
        ),
    )
    found = await view.explain(3, 1)
    assert (found.position, found.place) == (Position(3, 1), MessagePlace.UNLOADED_SEGMENT)
    assert (found.deliver_at_ms, found.available_at_ms, found.bucket_id) == (90, None, 4)
    assert (found.segment, found.lease_id, found.explanation) == (0, None, "on disk")
    with pytest.raises(InvalidInput, match="entry_id"):
        await view.explain(3, -1)


@pytest.mark.parametrize("number", [number for number in pb.MessagePlace.values() if number])
async def test_every_place_has_a_name(service, view, number):
    """Every place of the API has a name in the client."""
    service.on("ExplainMessage", pb.ExplainMessageResponse(place=number))
    name = pb.MessagePlace.Name(number).removeprefix("MESSAGE_PLACE_")
    assert (await view.explain(1, 1)).place is MessagePlace[name]


async def test_a_histogram_remembers_its_axis(service, view):
    """A histogram has the start and width of its bars; its total also counts the messages outside the bars."""
    service.on(
        "DeliveryHistogram",
        pb.DeliveryHistogramResponse(before_count=1, counts=[2, 0, 3], after_count=4, estimated_count=3),
    )
    drawn = await view.histogram(from_ms=1_000, step_ms=10, bar_count=3)
    assert (drawn.from_ms, drawn.step_ms, drawn.counts, drawn.total_count) == (1_000, 10, (2, 0, 3), 10)
    assert drawn.estimated_count == 3
    for wrong in ({"from_ms": -1}, {"step_ms": 0}, {"bar_count": 0}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            await view.histogram(**{"from_ms": 0, "step_ms": 1, "bar_count": 1, **wrong})


async def test_snapshots_are_sound_without_problems(service, view):
    """A report is sound with orphans and is not sound with damage."""
    sound = pb.SnapshotVerdict(bucket_id=1, segment_count=2, index_count=30, bytes=400)
    service.on("VerifySnapshots", pb.VerifySnapshotsResponse(snapshots=[sound], orphan_bucket_ids=[9]))
    report = await view.verify()
    assert report.sound
    assert report.orphan_bucket_ids == (9,)
    assert (report.snapshots[0].index_count, report.snapshots[0].snapshot_bytes) == (30, 400)
    bad = pb.SnapshotVerdict(bucket_id=2, problems=["segment 1 is corrupt"])
    service.on("VerifySnapshots", pb.VerifySnapshotsResponse(snapshots=[sound, bad]))
    report = await view.verify()
    assert not report.sound
    assert report.snapshots[1].problems == ("segment 1 is corrupt",)


async def test_trackers_are_listed_page_by_page(service, client):
    """The next page is requested with the previous page's token, and only when the caller needs it."""

    async def page(request, context):
        first = 0 if not request.page_token else int(request.page_token)
        rows = [
            pb.TrackerSummary(tracker=pb.TrackerRef(topic="t", subscription=str(number)), open=number == 1)
            for number in range(first, first + 2)
        ]
        return pb.ListTrackersResponse(trackers=rows, next_page_token="2" if first == 0 else "")

    service.on("ListTrackers", page)
    listed = [tracker async for tracker in client.list_trackers("t", page_size=2)]
    assert [(row.subscription, row.open) for row in listed] == [("0", False), ("1", True), ("2", False), ("3", False)]
    assert [
        (request.topic_prefix, request.page_size, request.page_token) for request in service.requests_of("ListTrackers")
    ] == [
        ("t", 2, ""),
        ("t", 2, "2"),
    ]


async def test_reads_of_a_tracker_that_nobody_opened_say_so(service, view):
    """A read of a tracker that is not open raises TrackerNotOpen."""
    for method in ("PeekMessages", "ExplainMessage", "DeliveryHistogram", "VerifySnapshots"):
        service.on(method, failing(grpc.StatusCode.NOT_FOUND))
    for call in (view.peek(1), view.explain(1, 1), view.histogram(from_ms=0, step_ms=1, bar_count=1), view.verify()):
        with pytest.raises(TrackerNotOpen):
            await call


def memberships(*parts, error=None):
    """Return the answer of a membership in these parts, and then an error."""

    async def answer(_request, context):
        for rows in parts:
            yield pb.StreamMembershipResponse(
                ledgers=[
                    pb.LedgerMembership(ledger_id=ledger, entries=BitMap(entries).serialize())
                    for ledger, entries in rows
                ]
            )
        if error is not None:
            await failing(*error)(None, context)

    return answer


async def test_a_membership_comes_by_ledger(service, view, session):
    """Bitmaps come in the order of the answer; a view gives no epoch, a session its own."""
    service.on("StreamMembership", memberships([(1, [5, 7]), (2, range(10_000))], [(2, [2**32 - 1])]))
    for reader in (view, session):
        found = [(part.ledger_id, list(part.entry_ids())) async for part in reader.membership()]
        assert found == [(1, [5, 7]), (2, list(range(10_000))), (2, [2**32 - 1])]
    first, second = service.requests_of("StreamMembership")
    assert (first.HasField("epoch"), second.epoch, second.tracker.topic) == (False, session.epoch, TOPIC)


async def test_a_membership_that_ends_early_raises(service, view):
    """Answers that came before the error were read; the error says that it is void."""
    cleared = (grpc.StatusCode.ABORTED, reason("CLEARED"))
    service.on("StreamMembership", memberships([(1, [5])], error=cleared))
    parts = view.membership()
    assert (await anext(parts)).ledger_id == 1
    with pytest.raises(Cleared):
        await anext(parts)


async def test_a_membership_needs_a_session_that_is_not_over(service, session):
    """A session that was left reads nothing more."""
    await session.leave()
    with pytest.raises(SessionClosed):
        await anext(aiter(session.membership()))
    assert service.requests_of("StreamMembership") == []
