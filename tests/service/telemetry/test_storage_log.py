"""Log lines about storage failures: they are sufficient to act on, and far fewer than the failures."""

import asyncio
import dataclasses

import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.storage.degradation import degradation_of
from delayed_tracker.service.telemetry.storage_log import (
    CHECKPOINT_FAILED,
    DELETE_FAILED,
    LOAD_FAILED,
    LOG_BROKEN,
    LOG_LINES_MAX,
    LOG_NOT_CUT,
    LOG_NOT_WRITTEN,
    LOG_WORKS_AGAIN,
    MERGE_FAILED,
    RECOVERY_FAILED,
    SNAPSHOT_LOST,
    STORE_FAILED,
    AddLogEvents,
    FailureLog,
)
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from tests.service.harness.shell import KEY, TINY, bucketful, elapse, failing, indexes, make_registry, settle

FAR_MS = 1_000_000
DOWN = [StorageUnavailable("the disk is gone")] * 3
"""As many failures as one operation has attempts."""


@pytest.fixture
async def epoch(registry):
    return (await registry.open(KEY, owner="tests", mark_delete=None)).epoch


def sealed(registry, epoch, clock, ledger=1, **kwargs):
    registry.host(KEY).add(epoch, bucketful(clock.now_ms(), ledger, **kwargs))
    registry.host(KEY).add(epoch, indexes(clock.now_ms(), (ledger + 1, 0, FAR_MS)))


def of(logs, event):
    """Return the lines of one event, without the fields that all of them have."""
    lines = [dict(line) for line in logs if line["event"] == event]
    for line in lines:
        assert (line.pop("log_level"), line.pop("topic"), line.pop("subscription")) == ("warning", *KEY)
        del line["event"]
    return lines


async def test_a_failed_store_says_what_stays_in_memory(registry, storage, clock, epoch):
    """The line comes after all attempts have failed, with the pause before the next try."""
    storage.before["create_bucket_snapshot"] = failing(*DOWN[:2])
    with capture_logs() as logs:
        sealed(registry, epoch, clock)
        await elapse(clock, 1_000)
    assert logs == []
    storage.before["create_bucket_snapshot"] = failing(*DOWN)
    with capture_logs() as logs:
        sealed(registry, epoch, clock, 11)
        await elapse(clock, 1_000)
    expected = {
        "attempt": 1,
        "suppressed": 0,
        "reason": "STORAGE_UNAVAILABLE",
        "error": "the disk is gone",
        "retry_in_ms": TINY.retry_backoff_ms,
        "position_count": 6,
    }
    assert of(logs, STORE_FAILED) == [expected]


async def test_lasting_trouble_is_one_line_a_minute(registry, storage, clock, epoch):
    """A line has the number of lines that it stands for, and a success starts the count anew."""
    storage.before["create_bucket_snapshot"] = failing(*DOWN * 1_000)
    with capture_logs() as logs:
        sealed(registry, epoch, clock)
        await elapse(clock, 150_000)
    lines = of(logs, STORE_FAILED)
    assert [line["attempt"] - line["suppressed"] for line in lines] == [
        1,
        lines[0]["attempt"] + 1,
        lines[1]["attempt"] + 1,
    ]
    # The pause between two attempts grows to 8 s.
    assert all(line["suppressed"] >= 6 for line in lines[1:])
    del storage.before["create_bucket_snapshot"]
    await elapse(clock, 8_000)
    storage.before["create_bucket_snapshot"] = failing(*DOWN)
    with capture_logs() as logs:
        sealed(registry, epoch, clock, 11)
        await elapse(clock, 1_000)
    assert [line["attempt"] for line in of(logs, STORE_FAILED)] == [1]


