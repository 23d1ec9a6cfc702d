"""Add far deadlines to one tracker as fast as the service takes them, until stdin closes; print the results as JSON.

python -m tests.benchmarks.inputs.adder ADDRESS TOPIC [--stream]
"""

import asyncio
import itertools
import json
import sys
import time
from collections.abc import AsyncIterator

import numpy as np

from delayed_tracker.client import DelayedTrackerClient, Overloaded, TrackerSession
from delayed_tracker.client.queues.add_stream import IndexBatch

BATCH = 10_000
LEDGER_ENTRIES = 50_000
CALLS = 2
"""Calls in flight at a time."""
WEEK_MS = 604_800_000
DAY_MS = 86_400_000


class Adder:
    """Sender of batches in position order, with the counts of their results."""

    def __init__(self, session: TrackerSession) -> None:
        self.accepted = self.overloaded = 0
        self.longest_s = 0.0
        self._session = session
        self._firsts = itertools.count(0, BATCH)
        self._stopped = asyncio.Event()

    async def until_told(self, *, over_stream: bool) -> None:
        """Add until stdin closes."""
        asyncio.get_running_loop().add_reader(sys.stdin, self._stopped.set)
        ways = [self._stream()] if over_stream else [self._calls() for _ in range(CALLS)]
        adding = [asyncio.create_task(way) for way in ways]
        await self._stopped.wait()
        asyncio.get_running_loop().remove_reader(sys.stdin)
        for task in adding:
            task.cancel()
        for ended in await asyncio.gather(*adding, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _calls(self) -> None:
        for first in self._firsts:
            batch = _batch(first)
            while not await self._added(batch):
                pass

    async def _added(self, batch: IndexBatch) -> bool:
        started_s = time.perf_counter()
        try:
            answer = await self._session.add_columns(*batch)
        except Overloaded:
            self.overloaded += 1
            return False
        finally:
            self.longest_s = max(self.longest_s, time.perf_counter() - started_s)
        self.accepted += answer.added_count
        return True

    async def _stream(self) -> None:
        async for answer in self._session.add_stream(self._batches()):
            self.accepted += answer.added_count

    async def _batches(self) -> AsyncIterator[IndexBatch]:
        for first in self._firsts:
            yield _batch(first)


def _batch(first: int) -> IndexBatch:
    numbers = np.arange(first, first + BATCH)
    deadlines = time.time_ns() // 1_000_000 + DAY_MS + numbers * 7_919 % WEEK_MS
    return deadlines, numbers // LEDGER_ENTRIES, numbers % LEDGER_ENTRIES


async def _main(address: str, topic: str, *options: str) -> None:
    async with (
        DelayedTrackerClient.connect(address) as client,
        await client.open_tracker(topic, "adder") as session,
    ):
        print("open", flush=True)
        adder = Adder(session)
        await adder.until_told(over_stream="--stream" in options)
    print(json.dumps({"accepted": adder.accepted, "overloaded": adder.overloaded, "longest_s": adder.longest_s}))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
