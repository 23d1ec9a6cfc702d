"""Reads with a time limit, for which one timer serves all of them."""

import asyncio

import pytest

from delayed_tracker.service.admission.byte_budget import ByteBudget, Hold
from delayed_tracker.service.admission.request_admission import ReadDeadlines, SeatTime
from tests.service.harness.shell import until

LONG_MS = 60_000


def budget() -> ByteBudget:
    return ByteBudget(
        "requests", bytes_max=100, seat_bytes=10, waiting_max=1, wait_max_ms=LONG_MS, retry_after_ms=LONG_MS
    )


def deadlines_of(read_max_ms: int, *, seat_seconds: float = LONG_MS, seatless_max: int = 1) -> ReadDeadlines:
    return ReadDeadlines(read_max_ms, SeatTime(seat_seconds), seatless_max=seatless_max)


def never() -> asyncio.Future[str]:
    return asyncio.get_running_loop().create_future()


async def test_a_read_that_takes_too_long_is_cut_short_and_others_go_on():
    """A read that times out is cut short, but its task is not cancelled and can still answer the caller."""
    deadlines, hold, reading = deadlines_of(20), Hold(budget(), "add"), never()
    with pytest.raises(TimeoutError, match="did not arrive within 20 ms"):
        await deadlines.within(reading, hold)
    assert reading.cancelled()
    assert asyncio.current_task().cancelling() == 0
    assert await deadlines.within(asyncio.sleep(0, "read"), hold) == "read"


async def test_a_caller_that_goes_away_cancels_its_read():
    """A cancelled caller cancels its read without a timeout error."""
    deadlines = deadlines_of(LONG_MS)
    reading = asyncio.ensure_future(deadlines.within(never(), Hold(budget(), "add")))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_every_read_has_its_own_time():
    """A read that begins while another is in progress times out later than that one."""
    deadlines = deadlines_of(20)
    ended: list[str] = []

    async def read(name: str):
        with pytest.raises(TimeoutError):
            await deadlines.within(never(), Hold(budget(), "add"))
        ended.append(name)

    first = asyncio.ensure_future(read("first"))
    await asyncio.sleep(0.015)
    await asyncio.gather(first, read("second"))
    assert ended == ["first", "second"]


async def test_a_late_request_is_read_without_a_seat_and_too_many_late_ones_are_refused():
    """Requests that arrive without a seat are bounded: beside as many late requests as may be, another one is cut short."""
    deadlines, room = deadlines_of(LONG_MS, seat_seconds=0.01, seatless_max=2), budget()
    late = [never() for _ in range(2)]
    reads = [asyncio.ensure_future(deadlines.within(each, await room.seat("add"))) for each in late]
    await until(lambda: room.held_bytes == 0)
    with await room.seat("add") as hold:
        with pytest.raises(TimeoutError, match="2 requests that are late already are the limit"):
            await deadlines.within(never(), hold)
        assert hold.byte_count == 10
    late[0].set_result("read")
    assert await reads[0] == "read"
    reads.append(asyncio.ensure_future(deadlines.within(never(), await room.seat("add"))))
    await until(lambda: room.held_bytes == 0)
    for each in reads:
        each.cancel()
    await asyncio.wait(reads)
