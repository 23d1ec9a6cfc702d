"""Tests of the bound on requests in flight, and of those who wait for room."""

import asyncio

import pytest

from delayed_tracker.bookkeeper.wire.in_flight import InFlight


async def settle() -> None:
    """Let tasks that can run, run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_both_bounds_hold():
    """Room ends at the number of requests, and at their bytes."""
    few, small = InFlight(2, 1_000), InFlight(1_000, 100)

    assert [few.try_take(1) for _ in range(3)] == [True, True, False]
    assert [small.try_take(50) for _ in range(3)] == [True, True, False]
    assert (few.requests, small.bytes) == (2, 100)


async def test_room_is_given_in_turn():
    """A large request that waits is not overtaken by small ones, neither by those that wait nor by those that do not."""
    room = InFlight(10, 100)
    assert room.try_take(60)
    order = []

    async def wait(name: str, count: int) -> None:
        await room.take(count)
        order.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(wait("large", 90))
        await settle()
        group.create_task(wait("small", 5))
        await settle()
        assert order == []
        assert not room.try_take(1)
        room.give(60)
        await settle()
        assert order == ["large", "small"]
    assert (room.requests, room.bytes) == (2, 95)


async def test_several_requests_take_their_room_together():
    """They wait until there is room for all of them, and give it back as they like."""
    room = InFlight(3, 100)
    assert room.try_take(10, 2)
    assert not room.try_take(10, 2)
    waiting = asyncio.create_task(room.take(30, 3))
    await settle()
    room.give(5)
    await settle()
    assert not waiting.done()
    room.give(5)
    await waiting
    assert (room.requests, room.bytes) == (3, 30)
    room.give(30, 3)
    assert (room.requests, room.bytes) == (0, 0)


@pytest.mark.parametrize("is_granted", [False, True])
async def test_who_leaves_takes_no_room(is_granted):
    """A waiting call that is cancelled, even just after it got its turn, leaves its room to the next one."""
    room = InFlight(10, 100)
    assert room.try_take(60)
    first = asyncio.create_task(room.take(90))
    await settle()
    second = asyncio.create_task(room.take(10))
    await settle()
    if is_granted:
        room.give(60)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second

    assert room.bytes == (10 if is_granted else 70)
