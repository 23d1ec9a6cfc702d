"""The claim that follows from answered offers never passes one that is unanswered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.client import InvalidInput, Position
from delayed_tracker.client.queues.offers import OfferedPrefix


def at(entry_id: int) -> Position:
    return Position(7, entry_id)


def test_the_claim_is_the_end_of_the_answered_prefix():
    """An answer behind a gap moves nothing; the answer that closes the gap moves the claim behind all of them."""
    prefix = OfferedPrefix()
    assert prefix.offered_through is None
    first, second, third = (prefix.begin(at(entry), (b"rows",)) for entry in (3, 5, 9))
    prefix.end(second, is_answered=True)
    assert (prefix.offered_through, prefix.claim_with(third), prefix.claim_with(first)) == (None, None, at(5))
    prefix.end(first, is_answered=True)
    assert (prefix.offered_through, prefix.claim_with(third), len(prefix)) == (at(5), at(9), 1)
    prefix.end(third, is_answered=True)
    assert (prefix.offered_through, len(prefix)) == (at(9), 0)


def test_ranges_without_delayed_entries_need_no_answer():
    """A range that was read and has nothing delayed counts as answered, and takes no memory behind an answered range."""
    prefix = OfferedPrefix(ranges_max=2)
    prefix.passed(at(4))
    prefix.passed(at(4))
    assert (prefix.offered_through, len(prefix)) == (at(4), 0)
    offered = prefix.begin(at(5), (b"",))
    for entry in range(6, 100):
        prefix.passed(at(entry))
    assert (prefix.offered_through, len(prefix)) == (at(4), 2)
    prefix.end(offered, is_answered=True)
    assert prefix.offered_through == at(99)


def test_a_failed_offer_holds_the_claim_until_it_is_repeated():
    """The repetition has the same end and the same rows; anything else is refused."""
    prefix = OfferedPrefix()
    failed = prefix.begin(at(3), (b"rows",))
    with pytest.raises(InvalidInput, match="wait for the answer") as refused:
        prefix.begin(at(3), (b"rows",))
    assert refused.value.field == "read_through"
    prefix.end(failed, is_answered=False)
    with pytest.raises(InvalidInput, match="same rows"):
        prefix.begin(at(3), (b"other",))
    later = prefix.begin(at(4), (b"",))
    prefix.end(later, is_answered=True)
    with pytest.raises(InvalidInput, match="no failed offer"):
        prefix.begin(at(2), (b"rows",))
    with pytest.raises(InvalidInput, match="in order"):
        prefix.begin(at(4), (b"",))
    with pytest.raises(InvalidInput, match="in order"):
        prefix.passed(at(3))
    assert prefix.offered_through is None
    prefix.end(prefix.begin(at(3), (b"rows",)), is_answered=True)
    assert prefix.offered_through == at(4)


def test_unanswered_ranges_are_bounded():
    """One range more than the bound is refused, and nothing changes; an answer to the first makes room."""
    prefix = OfferedPrefix(ranges_max=3)
    first, second, _ = (prefix.begin(at(entry), (b"",)) for entry in range(3))
    prefix.end(second, is_answered=True)
    with pytest.raises(InvalidInput, match="3 ranges wait"):
        prefix.begin(at(3), (b"",))
    assert len(prefix) == 3
    prefix.end(first, is_answered=True)
    prefix.begin(at(3), (b"",))
    assert prefix.offered_through == at(1)


STEPS = st.lists(
    st.tuples(st.sampled_from(["offer", "pass", "answer", "fail", "repeat"]), st.integers(0, 9)), max_size=60
)


@given(STEPS)
def test_the_claim_equals_that_of_a_naive_model(steps):
    """After every step, the claim is the last read position below which no offer is unanswered."""
    prefix = OfferedPrefix()
    read = -1
    ends = []  # of all ranges
    open_offers, rows, in_flight = set(), {}, {}
    for step, number in steps:
        if step in {"offer", "pass"}:
            read += 1 + number
            ends.append(read)
            if step == "pass":
                prefix.passed(at(read))
            else:
                in_flight[read] = prefix.begin(at(read), (bytes([number]),))
                rows[read] = bytes([number])
                open_offers.add(read)
        elif step == "repeat":
            waiting = sorted(open_offers - in_flight.keys())
            if waiting:
                entry = waiting[number % len(waiting)]
                in_flight[entry] = prefix.begin(at(entry), (rows[entry],))
        elif in_flight:
            entry = sorted(in_flight)[number % len(in_flight)]
            prefix.end(in_flight.pop(entry), is_answered=step == "answer")
            if step == "answer":
                open_offers.remove(entry)
        assert prefix.offered_through == _claimed(ends, open_offers)
        for entry, sent in in_flight.items():
            assert prefix.claim_with(sent) == _claimed(ends, open_offers - {entry})


def _claimed(ends, open_offers):
    below = [end for end in ends if end < min(open_offers, default=end + 1)]
    return at(below[-1]) if below else None
