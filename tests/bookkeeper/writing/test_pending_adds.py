"""Adds of a ledger against simulated bookies that fail, answer late, and are replaced."""

import random

import pytest

from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.writing.pending_adds import PendingAdds

THREE = ("a", "b", "c")


def begun(quorums=(3, 2, 2), *, count=1, change_early=True):
    adds = PendingAdds(Quorums(*quorums), THREE[: quorums[0]], change_early=change_early)
    adds.add(count)
    return adds


def test_an_add_is_answered_by_its_ack_quorum():
    adds = begun((3, 3, 2))
    adds.stored((0,), 2, "c")
    assert adds.answered() == 0
    adds.stored((0,), 2, "c")
    assert adds.answered() == 0
    adds.stored((0,), 0, "a")
    assert adds.answered() == 1
    assert (adds.first_entry_id, adds.next_entry_id) == (1, 1)


def test_adds_are_answered_in_the_order_of_their_entries():
    adds = begun(count=3)
    for entry_id in (2, 1):
        for index in Quorums(3, 2, 2).write_set(entry_id):
            adds.stored((entry_id,), index, THREE[index])
    assert adds.answered() == 0
    adds.stored((0,), 0, "a")
    adds.stored((0,), 1, "b")
    assert adds.answered() == 3


def test_a_change_takes_back_what_the_replaced_bookie_stored():
    adds = begun(count=2)
    adds.stored((1,), 1, "b")
    adds.stored((1,), 2, "c")
    adds.failed(0, 1, "b")
    assert adds.to_replace() == {1}
    adds.begin_change()
    assert not adds.add()
    assert sorted(adds.end_change(("a", "d", "c"))) == [(0, 1), (1, 1), (2, 0), (2, 2)]
    adds.stored((0,), 0, "a")
    adds.stored((0,), 1, "d")
    assert adds.answered() == 1
    adds.stored((1,), 1, "b")  # late, and no longer in the ensemble
    assert adds.answered() == 0
    adds.stored((1,), 1, "d")
    assert adds.answered() == 1


def test_every_answer_counts_beyond_the_quorum():
    """Else the change would take back one of two, although three bookies have it."""
    adds = begun((3, 3, 2), count=2)
    for index, bookie in enumerate(THREE):
        adds.stored((1,), index, bookie)
    adds.failed(0, 0, "a")
    adds.begin_change()
    adds.end_change(("d", "b", "c"))
    adds.stored((0,), 1, "b")
    adds.stored((0,), 2, "c")
    assert adds.answered() == 2


def test_nothing_is_answered_while_the_ensemble_changes():
    adds = begun()
    adds.begin_change()
    adds.stored((0,), 0, "a")
    adds.stored((0,), 1, "b")
    assert adds.answered() == 0
    assert list(adds.end_change(THREE)) == []
    assert adds.answered() == 1


def test_an_entry_outside_the_write_set_of_the_failed_bookie_does_not_hang():
    adds = begun(count=2)
    for entry_id in (0, 1):
        for index in Quorums(3, 2, 2).write_set(entry_id):
            if entry_id:
                adds.stored((entry_id,), index, THREE[index])
    adds.stored((0,), 0, "a")
    adds.failed(0, 1, "b")
    adds.begin_change()
    adds.end_change(("a", "d", "c"))
    adds.stored((0,), 1, "d")
    adds.stored((1,), 1, "d")
    assert adds.answered() == 2


def test_a_bookie_that_fails_during_a_change_is_replaced_by_the_next():
    adds = begun((3, 3, 2))
    adds.failed(0, 0, "a")
    adds.begin_change()
    adds.failed(0, 1, "b")
    adds.end_change(("d", "b", "c"))
    assert adds.to_replace() == {1}
    adds.begin_change()
    adds.end_change(("d", "e", "c"))
    assert adds.to_replace() == frozenset()


@pytest.mark.parametrize("change_early", [True, False])
def test_a_failure_beyond_the_quorum_may_be_borne(change_early):
    adds = begun((3, 3, 2), change_early=change_early)
    adds.failed(0, 0, "a")
    assert adds.to_replace() == ({0} if change_early else frozenset())
    adds.failed(0, 1, "b")
    assert adds.to_replace() == {0, 1}


def test_a_failure_after_the_quorum_changes_nothing():
    adds = begun((3, 3, 2))
    adds.stored((0,), 1, "b")
    adds.stored((0,), 2, "c")
    adds.failed(0, 0, "a")
    assert adds.to_replace() == frozenset()


