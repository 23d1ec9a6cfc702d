"""Refusals of invalid requests, over a real gRPC server on a loopback port."""

import base64

import grpc
import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX
from delayed_tracker.service.grpc.status import VIOLATION_ROWS_MAX
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, poll, refused
from tests.service.harness.shell import KEY, running_service

LIMITS = ServiceLimits(batch_max=100_000, poll_messages_max=100, poll_wait_max_ms=60_000)


@pytest.fixture
async def service():
    async with running_service(service_limits=LIMITS) as running:
        yield running


@pytest.fixture
async def epoch(service):
    return (await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests"))).epoch


def _extend(epoch, **kwargs):
    return pb.ExtendLeaseRequest(**({"tracker": REF, "epoch": epoch, "lease_id": 1, "lease_ms": 5} | kwargs))


def _reschedule(epoch, *rows):
    deadlines, ledgers, entries = zip(*rows, strict=True) if rows else ((), (), ())
    return pb.RescheduleMessagesRequest(
        tracker=REF, epoch=epoch, deliver_at_ms=deadlines, ledger_ids=ledgers, entry_ids=entries
    )


def _token(decoded):
    return base64.urlsafe_b64encode(decoded).decode()


def _filter(*ranges):
    return pb.FilterEntriesRequest(
        tracker=REF,
        ranges=[pb.EntryRange(ledger_id=ledger, first_entry_id=a, last_entry_id=b) for ledger, a, b in ranges],
    )


def _peek(**kwargs):
    return pb.PeekMessagesRequest(**({"tracker": REF, "max_messages": 10} | kwargs))


def _explain(ledger_id, entry_id):
    position = pb.Position(ledger_id=ledger_id, entry_id=entry_id)
    return pb.ExplainMessageRequest(tracker=REF, position=position)


def _histogram(**kwargs):
    return pb.DeliveryHistogramRequest(**({"tracker": REF, "step_ms": 1_000, "bar_count": 10} | kwargs))


_BAD = [
    (
        "OpenTracker",
        lambda e: pb.OpenTrackerRequest(tracker=pb.TrackerRef(subscription="s"), owner="o"),
        "tracker.topic",
    ),
    (
        "OpenTracker",
        lambda e: pb.OpenTrackerRequest(tracker=pb.TrackerRef(topic="t"), owner="o"),
        "tracker.subscription",
    ),
    ("OpenTracker", lambda e: pb.OpenTrackerRequest(owner="o"), "tracker.topic"),
    (
        "OpenTracker",
        lambda e: pb.OpenTrackerRequest(tracker=pb.TrackerRef(topic="ü" * 2049, subscription="s"), owner="o"),
        "tracker.topic",
    ),
    ("OpenTracker", lambda e: pb.OpenTrackerRequest(tracker=REF), "owner"),
    ("OpenTracker", lambda e: pb.OpenTrackerRequest(tracker=REF, owner="o" * 1025), "owner"),
    (
        "OpenTracker",
        lambda e: pb.OpenTrackerRequest(tracker=REF, owner="o", mark_delete=pb.Position(ledger_id=-2)),
        "mark_delete.ledger_id",
    ),
    (
        "OpenTracker",
        lambda e: pb.OpenTrackerRequest(tracker=REF, owner="o", mark_delete=pb.Position(ledger_id=1, entry_id=-2)),
        "mark_delete.entry_id",
    ),
    ("CloseTracker", lambda e: pb.CloseTrackerRequest(tracker=REF), "epoch"),
    ("AddMessages", lambda e: add(0, (1, 1, 1)), "epoch"),
    (
        "AddMessages",
        lambda e: pb.AddMessagesRequest(tracker=REF, epoch=e, deliver_at_ms=[1, 2], ledger_ids=[1], entry_ids=[1]),
        "deliver_at_ms",
    ),
    ("AddMessages", lambda e: add(e, (-1, 1, 1)), "deliver_at_ms[0]"),
    ("AddMessages", lambda e: add(e, (1, 1, 1), (1, -(2**63), 1)), "ledger_ids[1]"),
    ("AddMessages", lambda e: add(e, (1, 1, ENTRY_ID_MAX + 1)), "entry_ids[0]"),
    ("PollScheduledMessages", lambda e: poll(e, max_messages=0), "max_messages"),
    ("PollScheduledMessages", lambda e: poll(e, max_messages=101), "max_messages"),
    ("PollScheduledMessages", lambda e: poll(0), "epoch"),
    ("PollScheduledMessages", lambda e: poll(e, lease_ms=0), "lease_ms"),
    ("PollScheduledMessages", lambda e: poll(e, lease_ms=LIMITS.lease_max_ms + 1), "lease_ms"),
    ("PollScheduledMessages", lambda e: poll(e, lease_ms=5, hand_off=True), "lease_ms"),
    ("AckMessages", lambda e: pb.AckMessagesRequest(tracker=REF, epoch=e, lease_id=99), "lease_id"),
    ("AckMessages", lambda e: pb.AckMessagesRequest(tracker=REF, epoch=e, ledger_ids=[1]), "ledger_ids"),
    ("NackMessages", lambda e: pb.NackMessagesRequest(tracker=REF, epoch=e, lease_id=0), "lease_id"),
    (
        "NackMessages",
        lambda e: pb.NackMessagesRequest(tracker=REF, epoch=e, lease_id=1, deliver_at_ms=-1),
        "deliver_at_ms",
    ),
    ("ContainsMessages", lambda e: pb.ContainsMessagesRequest(tracker=REF, entry_ids=[1]), "ledger_ids"),
    ("AdvanceMarkDelete", lambda e: pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=e), "mark_delete"),
    (
        "AdvanceMarkDelete",
        lambda e: pb.AdvanceMarkDeleteRequest(
            tracker=REF, epoch=e, mark_delete=pb.Position(ledger_id=1, entry_id=ENTRY_ID_MAX + 1)
        ),
        "mark_delete.entry_id",
    ),
    ("ClearMessages", lambda e: pb.ClearMessagesRequest(tracker=REF), "epoch"),
    ("GetTrackerStats", lambda e: pb.GetTrackerStatsRequest(), "tracker.topic"),
    ("DeleteTracker", lambda e: pb.DeleteTrackerRequest(), "tracker.topic"),
    ("DeleteTracker", lambda e: pb.DeleteTrackerRequest(tracker=REF, epoch=0), "epoch"),
    ("ExtendLease", lambda e: _extend(0), "epoch"),
    ("ExtendLease", lambda e: _extend(e, lease_id=99), "lease_id"),
    ("ExtendLease", lambda e: _extend(e, lease_id=0), "lease_id"),
    ("ExtendLease", lambda e: _extend(e, lease_ms=0), "lease_ms"),
    ("ExtendLease", lambda e: _extend(e, lease_ms=LIMITS.lease_max_ms + 1), "lease_ms"),
    ("ExtendLease", lambda e: _extend(e, ledger_ids=[1]), "ledger_ids"),
    ("ExtendLease", lambda e: _extend(e, entry_ids=[1]), "ledger_ids"),
    ("ExtendLease", lambda e: _extend(e, ledger_ids=[-1], entry_ids=[1]), "ledger_ids[0]"),
    ("CancelMessages", lambda e: pb.CancelMessagesRequest(tracker=REF), "epoch"),
    ("CancelMessages", lambda e: pb.CancelMessagesRequest(tracker=REF, epoch=e, entry_ids=[1]), "ledger_ids"),
    (
        "CancelMessages",
        lambda e: pb.CancelMessagesRequest(tracker=REF, epoch=e, ledger_ids=[1], entry_ids=[ENTRY_ID_MAX + 1]),
        "entry_ids[0]",
    ),
    ("RescheduleMessages", lambda e: _reschedule(0), "epoch"),
    ("RescheduleMessages", lambda e: pb.RescheduleMessagesRequest(epoch=e), "tracker.topic"),
    ("RescheduleMessages", lambda e: _reschedule(e, (-1, 1, 0)), "deliver_at_ms[0]"),
    ("RescheduleMessages", lambda e: _reschedule(e, (1, 1, 0), (1, -1, 0)), "ledger_ids[1]"),
    ("RescheduleMessages", lambda e: _reschedule(e, (1, 1, ENTRY_ID_MAX + 1)), "entry_ids[0]"),
    (
        "RescheduleMessages",
        lambda e: pb.RescheduleMessagesRequest(tracker=REF, epoch=e, ledger_ids=[1], entry_ids=[1]),
        "deliver_at_ms",
    ),
    ("FilterEntries", lambda e: pb.FilterEntriesRequest(tracker=REF), "ranges"),
    ("FilterEntries", lambda e: _filter(*[(1, 0, 0)] * 1_001), "ranges"),
    ("FilterEntries", lambda e: _filter((1, 0, 5_000_000), (2, 0, 5_000_000)), "ranges"),
    ("FilterEntries", lambda e: _filter((1, 0, 1), (-1, 0, 1)), "ranges[1].ledger_id"),
    ("FilterEntries", lambda e: _filter((1, -1, 1)), "ranges[0].first_entry_id"),
    ("FilterEntries", lambda e: _filter((1, ENTRY_ID_MAX + 1, ENTRY_ID_MAX + 1)), "ranges[0].first_entry_id"),
    ("FilterEntries", lambda e: _filter((1, 5, 4)), "ranges[0].last_entry_id"),
    ("FilterEntries", lambda e: _filter((1, 5, ENTRY_ID_MAX + 1)), "ranges[0].last_entry_id"),
    ("ResetCursor", lambda e: pb.ResetCursorRequest(tracker=REF), "epoch"),
    (
        "ResetCursor",
        lambda e: pb.ResetCursorRequest(tracker=REF, epoch=e, mark_delete=pb.Position(ledger_id=-3)),
        "mark_delete.ledger_id",
    ),
    (
        "ResetCursor",
        lambda e: pb.ResetCursorRequest(tracker=REF, epoch=e, mark_delete=pb.Position(ledger_id=3, entry_id=-9)),
        "mark_delete.entry_id",
    ),
    ("ListTrackers", lambda e: pb.ListTrackersRequest(page_size=10_001), "page_size"),
    ("ListTrackers", lambda e: pb.ListTrackersRequest(page_token="what"), "page_token"),
    ("ListTrackers", lambda e: pb.ListTrackersRequest(page_token="e30="), "page_token"),
    ("ListTrackers", lambda e: pb.ListTrackersRequest(page_token=_token(b"[" * 6_000)), "page_token"),
    (
        "ListTrackers",
        lambda e: pb.ListTrackersRequest(page_token=_token(b'["' + b"a" * 100_000 + b'", ""]')),
        "page_token",
    ),
    ("SealBucket", lambda e: pb.SealBucketRequest(tracker=REF), "epoch"),
    ("PeekMessages", lambda e: _peek(from_ms=-1), "from_ms"),
    ("PeekMessages", lambda e: _peek(from_ms=5, until_ms=5), "until_ms"),
    ("PeekMessages", lambda e: _peek(max_messages=0), "max_messages"),
    ("PeekMessages", lambda e: _peek(max_messages=10_001), "max_messages"),
    ("ExplainMessage", lambda e: pb.ExplainMessageRequest(tracker=REF), "position"),
    ("ExplainMessage", lambda e: _explain(-1, 0), "position.ledger_id"),
    ("ExplainMessage", lambda e: _explain(0, -1), "position.entry_id"),
    ("ExplainMessage", lambda e: _explain(0, ENTRY_ID_MAX + 1), "position.entry_id"),
    ("DeliveryHistogram", lambda e: _histogram(from_ms=-1), "from_ms"),
    ("DeliveryHistogram", lambda e: _histogram(step_ms=0), "step_ms"),
    ("DeliveryHistogram", lambda e: _histogram(step_ms=INT63_MAX), "step_ms"),
    ("DeliveryHistogram", lambda e: _histogram(from_ms=INT63_MAX), "from_ms"),
    ("DeliveryHistogram", lambda e: _histogram(bar_count=0), "bar_count"),
    ("DeliveryHistogram", lambda e: _histogram(bar_count=10_001), "bar_count"),
    ("VerifySnapshots", lambda e: pb.VerifySnapshotsRequest(), "tracker.topic"),
    ("ListBuckets", lambda e: pb.ListBucketsRequest(), "tracker.topic"),
    ("NextDeliveryTime", lambda e: pb.NextDeliveryTimeRequest(), "tracker.topic"),
]


