"""Clocks: the manual one of the tests, and the system's."""

import asyncio

from delayed_tracker.service import clock as clock_module
from delayed_tracker.service.clock import ManualClock, SystemClock, pause


def test_manual_clock_fires_timers_in_order_of_their_moments():
    """Moments and durations share one time line; timers of one instant fire in the order in which they were set."""
    clock = ManualClock(1_000)
    fired = []
    clock.call_at(1_030, lambda: fired.append(("at 1030", clock.now_ms())))
    clock.call_later(10, lambda: fired.append(("after 10", clock.now_ms())))
    clock.call_at(1_010, lambda: fired.append(("at 1010", clock.now_ms())))
    clock.call_later(31, lambda: fired.append(("never", clock.now_ms())))

    clock.advance(30)

    assert fired == [("after 10", 1_010), ("at 1010", 1_010), ("at 1030", 1_030)]


def test_manual_clock_forgets_cancelled_timers():
    """A cancelled timer neither fires nor counts as the next one."""
    clock = ManualClock()
    timer = clock.call_later(5, lambda: 1 / 0)
    timer.cancel()
    timer.cancel()
    assert clock.next_timer_in_ms() is None
    clock.advance(10)


def test_stepping_the_wall_clock_moves_moments_but_not_durations():
    """A step forward makes moments due; a duration still takes its time."""
    clock = ManualClock(1_000)
    fired = []
    clock.call_at(61_000, lambda: fired.append("moment"))
    clock.call_later(60_000, lambda: fired.append("duration"))
    clock.step_wall(60_000)
    assert fired == []
    clock.advance(0)
    assert fired == ["moment"]
    clock.advance(60_000)
    assert fired == ["moment", "duration"]


async def test_pause_ends_by_the_given_clock():
    """A pause ends by its own clock, and leaves no timer behind when it is cancelled."""
    clock = ManualClock()
    paused = asyncio.create_task(pause(clock, 50))
    await asyncio.sleep(0)
    clock.advance(49)
    assert not paused.done()
    clock.advance(1)
    await paused

    cancelled = asyncio.create_task(pause(clock, 50))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.wait([cancelled])
    assert clock.next_timer_in_ms() is None


async def test_system_clock_calls_at_a_moment_and_never_before(monkeypatch):
    """A timer reads the wall clock again before it fires: a step back postpones it, and a step forward is noticed."""
    monkeypatch.setattr(clock_module, "WALL_CHECK_MS", 1)
    clock = SystemClock()
    wall = [5_000]
    monkeypatch.setattr(clock, "now_ms", lambda: wall[0], raising=False)
    looked = asyncio.Event()
    fired = asyncio.Event()
    clock.call_at(9_000, fired.set)
    clock.call_later(10, looked.set)
    await looked.wait()
    assert not fired.is_set()
    wall[0] = 9_000
    await asyncio.wait_for(fired.wait(), 5)


async def test_system_clock_forgets_cancelled_calls():
    """A cancelled timer of either kind does not fire."""
    clock = SystemClock()
    fired = []
    clock.call_at(clock.now_ms(), lambda: fired.append("at")).cancel()
    clock.call_later(0, lambda: fired.append("later")).cancel()
    done = asyncio.Event()
    clock.call_later(1, done.set)
    await done.wait()
    assert fired == []
