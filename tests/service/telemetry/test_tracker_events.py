"""Log lines of tracker events: their fields and their number."""

import asyncio
import dataclasses

import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.telemetry.log_rate_limiter import MINUTE_MS, LogRateLimiter
from delayed_tracker.service.telemetry.storage_log import FENCED, STORE_FAILED
from delayed_tracker.service.trackers.tracker_events import LINES_MAX
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened
from tests.service.harness.shell import (
    KEY,
    TINY,
    ControlledStorage,
    Gate,
    bucketful,
    elapse,
    failing,
    indexes,
    make_registry,
    running_service,
    settle,
)

NAMES = {"topic": KEY.topic, "subscription": KEY.subscription}
FAR_MS = 1_000_000


def line(event, log_level="info", **fields):
    return {"event": event, "log_level": log_level, **NAMES, **fields}


async def test_opening_taking_over_and_closing_are_a_line_each(registry):
    """An open by the same owner is not logged as a takeover."""
    with capture_logs() as logs:
        for owner in ("one", "one", "two"):
            epoch = (await registry.open(KEY, owner=owner, mark_delete=None)).epoch
        await registry.close_tracker(KEY, epoch)
    assert [entry for entry in logs if entry["log_level"] != "debug"] == [
        line("tracker opened", epoch=1, owner="one"),
        line("tracker opened", epoch=2, owner="one"),
        line("tracker taken over", epoch=3, owner="two", previous_owner="one"),
        line("tracker closed", reason="CLOSED"),
    ]


async def test_recovery_tells_how_long_it_took_and_what_was_there(registry, storage, clock):
    """Recovery logs its duration and content; a tracker without content logs only its open."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await settle()
    await registry.close_tracker(KEY, epoch)
    reading = storage.before["list"] = Gate()
    with capture_logs() as logs:
        opening = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
        await elapse(clock, 1_500)
        reading.open()
        await opening
    counts = {"bucket_count": 1, "position_count": 5, "missing_count": 0, "corrupt_count": 0}
    assert logs == [
        line("tracker recovery begun", "debug"),
        line("tracker recovered", epoch=2, duration_ms=1_500, **counts),
        line("tracker opened", epoch=2, owner="tests"),
    ]


async def test_losses_are_a_warning_with_their_count(registry, storage, clock):
    """A lost snapshot is a warning, and the other positions are tracked."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    for ledger, delay_ms in ((1, 5_000), (11, 5_000), (21, FAR_MS)):
        registry.host(KEY).add(epoch, bucketful(clock.now_ms(), ledger, delay_ms=delay_ms, step_ms=2_000))
        registry.host(KEY).seal(epoch)
        await settle()
    await registry.close_tracker(KEY, epoch)
    clock.advance(6_000)  # for indexes that became due meanwhile, recovery reads more than the summary
    storage.before["get_bucket_snapshot_metadata"] = failing(SnapshotCorrupt("bad checksum"))
    with capture_logs() as logs:
        await registry.open(KEY, owner="tests", mark_delete=None)
    (told,) = (entry for entry in logs if entry["event"] == "tracker recovered with losses")
    assert told["log_level"] == "warning"
    assert (told["missing_count"], told["corrupt_count"], told["bucket_count"]) == (0, 1, 2)


async def test_clearing_moving_the_cursor_and_deleting_are_told():
    """Calls that remove messages are logged."""
    async with running_service() as service:
        with capture_logs() as logs:
            epoch = await opened(service)
            await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + FAR_MS, 1, 0)))
            cleared = await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
            reset = await service.stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=cleared.epoch))
            await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=REF, epoch=reset.epoch))
            never_was = pb.TrackerRef(topic=REF.topic, subscription="never-was")
            await service.stub.DeleteTracker(pb.DeleteTrackerRequest(tracker=never_was))
    assert [entry for entry in logs if entry["log_level"] != "debug"] == [
        line("tracker opened", epoch=1, owner="tests"),
        line("tracker cleared", epoch=2, position_count=1),
        line("tracker cleared", epoch=3, position_count=0),
        line("tracker closed", reason="CLEARED"),
        line("tracker deleted", position_count=0),
    ]