@pytest.mark.parametrize(
    ("method", "request_of", "field"), _BAD, ids=[f"{row[0]}-{row[2]}-{n}" for n, row in enumerate(_BAD)]
)
async def test_malformed_requests_name_the_field_and_change_nothing(service, epoch, method, request_of, field):
    """INVALID_ARGUMENT has BadRequest with field, value and remedy."""
    before = await service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF))
    error, info, details = await refused(getattr(service.stub, method)(request_of(epoch)))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert info.reason == "INVALID_INPUT"
    violations = details["BadRequest"].field_violations
    assert [row.field for row in violations] == [field]
    assert violations[0].description
    assert await service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF)) == before


async def test_lengths_are_told_in_the_words_of_the_api(service, epoch):
    """The error has the name and the length of each column."""
    request = pb.AddMessagesRequest(tracker=REF, epoch=epoch, deliver_at_ms=[1], ledger_ids=[1, 2], entry_ids=[])
    error, _, _ = await refused(service.stub.AddMessages(request))
    assert "deliver_at_ms has 1, ledger_ids has 2, entry_ids has 0" in error.details()


@pytest.mark.parametrize("request_bytes", [b"\xff\xff\xff", b"\x1a\x03\1\2\3", b"\x0a\x05\x0a\x03\xed\xa0\x80"])
async def test_bytes_that_are_no_request_are_the_callers_fault(service, request_bytes):
    """Truncated bytes, half a value in a column and half a surrogate pair are refused and not logged."""
    async with grpc.aio.insecure_channel(service.address) as channel:
        method = "/delayed_tracker.v1.DelayedDeliveryTrackerService/AddMessages"
        with capture_logs() as logs:
            error, info, details = await refused(channel.unary_unary(method)(request_bytes))
    assert (error.code(), info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_INPUT")
    assert details["BadRequest"].field_violations[0].field == "request"
    assert not logs


async def test_many_bad_offsets_fit_into_the_answer(service, epoch):
    """The first thousand offsets are listed as ranges, the total is given, and gRPC carries the answer."""
    good, bad = 5, -(2**63)
    # The offsets of a full batch, as scattered and as long as possible.
    deliver_at = [bad if offset % 2 else good for offset in range(LIMITS.batch_max)]
    deliver_at[:50_001] = [good] * 50_001
    columns = [1] * LIMITS.batch_max
    request = pb.AddMessagesRequest(
        tracker=REF, epoch=epoch, deliver_at_ms=deliver_at, ledger_ids=columns, entry_ids=columns
    )
    error, info, details = await refused(service.stub.AddMessages(request))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert info.metadata["field"] == "deliver_at_ms"
    assert info.metadata["offset_count"] == "25000"
    listed = info.metadata["offsets"].split(",")
    assert len(listed) == 1_000
    assert listed[:2] == ["50001", "50003"]
    assert len(details["BadRequest"].field_violations) == VIOLATION_ROWS_MAX
    assert sum(len(key) + len(value) for key, value in error.trailing_metadata()) < 8 * 1024


@pytest.mark.parametrize(
    "method",
    [
        "AddMessages",
        "AckMessages",
        "NackMessages",
        "ContainsMessages",
        "ExtendLease",
        "CancelMessages",
        "RescheduleMessages",
    ],
)
async def test_oversized_batches_are_refused_with_the_limit(service, epoch, method):
    """RESOURCE_EXHAUSTED names the column, its size and the limit; a full batch is accepted."""
    many = [1] * (LIMITS.batch_max + 1)
    request = {
        "AddMessages": pb.AddMessagesRequest(
            tracker=REF, epoch=epoch, deliver_at_ms=many, ledger_ids=many, entry_ids=many
        ),
        "AckMessages": pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=1, ledger_ids=many, entry_ids=many),
        "NackMessages": pb.NackMessagesRequest(tracker=REF, epoch=epoch, lease_id=1, ledger_ids=many, entry_ids=many),
        "ContainsMessages": pb.ContainsMessagesRequest(tracker=REF, ledger_ids=many, entry_ids=many),
        "ExtendLease": _extend(epoch, ledger_ids=many, entry_ids=many),
        "CancelMessages": pb.CancelMessagesRequest(tracker=REF, epoch=epoch, ledger_ids=many, entry_ids=many),
        "RescheduleMessages": _reschedule(epoch, *[(1, 1, 1)] * len(many)),
    }[method]
    error, info, details = await refused(getattr(service.stub, method)(request))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert info.reason == "BATCH_TOO_LARGE"
    assert (info.metadata["limit"], info.metadata["count"]) == (str(LIMITS.batch_max), str(LIMITS.batch_max + 1))
    assert "RetryInfo" not in details