async def test_each_tracker_and_kind_has_lines_of_its_own(registry, storage, clock, epoch):
    """Failed loads and failed deletes are logged separately."""
    sealed(registry, epoch, clock, delay_ms=5_000)
    await settle()
    storage.before["get_bucket_snapshot_segments"] = failing(*DOWN)
    storage.before["delete_bucket_snapshot"] = failing(*DOWN)
    with capture_logs() as logs:
        await elapse(clock, 3_500)
        registry.host(KEY).seal(epoch)
        await elapse(clock, 500)
        clearing = asyncio.create_task(registry.host(KEY).clear(epoch))
        await elapse(clock, 5_000)
        await clearing
    (load,) = of(logs, LOAD_FAILED)
    assert (load["bucket_id"], load["error"]) == (1, "the disk is gone")
    (delete,) = of(logs, DELETE_FAILED)
    assert delete["bucket_id"] == 1


@pytest.mark.parametrize("error", [SnapshotNotFound("gone"), SnapshotCorrupt("bad checksum")])
async def test_a_lost_snapshot_is_named(registry, storage, clock, epoch, error):
    """A lost snapshot is not tried again, since the dispatcher has to replay."""
    sealed(registry, epoch, clock, delay_ms=5_000)
    await settle()
    storage.before["get_bucket_snapshot_segments"] = failing(error)
    with capture_logs() as logs:
        await elapse(clock, 4_000)
    (line,) = of(logs, SNAPSHOT_LOST)
    assert (line["bucket_id"], line["reason"], line["error"]) == (1, error.reason, error.message)
    assert "retry_in_ms" not in line


async def test_a_merge_that_fails_names_its_buckets(storage, clock):
    """The line names the buckets that stay separate, and the reason."""
    registry = make_registry(storage, clock, limits=dataclasses.replace(TINY, max_num_buckets=1))
    await registry.start()
    epoch = (await registry.open(KEY, owner="tests", mark_delete=None)).epoch
    storage.before["get_bucket_snapshot_segments"] = failing(*DOWN)
    with capture_logs() as logs:
        sealed(registry, epoch, clock)
        sealed(registry, epoch, clock, 11)
        registry.host(KEY).seal(epoch)
        await elapse(clock, 200)
    (line,) = of(logs, MERGE_FAILED)
    assert len(line["bucket_ids"]) == 2
    await registry.close()


async def test_a_recovery_and_a_checkpoint_that_fail_are_told(registry, storage, clock, epoch):
    """A failed recovery and a failed checkpoint are logged, and neither is repeated automatically."""
    sealed(registry, epoch, clock)
    await settle()
    registry.host(KEY).cancel(epoch, PositionColumns.of([(1, 0)]))
    storage.before["list"] = failing(DOWN[0])
    with capture_logs() as logs:
        await registry.close_tracker(KEY, epoch)
    assert len(of(logs, CHECKPOINT_FAILED)) == 1
    storage.before["list"] = failing(*DOWN * 2)
    with capture_logs() as logs:
        for _ in range(2):
            opening = asyncio.create_task(registry.open(KEY, owner="tests", mark_delete=None))
            await elapse(clock, 1_000)
            assert isinstance(opening.exception(), StorageUnavailable)
    assert len(of(logs, RECOVERY_FAILED)) == 1


@pytest.mark.parametrize("pause_ms", range(1_000, 2_000, 100))
async def test_a_failed_store_of_what_is_consumed_does_not_last(registry, storage, clock, epoch, pause_ms):
    """A service is not degraded any more once nothing is left of what could not be stored."""
    storage.before["create_bucket_snapshot"] = failing(*DOWN * 1_000)
    sealed(registry, epoch, clock)
    await elapse(clock, pause_ms)
    assert degradation_of(registry.log, registry.access.failures) == "snapshots are not stored (trackers: 1)"
    registry.host(KEY).advance_mark_delete(epoch, Position(2, 0))
    await elapse(clock, 2_000)
    assert degradation_of(registry.log, registry.access.failures) == ""


