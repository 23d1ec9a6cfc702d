"""Loads begin as early as the time that a load takes asks for, few at a time, and in the order of deadlines."""

import pytest

from delayed_tracker.core.engine.effects import LoadSegments
from delayed_tracker.core.engine.load_budget import LoadBudget
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import START_MS, Shell

FAR_MS = START_MS + 1_000_000


def shell_within(budget: LoadBudget, **limits: int) -> Shell:
    """Return a tracker without a prefetch window: only the lead makes it read ahead."""
    shell = Shell.with_limits(
        TrackerLimits(strict=True, max_indexes_per_segment=5, **{"prefetch_window_ms": 0, **limits})
    )
    shell.core.load_within(budget.share(), shell.now)
    return shell


def store_bucket(shell: Shell, ledger_id: int, first_ms: int, *, count: int = 20, step_ms: int = 1) -> None:
    shell.add(*[(first_ms + step_ms * entry_id, ledger_id, entry_id) for entry_id in range(count)])
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()


def test_a_load_begins_as_early_as_a_load_takes():
    """The wake-up is the lead before the deadline, and one load takes what will be wanted before it ends."""
    budget = LoadBudget(1_000)
    budget.lead_ms = 100
    shell = shell_within(budget)
    store_bucket(shell, 1, START_MS + 1_000, step_ms=10)
    assert shell.core.next_timer().wall_ms == START_MS + 900
    shell.pass_time(899)
    assert not shell.asked(LoadSegments)
    shell.pass_time(1)
    (load,) = shell.asked(LoadSegments)
    assert (load.first, load.last) == (0, 2)
    shell.core.check()


def test_the_longer_of_window_and_lead_counts():
    """A lead that is shorter than the prefetch window changes nothing while there is room."""
    budget = LoadBudget(1_000)
    budget.lead_ms = 100
    shell = shell_within(budget, prefetch_window_ms=300)
    store_bucket(shell, 1, START_MS + 1_000)
    assert shell.core.next_timer().wall_ms == START_MS + 700


def test_without_room_the_lead_decides_and_a_hundredth_of_the_room_may_be_read():
    """A tracker without room reads the lead before a deadline, and as much of it as its share allows."""
    budget = LoadBudget(1_000)
    budget.lead_ms = 100
    full = budget.share()
    full.hold(1_000)
    shell = shell_within(budget, prefetch_window_ms=500)
    store_bucket(shell, 1, START_MS + 1_000)
    shell.pass_time(500)
    assert not shell.asked(LoadSegments)
    assert budget.waiting_count == 1
    assert shell.core.next_timer().wall_ms == START_MS + 900
    shell.pass_time(400)
    (load,) = shell.asked(LoadSegments)
    assert (load.first, load.last) == (0, 1), "a hundredth of the maximum is 10 rows"
    shell.load()
    assert not shell.asked(LoadSegments), "the next rows wait until these are handed out"
    assert budget.held_count == 1_010
    shell.core.check()
    shell.pass_time(110)
    assert len(shell.pop().indexes) == 10
    shell.pass_time(1_000)  # what was taken is consumed
    assert shell.asked(LoadSegments)
    shell.core.check()


def test_rows_that_are_due_within_the_lead_stay_in_memory_when_their_bucket_is_stored():
    """Without room too: they would be read again at once, and come late."""
    budget = LoadBudget(1_000)
    budget.lead_ms = 100
    budget.share().hold(1_000)
    shell = shell_within(budget)
    store_bucket(shell, 1, START_MS + 50, step_ms=20)
    assert shell.core.stats().loaded_count == 10
    assert not shell.asked(LoadSegments)
    store_bucket(shell, 2, START_MS + 500)
    assert shell.core.stats().loaded_count == 10
    shell.core.check()


@pytest.mark.parametrize("in_flight_max", [1, 3])
def test_few_loads_are_in_flight_and_the_nearest_deadline_is_next(in_flight_max):
    """A bucket whose segments are wanted while the maximum is in flight is next if its deadline is the first."""
    shell = shell_within(LoadBudget(1_000), prefetch_window_ms=2_000, loads_in_flight_max=in_flight_max)
    for ledger_id in range(1, 6):
        store_bucket(shell, ledger_id, START_MS + 3_000 + ledger_id)
    shell.pass_time(1_500)
    assert [load.bucket_id for load in shell.asked(LoadSegments)] == list(range(1, in_flight_max + 1))
    assert shell.core.next_timer().wall_ms is None, "the result of a load asks for the next"
    shell.core.check()
    shell.now_ms -= 1_500  # so that the rows of the next bucket leave memory
    store_bucket(shell, 6, START_MS + 2_500)
    shell.now_ms += 1_500
    shell.load()
    assert shell.asked(LoadSegments)[-1].bucket_id == 6
    assert len(shell.asked(LoadSegments)) == in_flight_max
    shell.core.check()
    assert len(shell.drain()) == 6 * 20


def test_a_tracker_that_rests_is_needed_earlier_if_loads_take_long():
    """Its return reads catalogue, log and segments, one after the other."""
    budget = LoadBudget(1_000)
    shell = shell_within(budget)
    store_bucket(shell, 1, FAR_MS)
    assert shell.core.falls_due_ms() == FAR_MS - 5_000
    budget.lead_ms = 1_000
    assert shell.core.falls_due_ms() == FAR_MS - 8_000
