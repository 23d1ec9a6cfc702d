"""Faults of the add log happen as planned."""

import pytest

from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.testing.faults import FaultPlan, parse_fault_plan
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.snapshot_storage.add_log.log_files import append, part, records_of


async def test_an_error_before_does_nothing_and_one_after_does_everything():
    """Both errors are the same for the caller, but only the second one leaves its records in the log."""
    inner = MemoryAddLog()
    await inner.start()
    log = FaultyAddLog(inner, FaultPlan(error_before=1.0))
    with pytest.raises(StorageUnavailable, match="nothing was done"):
        await append(log, part(1, b"1"))
    assert await records_of(inner) == []
    log.plan = FaultPlan(error_after=1.0)
    with pytest.raises(StorageUnavailable, match="done nevertheless"):
        await append(log, part(1, b"1"))
    with pytest.raises(StorageUnavailable):
        await log.extents()
    assert await records_of(inner) == [b"1"]


async def test_an_operation_is_chosen_if_any_of_its_trackers_is():
    """A commit with one part of the plan's topic is slow as a whole; others are not."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    log = FaultyAddLog(MemoryAddLog(), FaultPlan(latency_ms=30_000, topic="slow"), sleep=sleep)
    await log.start()
    slow = LogAppend("slow", "c", 1, 1, [b"1"])
    await append(log, part(1, b"1"))
    await log.read("t", "c", after=0, bytes_max=1)
    await log.cut([("t", "c", 1)])
    await log.extents()
    assert waits == []
    await append(log, part(2, b"2"), slow)
    await log.cut([("t", "c", 1), ("slow", "c", 1)])
    await log.take_over("slow", "c", epoch=2, writer="w")
    assert waits == [30.0] * 3


@pytest.mark.parametrize(
    "point", ["append.before", "append.commit", "append.after", "cut.before", "cut.commit", "cut.after"]
)
def test_a_plan_names_the_points_of_the_log(point):
    """They are options of the same URL as the storage's."""
    assert parse_fault_plan(f"exit={point}:2") == FaultPlan(exit_point=point, exit_arrival=2)
