"""Comparison of two indexes: every kind of difference, and the cases that are no difference."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.spark.steps.comparing import ABOVE_ALL, ComparisonRules, Finding, NumberedIndexes, compare
from delayed_tracker.spark.steps.unread import BadRun, UnreadEntries

CUTOFF_MS = 1_000


def numbered(*of_subscribers):
    """Return the rows (deadline, ledger, entry) of each subscription, numbered from 0; the last ones come first."""
    parts = [
        NumberedIndexes(np.full(len(rows), number, np.int64), IndexColumns.of(rows))
        for number, rows in enumerate(of_subscribers)
    ]
    return NumberedIndexes.concat(parts[::-1])


def rows(deadlines):
    return [(at_ms, *place) for place, at_ms in deadlines.items()]


def rules(*tails, ends=None, unread=None, is_compared=None):
    places = [ABOVE_ALL if tail is None else tail for tail in tails]
    return ComparisonRules(
        CUTOFF_MS,
        np.ones(len(tails), np.bool_) if is_compared is None else np.array(is_compared),
        PositionColumns(*np.array(places, np.int64).T),
        PositionColumns(*np.array(ends or [ABOVE_ALL] * len(tails), np.int64).T),
        unread or {},
    )


def found_of(compared, finding, subscriber=0):
    """Return the positions of a kind that a subscription has, in order."""
    mine = compared.findings[finding] & (compared.subscriber == subscriber)
    return [tuple(position) for position in compared.positions.take(mine)]


deadlines = st.dictionaries(
    st.tuples(st.sampled_from([0, 3, 2**62]), st.sampled_from([0, 1, 7, 2**32 - 1])), st.integers(1_001, 1_003)
)
tails = st.none() | st.tuples(st.sampled_from([0, 3, 2**62]), st.integers(0, 8))
sides = st.lists(st.tuples(deadlines, deadlines, tails), min_size=1, max_size=3)


@given(sides)
def test_differences_are_those_of_dictionaries(of_subscribers):
    """The differences of each subscription equal those of dictionaries, for any positions and any tail."""
    expected, found, tails = zip(*of_subscribers, strict=True)
    one = compare(numbered(*map(rows, expected)), numbered(*map(rows, found)), rules(*tails))
    counts = one.counts(len(tails))
    for number, (ours, theirs, tail) in enumerate(of_subscribers):
        lacking = sorted(ours.keys() - theirs.keys())
        differing = [place for place in sorted(ours.keys() & theirs.keys()) if ours[place] != theirs[place]]
        wanted = {
            Finding.EXPECTED: sorted(ours),
            Finding.FOUND: sorted(theirs),
            Finding.MISSING: [place for place in lacking if tail is None or place < tail],
            Finding.EXTRA: sorted(theirs.keys() - ours.keys()),
            Finding.DIFFERING: differing,
            Finding.TOO_RECENT: [place for place in lacking if tail is not None and place >= tail],
            Finding.NEWER: [],
        }
        assert {finding: found_of(one, finding, number) for finding in Finding} == wanted
        assert counts[:, number].tolist() == [len(wanted[finding]) for finding in Finding]
        mine = one.subscriber == number
        known = [tuple(position) for position in one.positions.take(mine)]
        assert one.ledger_ms[mine].tolist() == [ours.get(place, -1) for place in known]
        assert one.index_ms[mine].tolist() == [theirs.get(place, -1) for place in known]


def test_what_is_due_is_left_out_on_both_sides():
    """Positions that are due when the index is read are neither missing nor extra: they are being delivered."""
    some = numbered([(CUTOFF_MS, 1, 0), (CUTOFF_MS + 1, 1, 1)])
    one = compare(numbered([]), some, rules(None))
    assert (found_of(one, Finding.FOUND), found_of(one, Finding.EXTRA)) == ([(1, 1)], [(1, 1)])
    one = compare(some, numbered([]), rules(None))
    assert (found_of(one, Finding.EXPECTED), found_of(one, Finding.MISSING)) == ([(1, 1)], [(1, 1)])


def test_what_is_above_the_ledgers_that_were_read_is_not_extra():
    """Messages that were published after the ends of the ledgers were fixed are counted, and are no difference."""
    index = [(2_000, 1, 9), (2_000, 3, 4), (2_000, 3, 5), (2_000, 4, 0)]
    one = compare(numbered([], []), numbered(index, index), rules(None, None, ends=[(3, 5), ABOVE_ALL]))
    assert found_of(one, Finding.EXTRA) == [(1, 9), (3, 4)]
    assert found_of(one, Finding.NEWER) == [(3, 5), (4, 0)]
    assert found_of(one, Finding.EXTRA, 1) == [row[1:] for row in index]


def test_what_nobody_can_read_is_not_extra():
    """Positions of unreadable entries of a topic are not extra; all other positions that the ledgers lack are."""
    unread = UnreadEntries([BadRun("topic", 1, 0, 2), BadRun(None, 2, None, 1)], {}).positions("topic")
    index = [(2_000, 1, 1), (2_000, 1, 2), (2_000, 2, 9), (2_000, 3, 0)]
    one = compare(
        numbered([], [], []), numbered(index, index, []), rules(None, None, None, unread={0: unread, 2: unread})
    )
    assert found_of(one, Finding.EXTRA) == [(1, 2), (3, 0)]
    assert found_of(one, Finding.EXTRA, 1) == [(1, 1), (1, 2), (2, 9), (3, 0)]


def test_a_subscription_that_is_not_compared_has_no_findings():
    """Rows of an index that broke off, and those that it would be compared with, are left out."""
    some = [(2_000, 1, 0)]
    one = compare(numbered(some, some), numbered(some, some), rules(None, None, is_compared=[True, False]))
    assert one.counts(2).tolist() == [[1, 0], [1, 0], *[[0, 0]] * 5]


def test_all_are_counted_and_the_first_are_listed():
    """The lists of each subscription are bounded, so a lost index does not fill the memory."""
    one = compare(
        numbered(*([(2_000, 1, entry) for entry in range(count)] for count in (9, 3))), numbered(), rules(None, None)
    )
    assert one.counts(2)[Finding.MISSING].tolist() == [9, 3]
    listed = one.listed(Finding.MISSING, 5)
    assert one.subscriber[listed].tolist() == [0] * 5 + [1] * 3
    assert one.positions.take(listed).entry_id.tolist() == [0, 1, 2, 3, 4, 0, 1, 2]


def test_a_position_in_two_buckets_counts_once():
    """A position that occurs twice counts once, with its earliest deadline."""
    both = numbered([(3_000, 1, 0), (2_000, 1, 0)])
    one = compare(both, numbered([(2_000, 1, 0)]), rules(None))
    assert one.counts(1)[:, 0].tolist() == [1, 1, 0, 0, 0, 0, 0]


def test_the_last_ledger_has_no_tail():
    """Without a tail even the highest position is missing."""
    highest = Position(2**63 - 1, 2**32 - 1)
    one = compare(numbered([(2_000, *highest)]), numbered([]), rules(None))
    assert found_of(one, Finding.MISSING) == [highest]
