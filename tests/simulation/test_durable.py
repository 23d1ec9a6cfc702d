"""Histories with an add log: nothing that was answered is lost, and each defect that is put in is found."""

import pytest

from tests.simulation.apart_world import ApartWorld
from tests.simulation.history import WORLDS, run_history
from tests.simulation.mutations import MUTATIONS, WORLD_NAMES, seeds_taken


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(8, 200))])
def test_nothing_that_was_answered_is_lost(seed):
    """Through crashes at any await, lost answers, takeovers, resets and faults of log and storage."""
    run_history(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(4, 200))])
def test_nothing_is_lost_with_the_log_of_a_machine(seed):
    """Processes take over, and start again, where the last owner's log is not; the dispatcher offers what it is told to."""
    run_history(seed, world=ApartWorld)


@pytest.mark.long
def test_histories_leave_logs_and_come_back_to_them():
    """Histories contain takeovers by new machines, and returns to machines that had the tracker before."""
    worlds = [run_history(seed, world=ApartWorld) for seed in range(4, 12)]
    assert sum(len(world.disks) > 1 for world in worlds) > len(worlds) / 2
    assert sum(world.left_count for world in worlds) > sum(len(world.disks) - 1 for world in worlds)


@pytest.mark.long
def test_histories_meet_what_they_are_for():
    """Histories contain crashes, takeovers, resets, cancels, new deadlines, checkpoints and what comes again."""
    worlds = [run_history(seed) for seed in range(300, 330)]
    events = [event[1] for world in worlds for event in world.trace]
    for name in (
        "crash",
        "take over",
        "reset",
        "move",
        "crash while moving",
        "cancelled",
        "rescheduled",
        "nacked",
        "imported",
        "clear",
        "close",
    ):
        assert events.count(name) > 1, name
    assert any(world.came_again_max for world in worlds)
    assert {world.claims for world in worlds} == {False, True}
    assert sum(world.untracked_count for world in worlds) > 10


@pytest.mark.slow
def test_one_seed_is_one_history():
    """The same seed gives the same trace, the same clock and the same next random number."""
    first, second = run_history(11), run_history(11)
    assert first.trace == second.trace
    assert first.clock.now_ms() == second.clock.now_ms()
    assert first.random.random() == second.random.random()


def test_each_world_has_a_name():
    """The names are known before the code, into which a defect is put, is imported."""
    assert tuple(WORLDS) == WORLD_NAMES


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_each_defect_fits_the_code(mutation):
    """The passage that a defect changes is in the code once, and the functions that it wraps are there."""
    assert mutation.count == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "mutation",
    [
        pytest.param(mutation, marks=[] if mutation.name == "answer before the commit" else pytest.mark.deep)
        for mutation in MUTATIONS
    ],
    ids=lambda mutation: mutation.name,
)
def test_each_defect_is_found(mutation):
    """A history fails within a thousand seeds."""
    assert seeds_taken(mutation) is not None
