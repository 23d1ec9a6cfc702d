"""Pages of trackers, open and stored."""

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import grpc
import pytest

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.queries.listing import tracker_page
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import add, opened, poll, refused
from tests.service.harness.shell import failing, make_registry


def ref(topic, subscription="s"):
    return pb.TrackerRef(topic=topic, subscription=subscription)


async def pages(service, **kwargs):
    found, token = [], ""
    while True:
        answer = await service.stub.ListTrackers(pb.ListTrackersRequest(page_token=token, **kwargs))
        found.append([(row.tracker.topic, row.tracker.subscription) for row in answer.trackers])
        token = answer.next_page_token
        if not token:
            return found


async def test_rows_tell_what_is_open_and_what_only_stored(service):
    """Rows are ascending by topic and subscription, and only open trackers have counts."""
    assert await pages(service) == [[]]
    await opened(service, ref("b", "y"))
    epoch = await opened(service, ref("b", "x"))
    closed = await opened(service, ref("a"))
    await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=ref("a"), epoch=closed))
    now = service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, (now + 1, 1, 1), (now + 50, 1, 2), tracker=ref("b", "x")))
    service.clock.advance(1)
    request = poll(epoch)
    request.tracker.CopyFrom(ref("b", "x"))
    await service.stub.PollScheduledMessages(request)
    on_disk, first, second = (await service.stub.ListTrackers(pb.ListTrackersRequest())).trackers
    assert on_disk == pb.TrackerSummary(tracker=ref("a"))
    assert (first.tracker, first.open, first.owner, first.epoch) == (ref("b", "x"), True, "tests", epoch)
    assert (first.pending_count, first.leased_count, first.next_delivery_at_ms) == (1, 1, now + 50)
    assert (second.tracker, second.HasField("next_delivery_at_ms")) == (ref("b", "y"), False)


async def test_pages_cover_everything_once(service):
    """Pages of any size contain every tracker once, with names of any script or punctuation."""
    topics = [f"persistent://t/n/{name}" for name in ("ä", "b", '"', "%2F", "\U0001f600")]
    for topic in topics:
        await opened(service, ref(topic))
    expected = sorted((topic, "s") for topic in topics)
    for size in (1, 2, 4, 5, 6):
        found = await pages(service, page_size=size)
        assert [row for page in found for row in page] == expected
        assert all(len(page) == size for page in found[:-1])


async def test_the_longest_names_fit_into_a_token(service):
    """Control characters are the longest in a token."""
    names = ["\1" * 4_096, "\2" * 4_096]
    for name in names:
        await opened(service, ref(name, name))
    assert await pages(service, page_size=1) == [[(name, name)] for name in names]


async def test_a_prefix_selects_topics(service):
    """A prefix matches only the beginning of a topic's name."""
    for topic in ("persistent://a/n/t", "persistent://b/n/t", "x-persistent://a/n/t"):
        await opened(service, ref(topic))
    assert await pages(service, topic_prefix="persistent://a/") == [[("persistent://a/n/t", "s")]]
    assert await pages(service, topic_prefix="nothing") == [[]]


async def test_a_tracker_that_goes_between_two_pages_shifts_nothing(service):
    """The next page begins behind the last row of the one before, even if that row is gone."""
    epochs = {topic: await opened(service, ref(topic)) for topic in "abcd"}
    first = await service.stub.ListTrackers(pb.ListTrackersRequest(page_size=2))
    assert [row.tracker.topic for row in first.trackers] == ["a", "b"]
    await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=ref("b"), epoch=epochs["b"]))
    rest = await service.stub.ListTrackers(pb.ListTrackersRequest(page_size=2, page_token=first.next_page_token))
    assert [row.tracker.topic for row in rest.trackers] == ["c", "d"]
    assert not rest.next_page_token


OPERATORS_CALLS = (
    ("GetTrackerStats", pb.GetTrackerStatsRequest),
    ("ListBuckets", pb.ListBucketsRequest),
    ("PeekMessages", pb.PeekMessagesRequest),
    ("ExplainMessage", pb.ExplainMessageRequest),
    ("DeliveryHistogram", pb.DeliveryHistogramRequest),
)


