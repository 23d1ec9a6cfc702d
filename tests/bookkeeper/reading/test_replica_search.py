"""The search for an entry against every order of every answer of its bookies."""

from itertools import permutations, product

import pytest

from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.reading.replica_search import ReplicaSearch

SIZES = [
    Quorums(ensemble, write, ack) for ensemble, write, ack in product(range(1, 5), repeat=3) if ack <= write <= ensemble
]


def answer(search, answers, order):
    """Give the answers in this order until the search is over; return how many were needed."""
    asked = [search.next() for _ in range(len(answers))]
    for count, place in enumerate(order, start=1):
        getattr(search, answers[place])(asked[place])
        if search.is_over:
            return count
    return None


def test_the_bookies_of_an_entry_are_asked_in_turn_and_those_that_failed_last():
    quorums = Quorums(4, 3, 2)
    search = ReplicaSearch(quorums, 6)
    assert [search.next() for _ in range(3)] == [2, 3, 0]
    assert not search.has_next
    search = ReplicaSearch(quorums, 6, avoided=0b0110)
    assert [search.next() for _ in range(3)] == [3, 0, 2]


@pytest.mark.parametrize("quorums", SIZES, ids=str)
def test_a_recovery_finds_missing_exactly_what_was_never_acknowledged(quorums):
    """As soon as fewer than ``ack`` bookies can have it, and never because bookies fail."""
    for answers in product(["missing", "failed", "damaged"], repeat=quorums.write):
        for order in permutations(range(quorums.write)):
            search = ReplicaSearch(quorums, 0, is_recovery=True)
            count = answer(search, answers, order)
            seen = [answers[place] for place in order[:count]]
            can_have_it = quorums.write - seen.count("missing")
            assert search.is_missing == (can_have_it < quorums.ack)
            assert not search.is_damaged
            # It ends with the answer that decides, or with the last one.
            assert seen[-1] == "missing" or len(seen) == quorums.write
            assert search.is_missing or len(seen) == quorums.write


@pytest.mark.parametrize("quorums", SIZES, ids=str)
def test_a_reader_asks_every_bookie(quorums):
    for answers in product(["missing", "failed", "damaged"], repeat=quorums.write):
        search = ReplicaSearch(quorums, 0)
        assert answer(search, answers, range(quorums.write)) == quorums.write
        assert search.is_missing == (set(answers) == {"missing"})
        assert search.is_damaged == ("failed" not in answers and "damaged" in answers)


def test_nothing_is_over_before_an_answer():
    for quorums in SIZES:
        for is_recovery in (False, True):
            search = ReplicaSearch(quorums, 0, is_recovery=is_recovery)
            assert not search.is_over
            assert not search.is_missing
