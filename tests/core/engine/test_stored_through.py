"""The part of the dispatcher's claim that snapshots cover ends before the first position that is outside of them."""

from dataclasses import replace

import pytest

from delayed_tracker.core.engine.effects import StoreSnapshot
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns, Position
from tests.core.harness.shell import LATER_MS, STRICT, Shell, positions

CLAIM = Position(9, 0)


def claiming_shell(*ledgers: int, stored: bool = True) -> Shell:
    """Return a shell with a bucket of four positions for each ledger, and a claim behind all of them."""
    shell = Shell.with_limits(replace(STRICT, prefetch_window_ms=1_000, retry_backoff_ms=10))
    shell.core.begin_journal(0, BEFORE_ALL)
    for ledger in ledgers:
        shell.add(*((LATER_MS, ledger, entry) for entry in range(4)))
        shell.core.seal_mutable_bucket(shell.now)
        if stored:
            shell.store()
    shell.core.advance_offered_through(CLAIM)
    return shell


def test_what_is_stored_is_covered():
    """With everything in snapshots, they cover the whole claim; without a claim, nothing."""
    assert claiming_shell(1, 2).core.stored_through() == CLAIM
    shell = Shell.with_limits(STRICT)
    shell.core.begin_journal(0, BEFORE_ALL)
    shell.add((LATER_MS, 3, 0))
    assert shell.core.stored_through() == BEFORE_ALL


def test_the_first_position_in_memory_ends_it():
    """Positions of the filling bucket and late ones are in no snapshot."""
    shell = claiming_shell(1, 5)
    shell.add((LATER_MS, 6, 7), (LATER_MS, 6, 3))
    assert shell.core.stored_through() == Position(6, 2)
    shell.add((LATER_MS, 4, 0))
    assert shell.core.stored_through() == Position(4, -1)
    shell.core.cancel(positions((4, 0)), shell.now)
    assert shell.core.stored_through() == Position(6, 2)


def test_a_store_counts_in_its_own_commit():
    """Until a store has succeeded, only its own commit may count its bucket as stored; a failed one does not."""
    shell = claiming_shell(1)
    for ledger in (2, 3):
        shell.add(*((LATER_MS, ledger, entry) for entry in range(4)))
        shell.core.seal_mutable_bucket(shell.now)
    second, third = shell.asked(StoreSnapshot)
    assert shell.core.stored_through() == Position(2, -1)
    assert shell.core.stored_through(second.effect_id) == Position(3, -1)
    assert shell.core.stored_through(third.effect_id) == Position(2, -1)
    shell.fail_store()
    shell.store()
    assert shell.core.stored_through() == Position(2, -1)
    assert shell.core.stored_through(second.effect_id) == Position(2, -1)
    shell.pass_time(20)
    shell.store()
    assert shell.core.stored_through() == CLAIM


def test_a_new_deadline_takes_a_position_out_of_its_snapshot():
    """A snapshot has the old deadline, and a later write may drop it: the claim ends before the position."""
    shell = claiming_shell(1, 2)
    shell.core.reschedule(IndexColumns.of([(LATER_MS + 1, 2, 1)]), shell.now)
    assert shell.core.stored_through() == Position(2, 0)


def test_a_lost_snapshot_covers_nothing():
    """The rest of its bucket is in memory alone."""
    shell = claiming_shell(1, 2)
    shell.pass_time(LATER_MS - 500 - shell.now_ms)
    shell.load()
    shell.fail_load(lost=True)
    assert shell.core.stored_through() < Position(2, 0)


@pytest.mark.parametrize("ends", ["clear", "reset"])
def test_a_barrier_ends_it(ends: str):
    """A cleared tracker has no claim, whatever its old buckets cover."""
    shell = claiming_shell(1)
    if ends == "clear":
        shell.core.clear(shell.now)
    else:
        shell.core.reset_cursor(BEFORE_ALL, shell.now)
    assert shell.core.stored_through() == BEFORE_ALL