@pytest.mark.parametrize(("method", "request_type"), OPERATORS_CALLS)
async def test_a_tracker_that_nobody_has_open_is_told_from_one_that_is_not_there(service, method, request_type):
    """The error distinguishes a stored tracker from an unknown one, since opening either has different effects."""
    call = getattr(service.stub, method)
    epoch = await opened(service, ref("a"))
    await service.stub.CloseTracker(pb.CloseTrackerRequest(tracker=ref("a"), epoch=epoch))
    error, info, found = await refused(call(request_type(tracker=ref("a"))))
    assert (error.code(), info.reason) == (grpc.StatusCode.NOT_FOUND, "TRACKER_NOT_OPEN")
    assert error.details() == (
        "no dispatcher has the tracker of subscription 's' of 'a' open: its dispatcher has not connected; wait, or open it"
        " yourself, which fences that dispatcher"
    )
    assert "OpenTracker" in found["ResourceInfo"].description
    error, info, found = await refused(call(request_type(tracker=ref("aa"))))
    assert (error.code(), info.reason) == (grpc.StatusCode.NOT_FOUND, "TRACKER_NOT_OPEN")
    assert error.details() == (
        "there is no tracker of subscription 's' of 'aa'; `delayed-tracker trackers` lists the existing trackers"
    )
    assert "ListTrackers" in found["ResourceInfo"].description


async def test_a_tracker_that_was_deleted_is_not_there(service):
    """A deleted tracker is not found, though its epoch stays on record."""
    await opened(service, ref("a"))
    await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=ref("a")))
    error, _, _ = await refused(service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=ref("a"))))
    assert "there is no tracker" in error.details()


async def test_a_storage_that_cannot_tell_changes_no_error(service):
    """The storage is queried once, and only for calls of operators, since dispatchers open the tracker next."""
    service.storage.before["list"] = failing(*[StorageUnavailable("out of reach")] * 9)
    error, info, _ = await refused(service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=ref("a"))))
    assert (error.code(), info.reason) == (grpc.StatusCode.NOT_FOUND, "TRACKER_NOT_OPEN")
    assert error.details() == "subscription 's' of 'a' has no open tracker; open it first"
    await refused(service.stub.NextDeliveryTime(pb.NextDeliveryTimeRequest(tracker=ref("a"))))
    await refused(service.stub.AddMessages(add(1, tracker=ref("a"))))
    assert service.storage.calls.count("list") == 1


@pytest.mark.parametrize("damage", [SnapshotCorrupt, StorageFormatUnsupported])
async def test_a_catalogue_that_cannot_be_read_is_there(service, damage):
    """The error stays that of a tracker that is not open; what is damaged shows when it is opened."""
    service.storage.before["list"] = failing(damage("its checksum is wrong"))
    error, info, _ = await refused(service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=ref("a"))))
    assert info.reason == "TRACKER_NOT_OPEN"
    assert "no dispatcher has the tracker" in error.details()


async def test_an_error_about_one_tracker_reads_no_list_of_all(service):
    """With a hundred thousand trackers, a mistyped name costs what one tracker costs."""
    await refused(service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=ref("aa"))))
    assert service.storage.calls.count("trackers") == 0


class NotedName(str):
    """Name that notes the threads in which it is compared."""

    __slots__ = ()
    threads: ClassVar[set[int]] = set()

    def startswith(self, *args):
        self.threads.add(threading.get_ident())
        return super().startswith(*args)

    def __lt__(self, other):
        self.threads.add(threading.get_ident())
        return super().__lt__(other)

    __hash__ = str.__hash__


class CrowdedStorage(MemoryStorage):
    """Storage that has very many trackers."""

    async def trackers(self):
        return [(NotedName(f"persistent://t/n/{number}"), "s") for number in range(3_000)]


async def test_very_many_trackers_are_sorted_outside_the_event_loop():
    """Other calls get their turn while a page is made of a hundred thousand trackers, and while rules are asked."""
    decided, turns = [], []

    def visible(topic, _subscription):
        decided.append(topic)
        return topic.endswith("999")

    async def other_calls():
        while True:
            turns.append(len(decided))
            await asyncio.sleep(0)

    others = asyncio.create_task(other_calls())
    with ThreadPoolExecutor(1) as workers:
        registry = make_registry(CrowdedStorage(), ManualClock(), workers=workers)
        await registry.start()
        page = await tracker_page(registry, topic_prefix="", page_size=10, page_token="", visible=visible)
        await registry.drain(1_000)
    others.cancel()
    assert [row.key.topic[-4:] for row in page.rows] == ["1999", "2999", "/999"]
    assert NotedName.threads
    assert threading.get_ident() not in NotedName.threads
    assert max(later - earlier for earlier, later in itertools.pairwise(turns)) <= 500
