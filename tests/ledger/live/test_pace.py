"""Tests of the amount that bookies are asked for at a time."""

from delayed_tracker.bookkeeper.stats import BookieCounters
from delayed_tracker.ledger.live.pace import (
    BYTES_AHEAD_MAX,
    BYTES_AHEAD_MIN,
    PAUSE_MAX_S,
    PAUSE_MIN_S,
    SLOW_S,
    Answers,
    Pace,
)

FAST, SLOW = Answers(100, 0, 1.0), Answers(100, 0, 100 * SLOW_S)


def test_fast_bookies_are_asked_for_more_and_slow_ones_for_less():
    """The amount doubles up to its bound, and is halved down to the other."""
    pace = Pace()
    seen = [pace.bytes_ahead]
    for answers in [FAST] * 10 + [SLOW] * 10:
        pace.note(answers)
        seen.append(pace.bytes_ahead)
        assert pace.pause_s == 0
    assert seen[:3] == [BYTES_AHEAD_MIN, 2 * BYTES_AHEAD_MIN, 4 * BYTES_AHEAD_MIN]
    assert max(seen) == BYTES_AHEAD_MAX
    assert seen[11:13] == [BYTES_AHEAD_MAX // 2, BYTES_AHEAD_MAX // 4]
    assert seen[-1] == BYTES_AHEAD_MIN


def test_reading_stops_for_a_while_if_bookies_are_overloaded():
    """One refusal among good answers is enough. Pauses double up to ten seconds, and end with the first good answers."""
    pace = Pace()
    for _ in range(6):
        pace.note(FAST)
    pauses = []
    for _ in range(10):
        pace.note(Answers(1_000, 1, 1.0))
        pauses.append(pace.pause_s)
    assert pauses[:3] == [PAUSE_MIN_S, 2 * PAUSE_MIN_S, 4 * PAUSE_MIN_S]
    assert pauses[-1] == PAUSE_MAX_S
    assert pace.bytes_ahead == BYTES_AHEAD_MIN
    pace.note(FAST)
    assert (pace.pause_s, pace.bytes_ahead) == (0, 2 * BYTES_AHEAD_MIN)


def test_no_answers_change_nothing_but_the_pause():
    """A piece whose entries were all read ahead says nothing about the bookies."""
    pace = Pace()
    pace.note(Answers())
    assert pace.bytes_ahead == BYTES_AHEAD_MIN


def test_answers_are_those_of_all_bookies_since_then():
    """Refusals for too many requests and time-outs count as overload; entries that a bookie lacks do not."""
    one, other = BookieCounters(), BookieCounters()
    one.answered("READ_ENTRY", "OK", 10, 100, 0.5)
    before = Answers.of([one.read("one", 0, 0), other.read("other", 0, 0)])
    assert before == Answers(1, 0, 0.5)
    one.answered("READ_ENTRY", "TOO_MANY_REQUESTS", 10, 0, 0.25)
    one.answered("READ_LAC", "TOO_MANY_REQUESTS", 10, 0, 9)
    one.failed("READ_ENTRY", "BOOKIE_TIMED_OUT", 10)
    other.answered("READ_ENTRY", "NO_ENTRY", 10, 0, 0.25)
    other.answered("READ_BATCH", "TOO_MANY_REQUESTS", 10, 0, 0.25)
    after = Answers.of([one.read("one", 0, 0), other.read("other", 0, 0)])
    assert after.since(before) == Answers(3, 3, 0.75)
