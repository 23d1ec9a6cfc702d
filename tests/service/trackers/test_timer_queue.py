"""One timer for all trackers."""

from contextvars import ContextVar

from delayed_tracker.core.values.instant import Wakeup
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.trackers.timer_queue import WAKES_PER_TURN_MAX, TimerQueue


def at(when_ms):
    return Wakeup(when_ms, None)


class _Sleeper:
    def __init__(self, clock, again=None):
        self.clock = clock
        self.woken_at = []
        self.again = again

    def wake(self):
        self.woken_at.append(self.clock.now_ms())
        if self.again:
            self.again(self)


def test_each_sleeper_wakes_at_its_own_moment_and_once():
    """Arming again replaces the earlier wake-up, and None cancels it."""
    clock = ManualClock(0)
    queue = TimerQueue(clock)
    early, moved, never = (_Sleeper(clock) for _ in range(3))
    queue.arm(early, at(10))
    queue.arm(moved, at(5))
    queue.arm(moved, at(20))
    queue.arm(moved, at(15))
    queue.arm(never, at(7))
    queue.disarm(never)
    queue.disarm(never)

    clock.advance(100)

    assert (early.woken_at, moved.woken_at, never.woken_at) == ([10], [15], [])
    assert len(queue) == 0
    assert clock.next_timer_in_ms() is None


def test_a_sleeper_may_arm_itself_from_its_wake():
    """A sleeper may set its next wake-up while it is woken."""
    clock = ManualClock(0)
    queue = TimerQueue(clock)
    sleeper = _Sleeper(clock, again=lambda one: queue.arm(one, at(clock.now_ms() + 10)))
    queue.arm(sleeper, at(10))
    clock.advance(35)
    assert sleeper.woken_at == [10, 20, 30]


def test_many_sleepers_share_one_timer():
    """Ten thousand armed sleepers need one timer, and the queue does not grow when they are armed again."""
    clock = ManualClock(0)
    queue = TimerQueue(clock)
    sleepers = [_Sleeper(clock) for _ in range(10_000)]
    for round_ in range(5):
        for number, sleeper in enumerate(sleepers):
            queue.arm(sleeper, at(1_000 + number + round_))
    live_timers = [timer for heap in (clock._at, clock._after) for _, _, timer in heap if timer.callback]
    assert len(live_timers) == 1
    assert len(queue._wall._heap) < 3 * len(sleepers)


def test_a_crowd_is_woken_in_turns():
    """A large number of sleepers is woken in parts, between which other tasks run."""
    clock = ManualClock(0)
    queue = TimerQueue(clock)
    sleepers = [_Sleeper(clock) for _ in range(2 * WAKES_PER_TURN_MAX + 1)]
    for sleeper in sleepers:
        queue.arm(sleeper, at(5))
    clock._elapsed_ms = 5
    clock._fire_one()
    assert sum(bool(sleeper.woken_at) for sleeper in sleepers) == WAKES_PER_TURN_MAX
    clock.advance(0)
    assert all(sleeper.woken_at == [5] for sleeper in sleepers)


def test_a_failing_sleeper_takes_no_timer_from_the_others():
    """An exception in one wake-up leaves the queue armed for the rest."""
    clock = ManualClock(0)
    queue = TimerQueue(clock)
    broken = _Sleeper(clock, again=lambda _: 1 / 0)
    healthy = _Sleeper(clock)
    queue.arm(broken, at(5))
    queue.arm(healthy, at(6))
    try:
        clock.advance(5)
    except ZeroDivisionError:
        clock.advance(1)
    assert healthy.woken_at == [6]


def test_what_a_sleeper_does_is_not_done_for_the_call_that_armed_the_timer():
    """A wake-up does not have the context variables of the call that set the timer."""
    clock, variable, seen = ManualClock(0), ContextVar("call", default="nobody's"), []
    queue = TimerQueue(clock)
    sleeper = _Sleeper(clock, again=lambda _: seen.append(variable.get()))
    variable.set("somebody's")
    queue.arm(sleeper, at(10))
    clock.advance(10)
    assert seen == ["nobody's"]
