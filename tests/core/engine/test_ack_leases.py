"""Acks of several leases in one step, and of a whole lease by its id."""

import pytest

from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from tests.core.harness.shell import DUE_MS, due_shell, positions


def whole(lease_id, held_count):
    return LeaseAck(lease_id, None, held_count)


def some(lease_id, *pairs):
    return LeaseAck(lease_id, positions(*pairs))


def acked(shell, *acks):
    """Return the number of positions that each ack acknowledged; its other results are for the positions given."""
    outcomes = shell.core.ack_leases(acks, shell.now)
    shell.core.check()
    return [outcome.changed_count for outcome in outcomes]


def test_a_lease_is_acknowledged_by_its_id():
    """An ack by id acknowledges all positions of the lease, and no others."""
    shell = due_shell(5)
    first, second = (shell.pop(count, lease_ms=50).lease_id for count in (2, 3))
    assert acked(shell, whole(second, 3)) == [3]
    assert shell.contains(*((1, entry) for entry in range(5))) == [True, True, False, False, False]
    assert acked(shell, whole(second, 3), whole(first, 2)) == [0, 2]
    assert shell.core.stats().acked_count == 5


@pytest.mark.parametrize("held_count", [1, 3])
def test_a_lease_that_holds_another_number_is_left_as_it_is(held_count):
    """A lease with another number of positions is left as it is: its holder must list the positions."""
    shell = due_shell(2)
    lease_id = shell.pop(lease_ms=50).lease_id
    assert acked(shell, whole(lease_id, held_count)) == [0]
    assert shell.core.stats().leased_count == 2
    assert acked(shell, whole(lease_id, 2)) == [2]


def test_what_is_left_of_a_lease_counts():
    """A lease counts the positions left after a part was acknowledged and another extended to another expiry."""
    shell = due_shell(5)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.core.extend(lease_id, positions((1, 0), (1, 3)), shell.now, lease_ms=500)
    assert acked(shell, some(lease_id, (1, 1)), whole(lease_id, 4)) == [1, 4]
    assert shell.core.stats().leased_count == 0
    assert shell.contains((1, 0), (1, 1), (1, 4)) == [False] * 3


def test_what_has_expired_must_be_named():
    """An expired lease is not acknowledged by its id alone, but its positions are if they are listed."""
    shell = due_shell(2)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    assert acked(shell, whole(lease_id, 2)) == [0]
    assert acked(shell, some(lease_id, (1, 0), (1, 1))) == [2]


def test_what_is_below_mark_delete_must_be_named():
    """After mark-delete dropped a part of a lease, an ack by its id alone must give the number of positions left."""
    shell = due_shell(4)
    lease_ids = [shell.pop(2, lease_ms=50).lease_id for _ in range(2)]
    shell.core.advance_mark_delete(Position(1, 0), shell.now)
    assert acked(shell, whole(lease_ids[0], 2), whole(lease_ids[1], 2)) == [0, 2]
    assert acked(shell, whole(lease_ids[0], 1)) == [1]


def test_no_ack_is_applied_if_one_names_no_lease():
    """All ids are tested before any ack is applied."""
    shell = due_shell(2)
    lease_id = shell.pop(lease_ms=50).lease_id
    for wrong in (0, lease_id + 1):
        with pytest.raises(InvalidInput, match="lease_id"):
            acked(shell, whole(lease_id, 2), whole(wrong, 1))
        with pytest.raises(InvalidInput, match="lease_id"):
            acked(shell, some(lease_id, (1, 0)), some(wrong, (1, 1)))
    assert shell.core.stats().leased_count == 2


def test_outcomes_are_each_acks_own():
    """Each ack has its own result, in order: a position acknowledged by the first is unknown to the second."""
    shell = due_shell(4)
    first, second = (shell.pop(2, lease_ms=50).lease_id for _ in range(2))
    acks = [some(first, (1, 0)), some(second, (1, 0), (1, 1), (1, 2)), whole(first, 1)]
    outcomes = shell.core.ack_leases(acks, shell.now)
    assert [outcome.changed_count for outcome in outcomes] == [1, 1, 1]
    assert [outcome.stale.tolist() for outcome in outcomes] == [[], [1], []]
    assert [outcome.unknown.tolist() for outcome in outcomes] == [[], [0], []]


@pytest.mark.parametrize(
    ("counts", "expected"), [([2, 3], [2, 3]), ([1, 1, 9], [1, 1, 3]), ([5, 2], [5]), ([9], [5]), ([2, 3, 4], [2, 3])]
)
def test_a_delivery_is_divided_into_leases(counts, expected):
    """Each lease has its own rows and its own id, and all end when the undivided one would have ended."""
    shell = due_shell(5)
    delivery = shell.pop(lease_ms=50)
    parts = shell.core.divide(delivery, counts)
    shell.core.check()
    assert [len(part.indexes) for part in parts] == expected
    assert [row for part in parts for row in part.indexes] == list(delivery.indexes)
    assert parts[0].lease_id == delivery.lease_id
    assert {part.expires_at_ms for part in parts} == {DUE_MS + 50}
    assert shell.core.stats().leased_count == 5
    assert [acked(shell, whole(part.lease_id, len(part.indexes))) for part in parts] == [[count] for count in expected]


def test_an_empty_poll_creates_no_lease():
    """A poll that took no rows has no lease, and the lease of the next poll is not affected."""
    shell = due_shell(1)
    shell.pop()
    nothing = shell.pop(lease_ms=50)
    assert shell.core.divide(nothing, [1, 1]) == [nothing]
