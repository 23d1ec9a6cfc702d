"""Process that copies a storage until it kills itself at a named point.

``python -m tests.snapshot_storage.shared.maintenance.copy_worker SOURCE TARGET POINT TIME``
"""

import asyncio
import os
import signal
import sys

from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import opened_storage
from tests.snapshot_storage.shared.maintenance.stores import ignore


async def copy(source: str, target: str, point: str, time: int) -> None:
    """Copy, and end at the point when it is reached for the nth time."""
    reached = 0

    def at_point(name: str) -> None:
        nonlocal reached
        reached += name == point
        if reached == time:
            os.kill(os.getpid(), signal.SIGKILL)

    async with opened_storage("--from", source) as one, opened_storage("--to", target, creates=True) as other:
        await copy_storage(one, other, progress=ignore, at_point=at_point)


if __name__ == "__main__":
    _, source, target, point, time = sys.argv
    asyncio.run(copy(source, target, point, int(time)))
