"""A process that appends to an add log until it is killed. It says the begin and the end of each step.

``python -m tests.snapshot_storage.add_log.log_worker PATH FAULTS SEED``, with faults as in a ``faulty:`` URL. The content
of a record depends on its tracker and number alone, so that a later reader can verify it.
"""

import asyncio
import os
import random
import sys

from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.add_log_registry import open_add_log

TOPIC = "persistent://t/ns/crash"
CURSORS = ("a", "b", "c")
WRITER = "worker"


def record_of(cursor: str, number: int) -> bytes:
    """Return the record of a number: mostly short, sometimes of many pages."""
    rng = random.Random(f"{cursor}{number}")
    return rng.randbytes(rng.choice((0, 10, 500, 60_000)))


def say(*words: object) -> None:
    """Write one line, whole and without delay."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def work(path: str, faults: str, seed: str) -> None:
    """Append to all trackers in common commits, and cut at times, until the process is killed."""
    rng = random.Random(int(seed))
    log = open_add_log(f"faulty:{faults};sqlite:{path}")
    await log.start()
    last = {cursor: (await log.take_over(TOPIC, cursor, epoch=1, writer=WRITER)).last_number for cursor in CURSORS}
    say("started")
    while True:
        parts = []
        for cursor in rng.sample(CURSORS, rng.randrange(1, 4)):
            numbers = range(last[cursor] + 1, last[cursor] + 1 + rng.randrange(1, 20))
            parts.append(LogAppend(TOPIC, cursor, 1, numbers[0], [record_of(cursor, number) for number in numbers]))
            last[cursor] = numbers[-1]
        say("append", *(f"{part.cursor}={last[part.cursor]}" for part in parts))
        await log.append(parts, writer=WRITER)
        say("appended", *(f"{part.cursor}={last[part.cursor]}" for part in parts))
        if rng.random() < 0.3:
            cursor = rng.choice(CURSORS)
            through = max(0, last[cursor] - rng.randrange(30))
            say("cut", f"{cursor}={through}")
            await log.cut([(TOPIC, cursor, through)])
            say("was_cut", f"{cursor}={through}")


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
