"""Tests of commands about one tracker with a scripted service: their requests, output and end."""

import json

import grpc
import pytest
from google.rpc import error_details_pb2

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.client.harness.scripted_service import ScriptedService, abort, scripted_service_of_threads

TRACKER = ["--topic", "persistent://lab/main/delayed", "--subscription", "workers"]
AT = ["--at", "2026-11-21T07:24:12.556Z"]
AT_MS = 1_795_245_852_556


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch):
    """Run a scripted service in a thread of its own, because commands block theirs."""
    with scripted_service_of_threads() as scripted:
        monkeypatch.setenv("DELAYED_TRACKER_SERVER", scripted.address)
        yield scripted


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch):
    """Draw answers as on a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "140")


def document(ran):
    assert ran.status == 0, ran.err
    assert ran.err == ""
    return json.loads(ran.out)


def test_open_says_where_to_replay_from(command, service: ScriptedService):
    """The request carries the cursor's position and the owner's name, and the position to replay from is printed."""
    service.on("OpenTracker", pb.OpenTrackerResponse(epoch=7, replay_from=pb.Position(ledger_id=7, entry_id=42)))
    ran = command("open", *TRACKER, "--mark-delete", "7:41", "--owner", "me")
    assert ran.status == 0
    assert "epoch 7" in ran.out
    assert "replay from 7:42" in ran.out
    assert "0 recovered in 0 buckets; " in ran.out
    (request,) = service.requests_of("OpenTracker")
    assert (request.mark_delete.ledger_id, request.mark_delete.entry_id, request.owner) == (7, 41, "me")
    assert document(command("open", *TRACKER, "--json"))["replay_from"] == {"ledger_id": 7, "entry_id": 42}
    assert not service.requests_of("OpenTracker")[1].HasField("mark_delete")


def test_add_prints_what_became_of_each(command, service: ScriptedService):
    """All positions have one deadline, and ranges include both ends."""
    service.on("AddMessages", pb.AddMessagesResponse(added_count=2, due_offsets=[1], duplicate_offsets=[3]))
    ran = command("add", *TRACKER, *AT, "7:0-2", "9:5")
    assert ran.status == 0
    assert "duplicate" in ran.out
    assert "9:5" in ran.out
    (request,) = service.requests_of("AddMessages")
    assert (list(request.ledger_ids), list(request.entry_ids)) == ([7, 7, 7, 9], [0, 1, 2, 5])
    assert set(request.deliver_at_ms) == {AT_MS}
    told = document(command("add", *TRACKER, *AT, "7:0-2", "9:5", "--json"))
    assert (told["deliver_at_ms"], told["added_count"], told["due_count"]) == (AT_MS, 2, 1)
    assert told["due"] == [{"ledger_id": 7, "entry_id": 1}]


def test_a_relative_deadline_is_by_the_services_clock(command, service: ScriptedService):
    """A relative deadline does not depend on this machine's clock."""
    service.on("NextDeliveryTime", pb.NextDeliveryTimeResponse(server_time_ms=1_000))
    service.on("AddMessages", pb.AddMessagesResponse(added_count=1))
    assert command("add", *TRACKER, "--in-ms", "500", "7:0").status == 0
    assert list(service.requests_of("AddMessages")[0].deliver_at_ms) == [1_500]


@pytest.mark.parametrize("name", ["add", "reschedule"])
@pytest.mark.parametrize("deadline", [[], [*AT, "--in-ms", "1"], ["--at", "soon"]])
def test_one_deadline_is_needed(command, service: ScriptedService, name, deadline):
    """A missing or a second deadline is refused before the tracker is taken over."""
    ran = command(name, *TRACKER, *deadline, "7:0")
    assert ran.status == ExitCode.USAGE
    assert "--at" in ran.err
    assert service.requests == []


@pytest.mark.parametrize("name", ["add", "cancel", "reschedule", "explain"])
def test_a_position_that_is_none_is_refused(command, service: ScriptedService, name):
    """A wrong position is refused before any call."""
    ran = command(name, *TRACKER, *(AT if name in {"add", "reschedule"} else []), "seven")
    assert ran.status == ExitCode.USAGE
    assert "'seven'" in ran.err
    assert service.requests == []


