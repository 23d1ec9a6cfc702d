"""One simulated history, from one seed: the same seed gives the same events, whatever machine runs it."""

import asyncio
import selectors

from tests.simulation.apart_world import ApartWorld
from tests.simulation.durable_world import DurableWorld
from tests.simulation.world import World

WORLDS = {"log": DurableWorld, "log-apart": ApartWorld, "no-log": World}
"""Name -> histories with an add log in the storage, with one on each machine, and with none."""
STEP_COUNT = 64
HANG_SECONDS = 60


class NothingOutside(selectors.DefaultSelector):
    """Asks the operating system only if the loop has nothing to do: a history has no files, no network, no threads."""

    def select(self, timeout=None):
        return [] if timeout == 0 else super().select(timeout)


class HistoryLoop(asyncio.SelectorEventLoop):
    """The event loop of a history. Worker threads run inline, so that what they hand over needs no wake-up."""

    def __init__(self):
        super().__init__(NothingOutside())

    def call_soon_threadsafe(self, callback, *args, context=None):
        return self.call_soon(callback, *args, context=context)


async def live(world, step_count):
    """Run a world to its end, and fail if anything failed that no caller has seen."""
    unseen = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: unseen.append(context.get("exception") or context["message"])
    )
    try:
        async with asyncio.timeout(HANG_SECONDS):
            await world.run(step_count)
        assert not unseen, unseen
    except BaseException as error:
        shown = "\n".join(f"  {event}" for event in world.trace[-20:])
        error.add_note(f"simulation seed {world.seed}, {step_count} steps; last events:\n{shown}")
        raise
    return world


def run_history(seed, step_count=STEP_COUNT, world=DurableWorld):
    """Run one history in an event loop of its own; return its world."""
    with asyncio.Runner(loop_factory=HistoryLoop) as runner:
        return runner.run(live(world(seed), step_count))