def test_a_failure_after_the_quorum_counts_when_a_change_takes_an_answer_back():
    """Else nobody is left who could answer the add, and it does not count as lost."""
    adds = begun((3, 3, 2), count=2)
    adds.failed(0, 1, "b")
    adds.begin_change()
    adds.stored((0, 1), 0, "a")
    adds.stored((1,), 1, "b")
    adds.stored((0,), 2, "c")
    adds.failed(1, 2, "c")
    assert adds.to_replace() == frozenset()
    assert list(adds.end_change(("a", "d", "c"))) == [(0, 1), (1, 1)]
    assert adds.answered() == 1
    assert (adds.to_replace(), adds.is_lost()) == ({2}, False)
    adds.failed(1, 1, "d")
    assert (adds.to_replace(), adds.is_lost()) == ({1, 2}, True)


def test_a_read_only_bookie_is_replaced_at_once():
    adds = begun((3, 3, 2), change_early=False)
    adds.failed(0, 0, "a", is_read_only=True)
    assert adds.to_replace() == {0}
    adds.begin_change()
    adds.end_change(("d", "b", "c"))
    assert adds.to_replace() == frozenset()


class Bookies:
    """Bookies that store what is sent to them, in any order, unless they are dead; and what of it they have said."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        write = self.random.randint(1, 4)
        self.quorums = Quorums(write + self.random.randint(0, 2), write, self.random.randint(1, write))
        self.names = [f"b{number}" for number in range(self.quorums.ensemble + 6)]
        self.dead, self.stored, self.wire = set(), {}, []
        self.adds = PendingAdds(
            self.quorums, self.names[: self.quorums.ensemble], change_early=self.random.random() < 0.5
        )
        self.segments = [(0, self.adds.ensemble)]

    def send(self, index, entry_ids):
        self.wire += [(entry_id, index, self.adds.ensemble[index]) for entry_id in entry_ids]

    def deliver(self):
        """One bookie answers one request, or fails it."""
        entry_id, index, bookie = self.wire.pop(self.random.randrange(len(self.wire)))
        if bookie in self.dead:
            self.adds.failed(entry_id, index, bookie)
        else:
            self.stored.setdefault(bookie, set()).add(entry_id)
            self.adds.stored((entry_id,), index, bookie)

    def change(self):
        """Replace the failed bookies in a new segment, from the first add that is not answered on."""
        failed = self.adds.to_replace()
        if self.adds.is_changing:
            fresh = [name for name in self.names if name not in self.adds.ensemble and name not in self.dead]
            self.random.shuffle(fresh)
            ensemble = [fresh.pop() if index in failed else name for index, name in enumerate(self.adds.ensemble)]
            sends = list(self.adds.end_change(ensemble))
            if self.segments[-1][0] == self.adds.first_entry_id:
                self.segments.pop()
            self.segments.append((self.adds.first_entry_id, tuple(ensemble)))
            for entry_id, index in sends:
                self.send(index, [entry_id])
        elif failed:
            self.adds.begin_change()

    def require_stored(self, entry_id):
        """An answered entry is on enough bookies of its segment, where every reader looks for it."""
        ensemble = next(found for first, found in reversed(self.segments) if first <= entry_id)
        holders = [
            index for index in self.quorums.write_set(entry_id) if entry_id in self.stored.get(ensemble[index], ())
        ]
        assert len(holders) >= self.quorums.ack


@pytest.mark.parametrize("seed", range(200))
def test_what_is_answered_is_stored_where_its_segment_says(seed):
    bookies = Bookies(seed)
    answered = 0
    for _ in range(150):
        match bookies.random.randrange(5):
            case 0 | 1 if bookies.adds.next_entry_id < 40:
                for index, entry_ids in bookies.adds.add(bookies.random.choice([1, 1, 2, 5])):
                    bookies.send(index, entry_ids)
            case 2 if bookies.wire:
                bookies.deliver()
            case 3:
                bookies.change()
            case 4 if len(bookies.dead) < 4 and bookies.random.random() < 0.2:
                bookies.dead.add(bookies.random.choice(bookies.names))
        answered += bookies.adds.answered()
    for _ in range(1_000):
        if bookies.wire:
            bookies.deliver()
        bookies.change()
        answered += bookies.adds.answered()
    assert answered == bookies.adds.next_entry_id
    for entry_id in range(answered):
        bookies.require_stored(entry_id)