def test_cancel_answers_each_position(command, service: ScriptedService):
    """The status is 1 if a tracked position was not cancelled."""
    service.on("CancelMessages", pb.CancelMessagesResponse(cancelled_count=2, unknown_offsets=[1]))
    ran = command("cancel", *TRACKER, "7:0-2")
    assert (ran.status, ran.err) == (0, "")
    assert "2 cancelled, 0 leased, 1 not tracked" in ran.out
    assert "7:1 not tracked" in ran.out
    service.on("CancelMessages", pb.CancelMessagesResponse(cancelled_count=2, leased_offsets=[2]))
    ran = command("cancel", *TRACKER, "7:0-2", "--json")
    assert ran.status == ExitCode.FAILURE
    assert json.loads(ran.out) == {"cancelled_count": 2, "leased": [{"ledger_id": 7, "entry_id": 2}], "unknown": []}


def test_reschedule_answers_each_position(command, service: ScriptedService):
    """The status is 1 if a tracked position keeps its old deadline."""
    service.on(
        "RescheduleMessages",
        pb.RescheduleMessagesResponse(
            rescheduled_count=2, due_offsets=[0], unknown_offsets=[1, 3], duplicate_offsets=[4]
        ),
    )
    ran = command("reschedule", *TRACKER, *AT, "7:0-3", "7:0")
    assert (ran.status, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0].startswith("2 rescheduled, 0 leased, 2 not tracked; the new deadline is 2026-11-21 07:24:12.556")
    assert lines[1:] == [
        "7:0 due now: the next poll returns it",
        "7:0 named twice",
        "7:1 not tracked",
        "7:3 not tracked",
    ]
    (request,) = service.requests_of("RescheduleMessages")
    assert (list(request.ledger_ids), list(request.entry_ids)) == ([7] * 5, [0, 1, 2, 3, 0])
    assert set(request.deliver_at_ms) == {AT_MS}
    service.on("RescheduleMessages", pb.RescheduleMessagesResponse(rescheduled_count=1, leased_offsets=[1]))
    ran = command("reschedule", *TRACKER, *AT, "7:0-1", "--json")
    assert ran.status == ExitCode.FAILURE
    assert json.loads(ran.out) == {
        "deliver_at_ms": AT_MS,
        "rescheduled_count": 1,
        "due": [],
        "duplicate": [],
        "leased": [{"ledger_id": 7, "entry_id": 1}],
        "unknown": [],
        "beyond_max_delay": [],
    }
    service.on("RescheduleMessages", pb.RescheduleMessagesResponse(beyond_max_delay_offsets=[0]))
    ran = command("reschedule", *TRACKER, *AT, "7:0")
    assert ran.status == ExitCode.FAILURE
    assert "7:0 deadline later than the service allows, not rescheduled" in ran.out


def test_reschedule_takes_a_time_from_now_by_the_services_clock(command, service: ScriptedService):
    """A relative deadline is limited to the last one that there is."""
    service.on("NextDeliveryTime", pb.NextDeliveryTimeResponse(server_time_ms=1_000))
    service.on("RescheduleMessages", pb.RescheduleMessagesResponse(rescheduled_count=1))
    assert command("reschedule", *TRACKER, "--in-ms", "0", "7:0").status == 0
    assert command("reschedule", *TRACKER, "--in-ms", str(2**63 - 1), "7:0").status == 0
    first, second = service.requests_of("RescheduleMessages")
    assert (list(first.deliver_at_ms), list(second.deliver_at_ms)) == ([1_000], [2**63 - 1])


def test_explain_says_why_and_what_next(command, service: ScriptedService):
    """The service's explanation is printed with times relative to its clock, and the tracker is not taken over."""
    service.on(
        "ExplainMessage",
        pb.ExplainMessageResponse(
            place=pb.MESSAGE_PLACE_UNLOADED_SEGMENT,
            deliver_at_ms=AT_MS,
            available_at_ms=AT_MS - 1_000,
            bucket_id=12,
            segment=0,
            explanation="It waits on disk [segment 0].",
            server_time_ms=AT_MS - 61_000,
        ),
    )
    ran = command("explain", *TRACKER, "7:3")
    assert ran.status == 0
    assert "It waits on disk [segment 0]." in ran.out
    assert "unloaded segment" in ran.out
    assert "2026-11-21 07:24:12.556Z (in 1 min 1 s)" in ran.out
    assert "2026-11-21 07:24:11.556Z (in 1 min)" in ran.out
    told = document(command("explain", *TRACKER, "7:3", "--json"))
    assert (told["place"], told["bucket_id"], told["segment"], told["lease_id"]) == ("unloaded_segment", 12, 0, None)
    assert {name for name, _ in service.requests} == {"ExplainMessage"}


