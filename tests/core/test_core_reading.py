"""Reading a tracker asks for no effect and changes no answer, whatever waits to be cleared."""

import tracemalloc

import numpy as np
import pytest

from delayed_tracker.core.engine.effects import DeleteSnapshots
from delayed_tracker.core.values.columns import Position, index_columns
from tests.core.harness.shell import DUE_MS, STRICT, Shell, positions

READINGS = {
    "contains": lambda shell: shell.contains((1, 0), (2, 0)),
    "stats": lambda shell: shell.core.stats(),
    "buckets": lambda shell: shell.core.buckets(),
    "remaining": lambda shell: shell.core.remaining(),
    "explain": lambda shell: shell.core.explain(Position(1, 0), shell.now),
    "loaded_between": lambda shell: shell.core.loaded_between(0),
    "unloaded": lambda shell: shell.core.unloaded(),
    "filter_range": lambda shell: shell.core.filter_range(1, 0, 9),
    "membership": lambda shell: shell.core.membership_part(shell.core.begin_membership()),
    "numbers": lambda shell: shell.core.numbers(shell.now_ms),
    "next_delivery_ms": lambda shell: shell.core.next_delivery_ms(),
    "check": lambda shell: shell.core.check(),
}


@pytest.fixture
def drained() -> Shell:
    """A tracker whose first stored bucket was just handed off, while its bits wait to be cleared."""
    shell = Shell.with_limits(STRICT)
    for ledger in (1, 2):
        shell.add(*[(DUE_MS, ledger, entry) for entry in range(3)])
        shell.core.seal_mutable_bucket(shell.now)
        shell.store()
    shell.now_ms = DUE_MS
    assert len(shell.pop_rows(3)) == 3
    assert shell.core._state.defers
    assert shell.asked(DeleteSnapshots) == []
    return shell


@pytest.mark.parametrize("name", READINGS)
def test_reading_asks_for_nothing(drained, name):
    """The snapshot of the drained bucket is deleted when time passes, not because of the read."""
    timer = drained.core.next_timer()
    READINGS[name](drained)
    assert drained.core.take_effects() == []
    assert drained.core.next_timer() == timer
    drained.pass_time(1_000)
    assert [effect.bucket_ids for effect in drained.asked(DeleteSnapshots)] == [(1,)]
    drained.core.check()


def test_a_drained_bucket_is_not_shown_before_it_is_retired(drained):
    """Sizes, rows of buckets and membership are those of the positions that are tracked."""
    assert drained.contains((1, 0), (2, 0)) == [False, True]
    assert [view.bucket_id for view in drained.core.buckets()] == [2]
    assert drained.core.stats().bucket_count == 1


def test_a_change_after_reading_retires_the_drained_bucket(drained):
    """Whichever verb it is: here a cancellation."""
    drained.core.stats()
    drained.core.cancel(positions((2, 0)), drained.now)
    assert [effect.bucket_ids for effect in drained.asked(DeleteSnapshots)] == [(1,)]


def test_a_short_range_of_a_long_ledger_is_filtered_without_reading_the_rest():
    """A call has up to a thousand ranges: each takes the memory of its own entries, not of all that the ledger has."""
    shell = Shell.with_limits(STRICT)
    entries = 2 * np.arange(200_000)
    shell.core.add(index_columns(np.full(len(entries), DUE_MS), np.full(len(entries), 1), entries), shell.now)
    tracemalloc.start()
    ranges = [shell.core.filter_range(1, first, first + 3) for first in (0, 131_070, 399_996)]
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert ranges == [[(first + 1, first + 1), (first + 3, first + 3)] for first in (0, 131_070, 399_996)]
    assert peak_bytes < 100_000