@pytest.mark.parametrize("pause_ms", range(3_500, 4_500, 100))
async def test_a_failed_load_of_what_is_consumed_does_not_last(registry, storage, clock, epoch, pause_ms):
    """The same for segments that could not be loaded."""
    sealed(registry, epoch, clock, delay_ms=5_000)
    await settle()
    storage.before["get_bucket_snapshot_segments"] = failing(*DOWN * 1_000)
    await elapse(clock, pause_ms)
    assert degradation_of(registry.log, registry.access.failures) == "segments are not loaded (trackers: 1)"
    registry.host(KEY).advance_mark_delete(epoch, Position(2, 0))
    await elapse(clock, 2_000)
    assert degradation_of(registry.log, registry.access.failures) == ""


def test_failures_of_trackers_that_are_not_open_are_bounded():
    """Anybody may ask for trackers of any name while the storage is away; the last thousand are known."""
    clock = ManualClock()
    log = FailureLog(clock, retry_ms=1_000)
    keys = [TrackerKey(f"topic-{number}", "s") for number in range(2_500)]
    log.failed(keys[0], STORE_FAILED, DOWN[0])
    for key in [*keys, keys[1_600]]:
        log.failed(key, RECOVERY_FAILED, DOWN[0], retried=False)
    assert log.lasting_count(RECOVERY_FAILED) == 1_000
    assert [log.lasts(keys[number]) for number in (0, 1, 1_499, 1_500, 2_499)] == [True, False, False, True, True]
    log.failed(TrackerKey("another", "s"), RECOVERY_FAILED, DOWN[0], retried=False)
    assert [log.lasts(keys[number]) for number in (1_500, 1_600)] == [False, True]
    for key in keys:
        log.succeeded(key, RECOVERY_FAILED)
    assert [log.lasting_count(event) for event in (RECOVERY_FAILED, STORE_FAILED)] == [1, 1]


def test_an_outage_of_all_trackers_is_a_hundred_lines_a_minute():
    """The last line of the minute counts the trackers without one; each of them has its turn while the outage lasts."""
    clock = ManualClock()
    log = FailureLog(clock, retry_ms=1_000)
    keys = [TrackerKey(f"topic-{number}", "s") for number in range(250)]
    with capture_logs() as logs:
        for key in keys:
            log.failed(key, LOAD_FAILED, DOWN[0])
        clock.advance(59_999)
    assert [line["topic"] for line in logs] == [key.topic for key in keys[:100]]
    with capture_logs() as logs:
        clock.advance(1)
    assert logs == [{"event": LOAD_FAILED, "log_level": "warning", "suppressed": 150}]
    with capture_logs() as logs:
        log.failed(keys[200], LOAD_FAILED, DOWN[0])
        for key in keys:
            log.succeeded(key, LOAD_FAILED)
        clock.advance(60_000)
    assert (logs[0]["topic"], logs[0]["attempt"], logs[0]["suppressed"]) == ("topic-200", 2, 1)
    assert len(logs) == 102
    assert logs[-1] == {"event": "storage works again", "log_level": "warning", "suppressed": 150}


@pytest.mark.parametrize(
    ("event", "tell"),
    [
        (LOG_NOT_WRITTEN, lambda events: events.not_written(DOWN[0])),
        (LOG_WORKS_AGAIN, lambda events: events.works_again(3)),
        (LOG_NOT_CUT, lambda events: events.not_cut(KEY, DOWN[0])),
    ],
)
def test_an_add_log_that_fails_and_works_in_turns_is_ten_lines_a_minute(event, tell):
    """A storage that fails every third call does so hundreds of times a second; the minute's last line counts the rest."""
    clock = ManualClock()
    events = AddLogEvents(clock)
    with capture_logs() as logs:
        for _ in range(3 * LOG_LINES_MAX):
            tell(events)
        clock.advance(60_000)
    assert [line["event"] for line in logs] == [event] * (LOG_LINES_MAX + 1)
    assert logs[-1]["suppressed"] == 2 * LOG_LINES_MAX


def test_a_broken_add_log_is_told_whatever_was_told_before():
    """It is the line that an operator needs."""
    events = AddLogEvents(ManualClock())
    with capture_logs() as logs:
        for _ in range(3 * LOG_LINES_MAX):
            events.not_written(DOWN[0])
        events.broken(DOWN[0])
    assert logs[-1]["event"] == LOG_BROKEN