def test_peek_lists_and_says_that_there_are_more(command, service: ScriptedService):
    """Messages are listed by deadline, leased ones are marked, and nothing is taken."""
    service.on(
        "PeekMessages",
        pb.PeekMessagesResponse(
            deliver_at_ms=[AT_MS, AT_MS], ledger_ids=[7, 7], entry_ids=[0, 1], leased_offsets=[1], truncated=True
        ),
    )
    ran = command("peek", *TRACKER, "--from", "2026-11-21", "--until", "2026-11-22", "--max", "2")
    assert ran.status == 0
    assert "7:0" in ran.out
    assert "raise --max" in ran.out
    (request,) = service.requests_of("PeekMessages")
    assert (request.until_ms - request.from_ms, request.max_messages) == (86_400_000, 2)
    told = document(command("peek", *TRACKER, "--json"))
    assert told["truncated"] is True
    assert [row["leased"] for row in told["messages"]] == [False, True]
    assert {name for name, _ in service.requests} == {"PeekMessages"}


def histogram_answer() -> pb.DeliveryHistogramResponse:
    return pb.DeliveryHistogramResponse(before_count=0, counts=[100, 1, 0], after_count=50, estimated_count=20)


def test_a_histogram_without_a_terminal_is_plain(command, service: ScriptedService):
    """Bars consist of ASCII characters; one message beside a hundred is visible, and none is not."""
    service.on("NextDeliveryTime", pb.NextDeliveryTimeResponse(server_time_ms=AT_MS))
    service.on("DeliveryHistogram", histogram_answer())
    ran = command("histogram", *TRACKER, "--step-s", "60", "--bars", "3")
    assert ran.status == 0
    bars = {line.split("│")[1].strip(): line.count("#") for line in ran.out.splitlines() if line.count("│") == 4}
    assert bars == {
        "earlier": 0,
        "2026-11-21 07:24:12.556Z": 50,
        "2026-11-21 07:25:12.556Z": 1,
        "2026-11-21 07:26:12.556Z": 0,
        "later": 25,
    }
    assert "151 tracked, in bars of 1.0 min" in ran.out
    assert "20 of them are in segments on disk" in ran.out
    (request,) = service.requests_of("DeliveryHistogram")
    assert (request.from_ms, request.step_ms, request.bar_count) == (AT_MS, 60_000, 3)


def test_a_histogram_on_a_terminal_is_drawn(command, service: ScriptedService, terminal):
    """Bars on a terminal consist of blocks in colour."""
    service.on("DeliveryHistogram", histogram_answer())
    ran = command("histogram", *TRACKER, "--from", "0", "--bars", "3")
    assert ran.status == 0
    assert "█" * 50 in ran.out
    assert "\x1b[36" in ran.out
    assert "#" not in ran.out


def test_a_histogram_is_numbers_for_machines(command, service: ScriptedService):
    """The JSON document contains the axis of the request."""
    service.on("DeliveryHistogram", histogram_answer())
    told = document(command("histogram", *TRACKER, "--from", "0", "--bars", "3", "--json"))
    assert (told["from_ms"], told["step_ms"], told["counts"]) == (0, 3_600_000, [100, 1, 0])


def test_seal_tells_how_many(command, service: ScriptedService):
    """The number of sealed positions is printed."""
    service.on("SealBucket", pb.SealBucketResponse(sealed_count=5))
    assert command("seal", *TRACKER).out == "5 sealed\n"
    assert document(command("seal", *TRACKER, "--json")) == {"sealed_count": 5}


def test_verify_ends_with_what_it_found(command, service: ScriptedService):
    """The status is 0 if every snapshot is sound, with or without orphans; otherwise 1, and the problem is printed."""
    sound = pb.SnapshotVerdict(bucket_id=3, segment_count=2, index_count=30, bytes=4_000)
    service.on("VerifySnapshots", pb.VerifySnapshotsResponse(snapshots=[sound], orphan_bucket_ids=[9]))
    ran = command("verify", *TRACKER)
    assert ran.status == 0
    assert "1 verified, 0 with problems" in ran.out
    assert "deleted at the next load: 9" in ran.out
    assert document(command("verify", *TRACKER, "--json"))["sound"] is True
    bad = pb.SnapshotVerdict(bucket_id=4, problems=["segment 1 is corrupt"])
    service.on("VerifySnapshots", pb.VerifySnapshotsResponse(snapshots=[sound, bad]))
    ran = command("verify", *TRACKER)
    assert ran.status == ExitCode.FAILURE
    assert "segment 1 is corrupt" in ran.out
    assert command("verify", *TRACKER, "--json").status == ExitCode.FAILURE


