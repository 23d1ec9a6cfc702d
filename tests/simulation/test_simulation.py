"""The real core, runner, registry and codec on a manual clock, with faults and crashes; see ``world.py``."""

import asyncio

import pytest

from delayed_tracker.core.values.limits import TrackerKind
from tests.simulation.world import World


async def _run(seed, step_count, kind=TrackerKind.BUCKET):
    world = World(seed, kind)
    failures = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or context["message"])
    )
    try:
        await world.run(step_count)
        assert not failures, failures
    except BaseException as error:
        error.add_note(f"simulation seed {seed}, {step_count} steps; last events: {world.trace[-5:]}")
        raise
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(3, 12))])
async def test_nothing_is_lost_or_early_whatever_fails(seed):
    """Through faults, latency, crashes and reopening, every message comes out, none early, none twice under a lease."""
    await _run(seed, 250)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(2), pytest.param(2, marks=pytest.mark.deep)])
async def test_the_in_memory_tracker_loses_nothing_either(seed):
    """The same rules hold for the in-memory tracker: a crash forgets everything, and the replay adds it again."""
    world = await _run(seed, 250, TrackerKind.IN_MEMORY)
    assert world.stored_count == 0


@pytest.mark.long
async def test_simulations_meet_what_they_are_for():
    """Simulations contain seals, crashes and failed effects."""
    worlds = [await _run(seed, 250) for seed in range(100, 104)]
    assert sum(world.stored_count for world in worlds) > 20
    assert sum(world.merged_count for world in worlds) > 10
    assert sum(world.imported_count for world in worlds) > 3
    assert any(event[1] == "import failed" for world in worlds for event in world.trace)
    assert sum(world.crash_count for world in worlds) > 5
    assert sum(event[2] for world in worlds for event in world.trace if event[1] == "slipped") > 20
    stepped = [event[2] for world in worlds for event in world.trace if event[1] == "clock stepped"]
    assert min(stepped) < 0 < max(stepped)
    assert sum(event[3] for world in worlds for event in world.trace if event[1] == "rescheduled") > 20
    assert sum("nacked" in event for world in worlds for event in world.trace) > 10
    assert sum("move" in event for world in worlds for event in world.trace) > 2
    assert sum(world.untracked_count for world in worlds) > 10


@pytest.mark.slow
async def test_one_seed_is_one_course_of_events():
    """The same seed gives the same trace, the same clock and the same next random number."""
    first, second = await _run(7, 150), await _run(7, 150)
    assert first.trace == second.trace
    assert first.clock.now_ms() == second.clock.now_ms()
    assert first.random.random() == second.random.random()


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1_000, 1_200))
async def test_many_simulations(seed):
    """The rules hold in many longer simulations, every fourth with the in-memory tracker."""
    await _run(seed, 600, TrackerKind.BUCKET if seed % 4 else TrackerKind.IN_MEMORY)