@pytest.mark.parametrize(("operation", "call"), [("get_bucket_snapshot_segments", 1), ("create_bucket_snapshot", 3)])
async def test_a_merge_that_our_own_clear_fences_is_no_news(operation, call):
    """A merge that the service's own clear fences is not logged as a takeover or a loss."""
    clock, storage = ManualClock(), ControlledStorage()
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=1))
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    merging = Gate()

    async def hold(*_args, **_kwargs):
        if storage.calls.count(operation) == call:
            await merging()

    storage.after[operation] = hold
    with capture_logs() as logs:
        for ledger in (1, 11):
            registry.host(KEY).add(epoch, bucketful(clock.now_ms(), ledger))
            registry.host(KEY).seal(epoch)
            await elapse(clock, 200)
        assert merging.held_count
        clearing = asyncio.create_task(registry.host(KEY).clear(epoch, reset_to=Position(0, 5)))
        await settle()
        merging.open()
        await elapse(clock, 5_000)
        await clearing
    assert (registry.counters.merges_failed, registry.counters.snapshots_missing) == (1, 0)
    assert [entry for entry in logs if entry["log_level"] != "debug"] == []
    await registry.close()


async def test_a_foreign_writer_is_somebody_else(registry, storage, clock):
    """A takeover by another process is one warning."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    await storage.inner.replace(*KEY, remove=(), add=(), epoch=epoch + 1, writer="another process")
    with capture_logs() as logs:
        registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
        registry.host(KEY).seal(epoch)
        await elapse(clock, 1_000)
    (told,) = (entry for entry in logs if entry["event"] == FENCED)
    assert (told["log_level"], told["reason"], told["attempt"]) == ("warning", "SNAPSHOT_CONFLICT", 1)
    assert line("tracker closed", reason="FENCED") in logs


async def test_the_end_of_trouble_is_told(registry, storage, clock):
    """The end of a failure is logged with its duration; a success without an earlier failure is not logged."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    down = [StorageUnavailable("the disk is gone")] * 3
    storage.before["create_bucket_snapshot"] = failing(*down)
    with capture_logs() as logs:
        for ledger in (1, 11):
            registry.host(KEY).add(epoch, bucketful(clock.now_ms(), ledger))
            registry.host(KEY).add(epoch, indexes(clock.now_ms(), (ledger + 1, 0, FAR_MS)))
            await elapse(clock, 2_000)
    over = [entry for entry in logs if entry["event"] == "storage works again"]
    lasted_ms = over[0].pop("lasted_ms") if over else 0
    assert over == [line("storage works again", failure=STORE_FAILED, attempts=1)]
    assert TINY.retry_backoff_ms <= lasted_ms <= TINY.retry_backoff_ms + 10


async def test_many_trackers_that_open_at_once_are_a_hundred_lines_a_minute(registry, clock):
    """The minute ends with one that counts the others."""
    keys = [TrackerKey(KEY.topic, f"sub-{number}") for number in range(LINES_MAX + 3)]
    with capture_logs() as logs:
        for key in keys:
            await registry.open(key, owner="tests", mark_delete=None)
        clock.advance(MINUTE_MS)
    told = [entry for entry in logs if entry["event"] == "tracker opened"]
    assert len(told) == LINES_MAX + 1
    assert told[-1] == {"event": "tracker opened", "log_level": "info", "suppressed": 3}


def test_events_have_budgets_of_their_own():
    """A burst of one silences no other; a minute later both may be told again."""
    clock = ManualClock()
    left_out = []
    budget = LogRateLimiter(clock, lines_max=1, left_out=lambda event, count: left_out.append((event, count)))
    assert [budget.allows(event) for event in ("a", "a", "a", "b")] == [True, False, False, True]
    assert left_out == []
    clock.advance(MINUTE_MS)
    assert left_out == [("a", 2)]
    assert [budget.allows(event) for event in ("a", "a", "b")] == [True, False, True]
    clock.advance(MINUTE_MS)
    assert left_out == [("a", 2), ("a", 1)]


async def test_a_stop_that_cuts_off_operations_says_so(registry, storage, clock):
    """A stop that cuts off operations is logged, because the grace period may be too short."""
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    storage.before["create_bucket_snapshot"] = Gate()
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), 1))
    registry.host(KEY).seal(epoch)
    await settle()
    with capture_logs() as logs:
        draining = asyncio.create_task(registry.drain(1_000))
        await elapse(clock, 1_000)
        await draining
    assert logs == [
        {"event": "grace period over, operations in progress are cancelled", "log_level": "warning", "tracker_count": 1}
    ]
