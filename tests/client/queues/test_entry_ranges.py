"""Tests of dividing ranges of entries into calls of a limited size."""

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.client import EntryRange
from delayed_tracker.client.queues.entry_ranges import put_together, range_batches


@st.composite
def ranges(draw):
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        first = draw(st.integers(0, 30))
        rows.append(EntryRange(draw(st.integers(1, 3)), first, first + draw(st.integers(0, 25))))
    return rows


def untracked(asked, tracked):
    """Return the service's answer: the untracked parts of each range, in order."""
    for ledger_id, first, last in asked:
        begin = None
        for entry_id in range(first, last + 2):
            free = entry_id <= last and (ledger_id, entry_id) not in tracked
            if free and begin is None:
                begin = entry_id
            elif not free and begin is not None:
                yield EntryRange(ledger_id, begin, entry_id - 1)
                begin = None


@given(
    ranges(),
    st.sets(st.tuples(st.integers(1, 3), st.integers(0, 60))),
    st.integers(1, 4),
    st.integers(1, 20),
)
def test_however_ranges_are_cut_the_answer_is_the_same(asked, tracked, ranges_max, entries_max):
    """Calls keep both limits, and their joined answers are the answer of one call."""
    found: list[EntryRange] = []
    for batch in range_batches(asked, ranges_max=ranges_max, entries_max=entries_max):
        assert 1 <= len(batch.ranges) <= ranges_max
        assert sum(last - first + 1 for _, first, last in batch.ranges) <= entries_max
        put_together(found, untracked(batch.ranges, tracked), is_continuation=batch.is_continuation)
    assert found == list(untracked(asked, tracked))


def test_no_ranges_make_no_call():
    """No ranges make no call, because the service would refuse it."""
    assert list(range_batches([])) == []