async def test_calls_without_a_tracker_say_what_is_missing(service):
    """NOT_FOUND has the resource and the remedy."""
    for method, request in (
        ("CloseTracker", pb.CloseTrackerRequest(tracker=REF, epoch=1)),
        ("AddMessages", add(1, (1, 1, 1))),
        ("PollScheduledMessages", poll(1)),
        ("AckMessages", pb.AckMessagesRequest(tracker=REF, epoch=1, lease_id=1)),
        ("NackMessages", pb.NackMessagesRequest(tracker=REF, epoch=1, lease_id=1)),
        ("ContainsMessages", pb.ContainsMessagesRequest(tracker=REF)),
        ("NextDeliveryTime", pb.NextDeliveryTimeRequest(tracker=REF)),
        ("AdvanceMarkDelete", pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=1, mark_delete=pb.Position())),
        ("GetTrackerStats", pb.GetTrackerStatsRequest(tracker=REF)),
        ("ListBuckets", pb.ListBucketsRequest(tracker=REF)),
        ("ExtendLease", _extend(1)),
        ("CancelMessages", pb.CancelMessagesRequest(tracker=REF, epoch=1)),
        ("RescheduleMessages", _reschedule(1)),
        ("FilterEntries", _filter((1, 0, 1))),
        ("PeekMessages", _peek()),
        ("ExplainMessage", _explain(1, 0)),
        ("DeliveryHistogram", _histogram()),
        ("VerifySnapshots", pb.VerifySnapshotsRequest(tracker=REF)),
        ("SealBucket", pb.SealBucketRequest(tracker=REF, epoch=1)),
    ):
        error, info, details = await refused(getattr(service.stub, method)(request))
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert info.reason == "TRACKER_NOT_OPEN"
        assert KEY.topic in details["ResourceInfo"].resource_name


async def test_a_lease_that_is_too_long_is_answered_with_what_every_caller_has(service, epoch):
    """The remedy names only options that the `poll` command also has: a shorter lease, or the service's default."""
    error, _, _ = await refused(service.stub.PollScheduledMessages(poll(epoch, lease_ms=LIMITS.lease_max_ms + 1)))
    assert error.details() == (
        f"lease_ms: {LIMITS.lease_max_ms + 1} is not valid; give 1 to {LIMITS.lease_max_ms}, or leave it out for the"
        f" service's {LIMITS.lease_default_ms}"
    )
