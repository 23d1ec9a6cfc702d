"""Comparison of two indexes: every kind of difference, and the cases that are no difference."""

from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.spark.steps.comparing import LISTED_MAX, DeadlineMismatch, compare
from delayed_tracker.spark.steps.unread import UnreadEntries
from delayed_tracker.spark.summary import BadRow

CUTOFF_MS = 1_000


def compared(expected, found, tail_first=None, unread=None):
    return compare(
        "topic",
        "sub",
        IndexColumns.of([(at_ms, *place) for place, at_ms in expected.items()]),
        IndexColumns.of([(at_ms, *place) for place, at_ms in found.items()]),
        tail_first=tail_first,
        cutoff_ms=CUTOFF_MS,
        unread=unread,
    )


deadlines = st.dictionaries(
    st.tuples(st.sampled_from([0, 3, 2**62]), st.sampled_from([0, 1, 7, 2**32 - 1])), st.integers(1_001, 1_003)
)


@given(deadlines, deadlines, st.none() | st.tuples(st.sampled_from([0, 3, 2**62]), st.integers(0, 8)))
def test_differences_are_those_of_dictionaries(expected, found, tail):
    """The differences equal those of dictionaries, for any positions and any tail."""
    tail_first = None if tail is None else Position(*tail)
    one = compared(expected, found, tail_first)
    missing = sorted(place for place in expected.keys() - found.keys() if tail is None or place < tail)
    assert list(one.missing_positions) == missing
    assert list(one.extra_positions) == sorted(found.keys() - expected.keys())
    assert list(one.differing_positions) == [
        DeadlineMismatch(Position(*place), expected[place], found[place])
        for place in sorted(expected.keys() & found.keys())
        if expected[place] != found[place]
    ]
    assert (one.missing, one.extra, one.differing) == tuple(
        map(len, (one.missing_positions, one.extra_positions, one.differing_positions))
    )
    assert one.is_equal == (not (missing or one.extra or one.differing))
    recent = [place for place in expected.keys() - found.keys() if tail is not None and place >= tail]
    assert (one.too_recent, one.compared) == (len(recent), len(expected.keys() & found.keys()))


def test_what_is_due_in_the_index_is_not_extra():
    """An index that is due is not extra: it is being delivered, and the ledgers' side leaves it out."""
    one = compared({}, {(1, 0): CUTOFF_MS, (1, 1): CUTOFF_MS + 1})
    assert (one.found, one.extra_positions) == (1, (Position(1, 1),))


def test_what_nobody_can_read_is_not_extra():
    """Positions of unreadable entries are not extra; all other positions that the ledgers lack are."""
    unread = UnreadEntries([BadRow("topic", 1, 0, 2, "damaged"), BadRow(None, 2, None, 1, "gone")], {}).positions(
        "topic"
    )
    one = compared({}, {(1, 1): 2_000, (1, 2): 2_000, (2, 9): 2_000, (3, 0): 2_000}, unread=unread)
    assert one.extra_positions == (Position(1, 2), Position(3, 0))


def test_all_are_counted_and_the_first_are_listed():
    """The lists are bounded, so a lost index does not fill the memory."""
    one = compared({(1, entry): 2_000 for entry in range(LISTED_MAX + 5)}, {})
    assert (one.missing, len(one.missing_positions)) == (LISTED_MAX + 5, LISTED_MAX)


def test_a_position_in_two_buckets_counts_once():
    """A position in two overlapping buckets counts once."""
    both = IndexColumns.of([(2_000, 1, 0), (3_000, 1, 0)])
    one = compare("topic", "sub", both, both, tail_first=None, cutoff_ms=CUTOFF_MS)
    assert (one.expected, one.found, one.is_equal) == (1, 1, True)