def test_trackers_lists_open_ones_and_those_on_disk(command, service: ScriptedService):
    """Counts of a tracker that is not loaded are unknown."""
    rows = [
        pb.TrackerSummary(
            tracker=pb.TrackerRef(topic="t", subscription="a"), open=True, owner="me", pending_count=12345
        ),
        pb.TrackerSummary(tracker=pb.TrackerRef(topic="t", subscription="b")),
        pb.TrackerSummary(tracker=pb.TrackerRef(topic="t", subscription="c"), open=True, recovering=True),
        pb.TrackerSummary(tracker=pb.TrackerRef(topic="t", subscription="d"), open=True, unloaded=True),
    ]
    service.on("ListTrackers", pb.ListTrackersResponse(trackers=rows))
    ran = command("trackers", "--topic-prefix", "t")
    assert ran.status == 0
    for word in ("12345", "on disk", "recovering", "idle", "4 trackers"):
        assert word in ran.out
    assert service.requests_of("ListTrackers")[0].topic_prefix == "t"
    assert [row["open"] for row in document(command("trackers", "--json"))["trackers"]] == [True, False, True, True]


def test_delete_must_be_meant(command, service: ScriptedService):
    """Without --yes nothing is sent; with it, the request carries no epoch."""
    service.on("DeleteTracker", pb.DeleteTrackerResponse(deleted_count=4))
    ran = command("delete", *TRACKER)
    assert ran.status == ExitCode.USAGE
    assert "--yes" in ran.err
    assert service.requests == []
    service.on("ListTrackers", pb.ListTrackersResponse())
    assert "4 tracked messages" in command("delete", *TRACKER, "--yes").out
    assert document(command("delete", *TRACKER, "--yes", "--json")) == {"deleted_count": 4, "existed": True}
    assert not service.requests_of("DeleteTracker")[0].HasField("epoch")


def test_delete_says_that_there_was_nothing(command, service: ScriptedService):
    """A misspelt name is reported as no tracker, an empty tracker as deleted, and other subscriptions are ignored."""
    service.on("DeleteTracker", pb.DeleteTrackerResponse())
    others = [pb.TrackerSummary(tracker=pb.TrackerRef(topic=TRACKER[1], subscription="worker"))]
    service.on("ListTrackers", pb.ListTrackersResponse(trackers=others))
    ran = command("delete", *TRACKER, "--yes")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out == (
        f"nothing to delete: there is no tracker 'workers' of '{TRACKER[1]}'; `delayed-tracker trackers` lists them\n"
    )
    assert document(command("delete", *TRACKER, "--yes", "--json")) == {"deleted_count": 0, "existed": False}
    assert len(service.requests_of("DeleteTracker")) == 2
    others.append(pb.TrackerSummary(tracker=pb.TrackerRef(topic=TRACKER[1], subscription=TRACKER[3])))
    service.on("ListTrackers", pb.ListTrackersResponse(trackers=others))
    assert command("delete", *TRACKER, "--yes").out == "deleted, with 0 tracked messages\n"
    assert document(command("delete", *TRACKER, "--yes", "--json")) == {"deleted_count": 0, "existed": True}


def test_one_tracker_is_not_trackers(command, service: ScriptedService):
    """Nouns are singular for one thing and plural for others."""
    service.on("OpenTracker", pb.OpenTrackerResponse(epoch=7, recovered_count=1, bucket_count=1))
    assert "1 recovered in 1 bucket; " in command("open", *TRACKER).out
    rows = [pb.TrackerSummary(tracker=pb.TrackerRef(topic="t", subscription="a"))]
    service.on("ListTrackers", pb.ListTrackersResponse(trackers=rows))
    assert command("trackers").out.endswith("\n1 tracker\n")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("ExplainMessage", ["explain", "7:3"]),
        ("PeekMessages", ["peek"]),
        ("DeliveryHistogram", ["histogram", "--from", "0"]),
        ("VerifySnapshots", ["verify"]),
        ("SealBucket", ["seal"]),
        ("CancelMessages", ["cancel", "7:3"]),
        ("RescheduleMessages", ["reschedule", "--at", "0", "7:3"]),
    ],
)
def test_a_tracker_that_is_not_open_has_its_status(command, service: ScriptedService, method, arguments):
    """The error is one line, or one JSON object with --json."""
    info = error_details_pb2.ErrorInfo(domain="delayed-tracker", reason="TRACKER_NOT_OPEN")

    async def not_open(request, context):
        await abort(context, grpc.StatusCode.NOT_FOUND, "nobody opened it", info)

    service.on(method, not_open)
    ran = command(*arguments, *TRACKER)
    assert (ran.status, ran.out) == (ExitCode.TRACKER_CONFLICT, "")
    assert ran.err == "delayed-tracker: nobody opened it\n"
    ran = command(*arguments, *TRACKER, "--json")
    assert json.loads(ran.err)["error"]["reason"] == "TRACKER_NOT_OPEN"
