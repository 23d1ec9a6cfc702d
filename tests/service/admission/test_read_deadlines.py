"""Reads with a time limit, for which one timer serves all of them."""

import asyncio

import pytest

from delayed_tracker.service.admission.request_admission import ReadDeadlines


async def test_a_read_that_takes_too_long_is_cut_short_and_others_go_on():
    """A read that times out is cut short, but its task is not cancelled and can still answer the caller."""
    deadlines = ReadDeadlines(20)
    never = asyncio.get_running_loop().create_future()
    with pytest.raises(TimeoutError):
        await deadlines.within(never)
    assert never.cancelled()
    assert asyncio.current_task().cancelling() == 0
    assert await deadlines.within(asyncio.sleep(0, "read")) == "read"


async def test_a_caller_that_goes_away_cancels_its_read():
    """A cancelled caller cancels its read without a timeout error."""
    deadlines = ReadDeadlines(60_000)
    reading = asyncio.ensure_future(deadlines.within(asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_every_read_has_its_own_time():
    """A read that begins while another is in progress times out later than that one."""
    deadlines = ReadDeadlines(20)
    ended: list[str] = []

    async def read(name: str):
        with pytest.raises(TimeoutError):
            await deadlines.within(asyncio.get_running_loop().create_future())
        ended.append(name)

    first = asyncio.ensure_future(read("first"))
    await asyncio.sleep(0.015)
    await asyncio.gather(first, read("second"))
    assert ended == ["first", "second"]
