import asyncio

import pytest

from tests.simulation.durable_world import DurableWorld


async def _run(seed, step_count):
    world = DurableWorld(seed)
    failures = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or context["message"])
    )
    try:
        await world.run(step_count)
        assert not failures, failures
    except BaseException as error:
        error.add_note(f"simulation seed {seed}, {step_count} steps; last events: {world.trace[-12:]}")
        raise
    return world


@pytest.mark.parametrize("seed", range(20))
async def test_durable(seed):
    await _run(seed, 100)
