"""Ack, nack and expiry: guarantees for a dispatcher, one sentence for each test."""

import pytest

from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from tests.core.harness.shell import DUE_MS, LATER_MS, due_shell, positions


def test_a_leased_position_answers_tracked_and_is_not_handed_out():
    """A leased position keeps its bit until it is acknowledged."""
    shell = due_shell()
    shell.pop(lease_ms=50)
    assert shell.contains((1, 0)) == [True]
    assert shell.pop_rows() == []
    assert shell.core.stats().leased_count == 3


def test_an_unacknowledged_lease_returns_at_its_expiry():
    """A lost answer loses no message, and the expiry is a wake-up."""
    shell = due_shell()
    delivery = shell.pop(lease_ms=50)
    assert delivery.expires_at_ms == DUE_MS + 50 == shell.next_wakeup_ms()
    shell.pass_time(49)
    assert shell.pop_rows() == []
    shell.now_ms += 1
    assert shell.pop_rows() == list(delivery.indexes), "the poll itself takes back what has run out"
    assert shell.core.stats().lease_expired_count == 3


def test_ack_forgets_positions():
    """An ack forgets its positions and returns untracked ones as unknown."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.ack(lease_id, positions((1, 1), (7, 7), (1, 0)), shell.now)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (2, [], [1])
    assert shell.contains((1, 0), (1, 1), (1, 2)) == [False, False, True]
    again = shell.core.ack(lease_id, positions((1, 0)), shell.now)
    assert (again.changed_count, again.unknown.tolist()) == (0, [0])


def test_ack_of_a_position_repeated_in_the_call_counts_once():
    """A repeated position is neither stale nor unknown."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.ack(lease_id, positions((1, 0), (1, 0)), shell.now)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (1, [], [])


def test_ack_of_an_expired_lease_succeeds():
    """A late ack succeeds, and the position is not handed out again."""
    shell = due_shell(1)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    assert shell.core.ack(lease_id, positions((1, 0)), shell.now).changed_count == 1
    assert shell.pop_rows() == []
    shell.core.check()


def test_ack_of_an_expired_lease_is_stale_once_leased_again():
    """An ack of a position that is leased again is stale: the later holder decides."""
    shell = due_shell(1)
    first = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    second = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.ack(first, positions((1, 0)), shell.now)
    assert (outcome.changed_count, outcome.stale.tolist()) == (0, [0])
    assert shell.contains((1, 0)) == [True]
    assert shell.core.ack(second, positions((1, 0)), shell.now).changed_count == 1


def test_a_lease_acknowledges_only_what_it_handed_out():
    """Positions of another lease, or of none, are stale and stay tracked: a wrong ack loses no message."""
    shell = due_shell(2)
    first, second = (shell.pop(1, lease_ms=lease_ms).lease_id for lease_ms in (50, 60))
    slip = positions((1, 1), (2, 0), (7, 7))
    for _ in range(3):  # while both last, after the first has ended, after both
        outcome = shell.core.ack(first, slip, shell.now)
        assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (0, [0, 1], [2])
        shell.pass_time(50)
    assert shell.contains((1, 0), (1, 1), (2, 0)) == [True] * 3
    assert shell.core.ack(second, positions((1, 1)), shell.now).changed_count == 1
    shell.core.check()


def _cancelled_and_added_again(shell, lease_id):
    shell.core.cancel(positions((1, 0)), shell.now)
    shell.add((LATER_MS, 1, 0))


def _sent_and_added_again(shell, lease_id):
    shell.add((0, 1, 0))
    shell.add((LATER_MS, 1, 0))


def _handed_off_and_added_again(shell, lease_id):
    assert shell.pop_rows() == [(DUE_MS, 1, 0)]
    shell.add((LATER_MS, 1, 0))


def _leased_again_by_one_that_ended(shell, lease_id):
    shell.pop(lease_ms=20)
    shell.pass_time(20)


def _given_back_too_late(shell, lease_id):
    assert shell.core.nack(lease_id, positions((1, 0)), shell.now).stale.tolist() == [0]


def _given_back_by_the_next(shell, lease_id):
    again = shell.pop(lease_ms=20).lease_id
    shell.core.nack(again, positions((1, 0)), shell.now, deliver_at_ms=LATER_MS)


def _rescheduled(shell, lease_id):
    assert shell.core.reschedule(IndexColumns.of([(LATER_MS, 1, 0)]), shell.now).rescheduled_count == 1


def _under_a_new_epoch(shell, lease_id):
    shell.core.begin_epoch(2, shell.now)


def _after_ten_minutes(shell, lease_id):
    shell.pass_time(600_000)


