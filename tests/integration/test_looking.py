"""Inspecting a tracker of the real service through each shell, in memory and on disk, without changing it."""

import pytest

from delayed_tracker.client import (
    DelayedTrackerError,
    InvalidArgument,
    MessagePlace,
    Position,
)
from tests.integration.harness.dispatcher import SETTINGS, now_ms
from tests.integration.harness.lab import HOUR_MS, add

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_settings() -> dict[str, str]:
    return SETTINGS


async def test_limits_of_the_service_are_errors_of_the_request(session):
    """A request over a limit of the service is an error that names the field."""
    with pytest.raises(InvalidArgument, match="max_messages"):
        await session.peek(10_001)
    with pytest.raises(InvalidArgument, match="bar_count"):
        await session.histogram(from_ms=0, step_ms=1, bar_count=10_001)
    with pytest.raises(DelayedTrackerError, match="lease_ms"):
        await session.extend(1, 2**32 - 1)


async def test_what_is_in_memory_and_on_disk_can_be_looked_at(session):
    """Peek, explain, histogram and verify agree about 60 sealed messages and 5 in memory."""
    begin_ms = now_ms()
    await add(session, 7, 60, in_ms=2 * HOUR_MS)
    await add(session, 8, 5, in_ms=HOUR_MS)
    while not any(bucket.bucket_id for bucket in await session.buckets()):
        pass
    peeked = await session.peek(10, from_ms=begin_ms)
    assert list(peeked)[:6] == [*(Position(8, entry) for entry in range(5)), Position(7, 0)]
    assert (peeked.truncated, peeked.leased_offsets) == (True, ())
    assert list(await session.peek(100, until_ms=begin_ms)) == []
    counted = await session.histogram(from_ms=begin_ms, step_ms=90 * 60_000, bar_count=2)
    assert (counted.total_count, counted.before_count, counted.counts[0]) == (65, 0, 5)
    sealed = await session.explain(7, 0)
    assert sealed.place is MessagePlace.UNLOADED_SEGMENT
    assert (sealed.bucket_id is not None, sealed.segment) == (True, 0)
    assert sealed.explanation
    waiting = await session.explain(8, 0)
    assert waiting.place is MessagePlace.MEMORY
    assert waiting.deliver_at_ms == peeked.deliver_at_ms[0]
    assert (await session.explain(9, 9)).place is MessagePlace.NOT_TRACKED
    await session.advance_mark_delete(7, 9)
    assert (await session.explain(7, 9)).place is MessagePlace.ACKNOWLEDGED
    report = await session.verify()
    assert report.sound
    assert [(verdict.index_count, verdict.problems) for verdict in report.snapshots] == [(60, ())]
