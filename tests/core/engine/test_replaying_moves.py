"""A log in which the cursor moves back gives the tracker that a naive reader of it has, however much is applied at a time."""

from hypothesis import example, given
from hypothesis import strategies as st

from delayed_tracker.core.values.changes import (
    Added,
    CursorMoved,
    MarkDeleteAdvanced,
    OfferedThrough,
    Removed,
    Rescheduled,
)
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import DUE_MS, Shell

LIMITS = TrackerLimits(strict=True, min_index_count_per_bucket=3, mutable_indexes_max=5, late_indexes_max=2)
PLACES = st.builds(Position, st.integers(1, 3), st.integers(0, 4))
CURSORS = st.builds(Position, st.integers(0, 3), st.integers(-1, 4)) | st.just(BEFORE_ALL)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.lists(PLACES, min_size=1, max_size=5, unique=True), st.integers(0, 9)),
    st.tuples(st.just("remove"), st.lists(PLACES, min_size=1, max_size=3, unique=True)),
    st.tuples(st.just("reschedule"), st.lists(PLACES, min_size=1, max_size=3, unique=True), st.integers(0, 9)),
    st.tuples(st.just("advance"), CURSORS),
    st.tuples(st.just("move"), CURSORS),
    st.tuples(st.just("claim"), CURSORS),
)


class NaiveReader:
    """The changes that a tracker would log for these steps, and what is tracked after them."""

    def __init__(self):
        self.tracked, self.mark_delete, self.claim, self.changes = {}, BEFORE_ALL, BEFORE_ALL, []

    def play(self, verb, *terms):
        getattr(self, verb)(*terms)

    def add(self, places, delay_ms):
        fresh = [place for place in places if place > self.mark_delete and place not in self.tracked]
        self._date(Added, fresh, delay_ms)

    def reschedule(self, places, delay_ms):
        self._date(Rescheduled, [place for place in places if place in self.tracked], delay_ms)

    def _date(self, kind, places, delay_ms):
        if places:
            self.tracked.update((place, DUE_MS + delay_ms) for place in places)
            self.changes.append(kind(IndexColumns.of([(DUE_MS + delay_ms, *place) for place in places])))

    def remove(self, places):
        gone = [place for place in places if self.tracked.pop(place, None) is not None]
        if gone:
            self.changes.append(Removed(PositionColumns.of(gone)))

    def advance(self, position):
        if position > self.mark_delete:
            self.mark_delete = position
            self._trim()
            self.changes.append(MarkDeleteAdvanced(position))

    def move(self, position):
        through = max(self.mark_delete, position)
        self.mark_delete, self.claim = position, min(self.claim, position)
        self._trim()
        self.changes.append(CursorMoved(position, through))

    def claim_through(self, position):
        self.claim = position
        self.changes.append(OfferedThrough(position))

    def _trim(self):
        self.tracked = {place: ms for place, ms in self.tracked.items() if place > self.mark_delete}


@given(st.lists(STEPS, min_size=1, max_size=25), st.integers(1, 9))
@example([("add", [Position(1, 0)], 3), ("advance", Position(1, 0)), ("move", BEFORE_ALL)], 9)
def test_the_cursor_may_move_back_in_a_log(steps, at_a_time):
    """Deadlines, cursor and claim are those of the verbs."""
    reader = NaiveReader()
    for verb, *terms in steps:
        reader.play("claim_through" if verb == "claim" else verb, *terms)
    shell = Shell.with_limits(LIMITS)
    shell.core.begin_journal(0, BEFORE_ALL)
    for start in range(0, len(reader.changes), at_a_time):
        part = reader.changes[start : start + at_a_time]
        shell.core.replay(range(start + 1, start + 1 + len(part)), part)
        shell.core.check()
    assert shell.core.last_change == len(reader.changes)
    assert (shell.core.mark_delete, shell.core.offered_through) == (reader.mark_delete, reader.claim)
    stats = shell.core.stats()
    assert stats.recovered_count == stats.pending_count == len(reader.tracked)
    assert shell.drain() == sorted((ms, *place) for place, ms in reader.tracked.items())
