"""Add far deadlines to trackers as fast as the service takes them, until stdin closes; print the results as JSON.

python -m tests.benchmarks.inputs.adder ADDRESS TOPIC [--stream] [--trackers N] [--batch N] [--trim] [--core N]

``--trim`` drops what is some ledgers old, and deletes the trackers at the end, so that a service with room goes on for ever;
and its calls tell of refusals, which otherwise the client repeats for as long as a call may take.
"""

import argparse
import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import numpy as np

from delayed_tracker.client import CallTimedOut, ClientSettings, DelayedTrackerClient, Overloaded, TrackerSession
from delayed_tracker.client.queues.add_stream import IndexBatch

BATCH = 10_000
"""Positions in a call, a divisor of ``LEDGER_ENTRIES``."""
LEDGER_ENTRIES = 50_000
CALLS = 2
"""Calls in flight at a time."""
WEEK_MS = 604_800_000
DAY_MS = 86_400_000


KEPT_LEDGERS = 3
"""Ledgers that ``--trim`` keeps."""
PROMPT = ClientSettings(call_timeout_s=1.9)
"""Less than twice the service's pause of a second: a refused call is not repeated by the client."""


class Adder:
    """Sender of batches in position order to one tracker, with the counts of their results.

    Args:
        session: of the tracker.
        batch: positions in a call.
        trims: drops old ledgers, and pauses after a refusal for as long as the service asks.
    """

    def __init__(self, session: TrackerSession, *, batch: int = BATCH, trims: bool = False) -> None:
        self.accepted = self.overloaded = 0
        self.without_pause = 0
        """Refusals that did not say when to try again."""
        self.unanswered = 0
        self.longest_s = 0.0
        self._session = session
        self._batch = batch
        self._trims = trims
        self._in_flight_max = CALLS * batch
        """Positions that had no answer when the adds were stopped."""
        self._firsts = itertools.count(0, batch)

    async def add(self, stopped: asyncio.Event, *, over_stream: bool) -> None:
        """Add until the event is set."""
        if over_stream:
            self._in_flight_max = ClientSettings().stream_positions_max + self._batch
        ways = [self._stream()] if over_stream else [self._calls() for _ in range(CALLS)]
        adding = [asyncio.create_task(way) for way in ways]
        await stopped.wait()
        for task in adding:
            task.cancel()
        for ended in await asyncio.gather(*adding, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def verify(self) -> None:
        """Raise SystemExit unless the service has added what it accepted, and at most what it did not answer besides."""
        added_count = (await self._session.stats()).added_count
        if not 0 <= added_count - self.accepted <= self._in_flight_max + self.unanswered * self._batch:
            raise SystemExit(f"{self.accepted} were accepted, but the service has added {added_count}")

    async def _calls(self) -> None:
        for first in self._firsts:
            batch = self._columns(first)
            while not await self._added(batch):
                pass
            ledger_id, entry_id = divmod(first, LEDGER_ENTRIES)
            if self._trims and entry_id < self._batch and ledger_id > KEPT_LEDGERS:
                await self._session.advance_mark_delete(ledger_id - KEPT_LEDGERS, LEDGER_ENTRIES)

    async def _added(self, batch: IndexBatch) -> bool:
        started_s = time.perf_counter()
        try:
            answer = await self._session.add_columns(*batch)
        except Overloaded as error:
            self.overloaded += 1
            self.without_pause += error.retry_after_s is None
            if self._trims:
                await asyncio.sleep(error.retry_after_s or 0)
            return False
        except CallTimedOut:
            self.unanswered += 1
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
            yield self._columns(first)

    def _columns(self, first: int) -> IndexBatch:
        numbers = np.arange(first, first + self._batch)
        deadlines = time.time_ns() // 1_000_000 + DAY_MS + numbers * 7_919 % WEEK_MS
        return deadlines, numbers // LEDGER_ENTRIES, numbers % LEDGER_ENTRIES


async def _main(options: argparse.Namespace) -> None:
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    stopped = asyncio.Event()
    async with AsyncExitStack() as stack:
        settings = PROMPT if options.trim else ClientSettings()
        client = await stack.enter_async_context(DelayedTrackerClient.connect(options.address, settings=settings))
        sessions = [
            await stack.enter_async_context(await client.open_tracker(options.topic, f"adder {number}"))
            for number in range(options.trackers)
        ]
        print("open", flush=True)
        adders = [Adder(session, batch=options.batch, trims=options.trim) for session in sessions]
        asyncio.get_running_loop().add_reader(sys.stdin, stopped.set)
        await asyncio.gather(*(adder.add(stopped, over_stream=options.stream) for adder in adders))
        asyncio.get_running_loop().remove_reader(sys.stdin)
        for adder, session in zip(adders, sessions, strict=True):
            await adder.verify()
            if options.trim:
                await session.delete()
    totals = {
        name: sum(getattr(adder, name) for adder in adders)
        for name in ("accepted", "overloaded", "without_pause", "unanswered")
    }
    print(json.dumps({**totals, "longest_s": max(adder.longest_s for adder in adders)}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("topic")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--trackers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--trim", action="store_true")
    parser.add_argument("--core", type=int)
    asyncio.run(_main(parser.parse_args()))
