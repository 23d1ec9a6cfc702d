"""Tests of the rate of reading, with a clock that the test moves."""

import random

import pytest

from delayed_tracker.ledger.live.throttle import Throttle


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_reader_that_waits_as_told_has_the_rate():
    """In every period, the bytes are at most those of the rate and one entry more."""
    clock, entry_sizes = Clock(), random.Random(5)
    throttle = Throttle(1_000, clock)
    read: list[tuple[float, int]] = []
    for _ in range(2_000):
        size = entry_sizes.randint(1, 5_000)
        read.append((clock.now, size))
        clock.now += throttle.take(size) + entry_sizes.choice([0.0, 0.0, 0.3])
    for start in range(0, len(read), 7):
        size = 0
        for at, entry in read[start : start + 200]:
            assert size <= 1_000 * (at - read[start][0]) + 1e-6
            size += entry


def test_time_without_reading_is_not_saved_up():
    """A reader that was idle for an hour waits as long as any other."""
    clock = Clock()
    throttle = Throttle(1_000, clock)
    clock.now += 3_600
    assert throttle.take(500) == pytest.approx(0.5)
    assert throttle.take(500) == pytest.approx(1.0)
    clock.now += 0.75
    assert throttle.take(0) == pytest.approx(0.25)


def test_without_a_limit_nothing_waits():
    """No time is counted."""
    assert Throttle(None, Clock()).take(10**12) == 0
