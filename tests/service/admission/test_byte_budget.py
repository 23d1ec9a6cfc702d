"""Seats of a byte budget: calls that get one, wait for one, or are refused."""

import asyncio

import pytest

from delayed_tracker.service.admission.byte_budget import ByteBudget
from delayed_tracker.service.errors import Overloaded
from tests.service.harness.shell import settle

LONG_MS = 60_000


def budget(seats=4, *, waiting_max=10, wait_max_ms=LONG_MS):
    return ByteBudget(
        "requests",
        bytes_max=seats * 100,
        seat_bytes=100,
        waiting_max=waiting_max,
        wait_max_ms=wait_max_ms,
        retry_after_ms=7,
    )


async def waiting(budget, *methods):
    """Start calls that wait for a seat, in this order."""
    calls = [asyncio.ensure_future(budget.seat(method)) for method in methods]
    await settle()
    assert not any(call.done() for call in calls)
    return calls


async def test_a_call_that_settles_for_less_makes_room_for_the_next():
    """A call that settles for its real size frees the rest of its seat of 100 bytes for other calls."""
    room = budget()
    holds = [await room.seat(method) for method in "abcd"]
    (late,) = await waiting(room, "e")
    holds[0].settle(1)
    await settle()
    assert not late.done()
    holds[1].settle(99)
    await settle()
    assert late.done()
    assert room.held_bytes == 1 + 99 + 300
    for hold in (*holds, late.result()):
        hold.release()
        hold.release()
    assert room.held_bytes == 0


async def test_one_method_leaves_a_quarter_to_the_others():
    """A quarter of the budget stays free for other methods, so large adds never keep an acknowledgement out."""
    room = budget()
    holds = [await room.seat("add") for _ in range(3)]
    (fourth,) = await waiting(room, "add")
    ack = await room.seat("ack")
    assert not fourth.done()
    holds[0].release()
    await settle()
    assert fourth.done()
    ack.release()


async def test_a_full_queue_of_one_method_refuses_no_other_for_which_there_is_room():
    """A call for whose method there is room takes its seat, even if as many calls of another method wait as may."""
    room = budget(waiting_max=1)
    holds = [await room.seat("add") for _ in range(3)]
    (fourth,) = await waiting(room, "add")
    holds.append(await room.seat("ack"))
    with pytest.raises(Overloaded):
        await room.seat("add")
    holds.pop().release()
    holds.append(await room.seat_in_time("stream"))
    assert not fourth.done()
    fourth.cancel()


async def test_methods_that_wait_take_turns():
    """The first waiting call of each method gets a seat before the second of any method."""
    room = budget(seats=1)
    hold = await room.seat("x")
    calls = await waiting(room, "add", "add", "add", "ack", "ack")
    order = []
    for call, name in zip(calls, ("add 1", "add 2", "add 3", "ack 1", "ack 2"), strict=True):
        call.add_done_callback(lambda _, name=name: order.append(name))
    for _ in calls:
        hold.release()
        await settle()
        hold = next(call.result() for call in calls if call.done() and call.result().byte_count)
    assert order == ["add 1", "ack 1", "add 2", "ack 2", "add 3"]


async def test_one_call_more_than_may_wait_is_refused():
    """The number of waiting calls is bounded, and the refusal has a time to retry."""
    room = budget(seats=1, waiting_max=2)
    await room.seat("add")
    await waiting(room, "add", "ack")
    with pytest.raises(Overloaded, match="2 calls wait for room for their requests") as refused:
        await room.seat("poll")
    assert (refused.value.retry_after_ms, room.refused_count, room.waiting_count) == (7, 1, 2)


async def test_a_call_that_has_waited_too_long_is_refused():
    """A call that waits longer than the limit is refused, and releases what it held."""
    room = budget(seats=1, wait_max_ms=1)
    hold = await room.seat("add")
    with pytest.raises(Overloaded, match="100 bytes of requests are in flight, and there was no room for 1 ms"):
        await room.seat("ack")
    hold.release()
    assert (room.refused_count, room.waiting_count, room.held_bytes) == (1, 0, 0)
    (await room.seat("ack")).release()


async def test_a_call_cancelled_while_it_waits_is_passed_over():
    """A cancelled call loses its place in the queue, and a seat that it got at the last moment is released."""
    room = budget(seats=1)
    hold = await room.seat("add")
    first, second, third = await waiting(room, "add", "add", "add")
    first.cancel()
    await settle()
    hold.release()  # the second call's seat, which it can no longer take
    second.cancel()
    await settle()
    assert (first.cancelled(), second.cancelled(), third.done()) == (True, True, True)
    third.result().release()
    assert (room.held_bytes, room.waiting_count) == (0, 0)


async def test_what_is_in_memory_already_is_held_beyond_the_bound():
    """A call may hold more bytes than the bound; then no other call gets a seat."""
    room = budget(seats=1)
    room.require_room()
    hold = room.hold("poll", 150)
    with pytest.raises(Overloaded, match="150 bytes of requests are in flight, which is the limit"):
        room.require_room()
    (late,) = await waiting(room, "add")
    hold.release()
    await settle()
    assert late.done()
