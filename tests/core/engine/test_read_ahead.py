"""A load takes more than is near, as far as all buckets together have room; so one load serves many wake-ups."""

import pytest

from delayed_tracker.core.engine.effects import LoadSegments
from delayed_tracker.core.engine.load_budget import LoadBudget
from tests.core.engine.test_load_lead import shell_within, store_bucket
from tests.core.harness.shell import START_MS

STEP_MS = 1_000


@pytest.mark.parametrize(
    ("ahead", "room", "rows"),
    [
        (0, 10_000, 5),  # what is near: one segment
        (80, 10_000, 40),  # shared by two buckets
        (80, 640, 20),  # the 16th part of half the room
        (4, 10_000, 5),  # a segment at least
    ],
)
def test_what_is_read_ahead_is_shared_by_buckets_and_leaves_room_to_others(ahead, room, rows):
    shell = shell_within(LoadBudget(room), prefetch_window_ms=100, read_ahead_indexes=ahead)
    for ledger_id in (1, 2):
        store_bucket(shell, ledger_id, START_MS + 10_000 + ledger_id, count=100, step_ms=STEP_MS)
    shell.pass_time(9_905)
    loads = shell.asked(LoadSegments)
    assert [(load.last + 1 - load.first) * 5 for load in loads] == [rows, rows]
    shell.core.check()
    shell.load()
    shell.load()
    assert shell.core.stats().loaded_count == 2 * rows
    shell.core.check()


def test_the_last_bucket_has_all_of_it():
    shell = shell_within(LoadBudget(100_000), prefetch_window_ms=100, read_ahead_indexes=60)
    store_bucket(shell, 1, START_MS + 10_000, count=5, step_ms=0)
    store_bucket(shell, 2, START_MS + 90_000, count=100, step_ms=STEP_MS)
    shell.pass_time(9_905)
    shell.load()
    assert len(shell.pop_rows(5)) == 0
    shell.pass_time(95)
    assert len(shell.pop_rows(10)) == 5
    shell.pass_time(80_000)
    (load,) = shell.asked(LoadSegments)
    assert (load.last + 1 - load.first) * 5 == 60
    shell.core.check()


@pytest.mark.parametrize(
    ("distance_ms", "loads"),
    [
        (1_900, 2),  # within a quarter of the eight seconds that a load of forty rows covers
        (2_100, 1),
    ],
)
def test_a_bucket_that_would_soon_be_read_is_read_together_with_another(distance_ms, loads):
    """Rows that come one bucket at a time would each disturb what was merged ahead."""
    shell = shell_within(LoadBudget(10_000), prefetch_window_ms=100, read_ahead_indexes=80)
    for ledger_id, first_ms in ((1, 10_000), (2, 10_000 + distance_ms)):
        store_bucket(shell, ledger_id, START_MS + first_ms, count=100, step_ms=200)
    shell.pass_time(9_905)
    found = shell.asked(LoadSegments)
    assert [(load.last + 1 - load.first) * 5 for load in found] == [40] * loads
    shell.core.check()
    for _ in range(loads):
        shell.load()
    assert len(shell.asked(LoadSegments)) == 0, "what was read along asks for no more"
    shell.core.check()


@pytest.mark.parametrize(("held", "loads"), [(0, 2), (500, 1)])
def test_without_spare_room_nothing_is_read_along(held, loads):
    """Half of the room is for what is near, of any tracker."""
    budget = LoadBudget(1_000)
    budget.share().hold(held)
    shell = shell_within(budget, prefetch_window_ms=100, read_ahead_indexes=80)
    for ledger_id, first_ms in ((1, 10_000), (2, 10_200)):
        store_bucket(shell, ledger_id, START_MS + first_ms, count=100, step_ms=200)
    shell.pass_time(9_905)
    assert len(shell.asked(LoadSegments)) == loads
    shell.core.check()