@pytest.mark.parametrize(
    "meanwhile",
    [
        _cancelled_and_added_again,
        _sent_and_added_again,
        _handed_off_and_added_again,
        _leased_again_by_one_that_ended,
        _given_back_too_late,
        _given_back_by_the_next,
        _rescheduled,
        _under_a_new_epoch,
        _after_ten_minutes,
    ],
)
def test_an_ended_lease_no_longer_counts(meanwhile):
    """A position that is tracked again, or whose lease is forgotten, is stale and stays tracked."""
    shell = due_shell(1)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.pass_time(50)
    meanwhile(shell, lease_id)
    outcome = shell.core.ack(lease_id, positions((1, 0)), shell.now)
    assert (outcome.changed_count, outcome.stale.tolist()) == (0, [0])
    assert shell.contains((1, 0)) == [True]
    shell.core.check()


def test_an_ended_lease_counts_until_the_last_millisecond_of_its_time():
    """An ended lease counts for ten minutes, whatever the wall clock is set to in the meantime."""
    shell = due_shell(1)
    lease_id = shell.pop(lease_ms=50).lease_id
    shell.step_wall(-50_000)
    shell.pass_time(50 + 599_999)
    shell.step_wall(3_600_000)
    assert shell.core.ack(lease_id, positions((1, 0)), shell.now).changed_count == 1


def test_what_ended_leases_held_is_counted_as_memory_and_dropped_in_time():
    """The memory of ended leases is counted, and freed by a tracker that gets no calls."""
    shell = due_shell(1_000)
    shell.pop(lease_ms=50)
    shell.pass_time(50)
    remembered_bytes = shell.core.stats().memory_bytes
    shell.add((LATER_MS, 1, 0))
    while (wakeup_ms := shell.next_timer_ms()) is not None:
        shell.pass_time(wakeup_ms - shell.now_ms)
    assert shell.core.stats().memory_bytes <= remembered_bytes - 24 * 1_000


@pytest.mark.parametrize("verb", ["ack", "nack"])
def test_a_lease_id_never_given_out_is_refused(verb):
    """An id that was never issued is refused, and nothing is changed."""
    shell = due_shell()
    shell.pop(lease_ms=50)
    for lease_id in (0, 2, -1):
        with pytest.raises(InvalidInput, match="lease_id"):
            getattr(shell.core, verb)(lease_id, positions((1, 0)), shell.now)
    assert shell.core.stats().leased_count == 3


def test_nack_returns_at_once():
    """A nacked position is due again with its own deadline; the others stay leased."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    assert shell.core.nack(lease_id, positions((1, 1)), shell.now).changed_count == 1
    assert shell.pop_rows() == [(DUE_MS, 1, 1)]
    assert shell.core.stats().leased_count == 2


@pytest.mark.parametrize("sealed", [False, True], ids=["in memory", "from a snapshot"])
def test_nack_with_a_deadline_replaces_it(sealed):
    """A nacked position is delivered once, at the new deadline, even if its snapshot has another."""
    shell = due_shell()
    if sealed:
        shell.core.seal_mutable_bucket(shell.now)
        shell.perform_all()
    lease_id = shell.pop(lease_ms=50).lease_id
    outcome = shell.core.nack(lease_id, positions((1, 0)), shell.now, deliver_at_ms=DUE_MS + 7)
    assert outcome.changed_count == 1
    assert shell.core.next_delivery_ms() == DUE_MS + 7
    shell.core.check()
    shell.core.ack(lease_id, positions((1, 1), (1, 2)), shell.now)
    shell.now_ms += 6
    assert shell.pop_rows() == []
    shell.now_ms += 1
    assert shell.pop_rows() == [(DUE_MS + 7, 1, 0)]


def test_nack_of_what_is_not_leased_is_stale_or_unknown():
    """A nack of a position that is not leased, leased by another, or not tracked changes nothing."""
    shell = due_shell(2)
    first = shell.pop(1, lease_ms=50).lease_id
    second = shell.pop(1, lease_ms=500).lease_id
    shell.pass_time(50)
    outcome = shell.core.nack(first, positions((1, 0), (1, 1), (7, 7)), shell.now, deliver_at_ms=LATER_MS)
    assert (outcome.changed_count, outcome.stale.tolist(), outcome.unknown.tolist()) == (0, [0, 1], [2])
    assert shell.pop_rows() == [(DUE_MS, 1, 0)]
    assert second == 2


@pytest.mark.parametrize("deliver_at_ms", [-1, 2**63])
def test_nack_to_a_deadline_out_of_range_changes_nothing(deliver_at_ms):
    """An error changes nothing."""
    shell = due_shell()
    lease_id = shell.pop(lease_ms=50).lease_id
    with pytest.raises(InvalidInput, match="deliver_at_ms"):
        shell.core.nack(lease_id, positions((1, 0)), shell.now, deliver_at_ms=deliver_at_ms)
    assert shell.core.stats().leased_count == 3


def test_leased_positions_are_sealed_with_the_rest():
    """Leased positions are in the snapshot, or a crash would lose them."""
    shell = due_shell()
    shell.pop(2, lease_ms=500)
    shell.core.seal_mutable_bucket(shell.now)
    (effect,) = shell.asked(StoreSnapshot)
    assert len(effect.frozen) == 4
    shell.perform_all()
    shell.core.check()
    shell.pass_time(500)
    assert len(shell.pop_rows()) == 3
