"""One dispatcher of the load, as a process: adds, cancels and reschedules beside polls, acknowledgements and nacks.

It follows the service over restarts through a file that names its address. After a restart it repeats the call that was
not answered, and, only if it is asked to, offers again what it has not finished.
"""

import asyncio
import json
import random
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from delayed_tracker.client import ClientSettings, DelayedTrackerClient, Position, TrackerSession, Unavailable
from delayed_tracker.client.errors import TrackerNotOpen
from tests.integration.crashes.journal import Journal
from tests.integration.harness.dispatcher import now_ms

SUBSCRIPTION = "workers"
LEASED_MAX = 100
HANDED_OFF_MAX = 20
SOONEST_MS = 300
LATEST_MS = 20_000
_LEDGER_ENTRIES = 50
_REPLAY_BATCH = 500
_DRAIN_S = 120.0
_RECONNECT_S = 0.1
_SETTINGS = ClientSettings(call_timeout_s=60.0, wait_for_ready=False)

Rows = list[tuple[int, int, int]]
"""Deadline, ledger and entry."""
Again = Callable[[TrackerSession], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Feed:
    """The service that runs now, as the test tells its clients."""

    generation: int
    """Number of the start, from 1."""
    address: str
    draining: bool
    """True if nothing more is added, and everything is to be delivered."""

    def publish(self, path: Path) -> None:
        """Write the file that clients follow, in one step."""
        fresh = path.with_suffix(".fresh")
        fresh.write_text(json.dumps([self.generation, self.address, self.draining]), encoding="utf-8")
        fresh.rename(path)


async def next_feed(path: Path, after: int) -> Feed:
    """Wait until a later generation is published."""
    while True:
        if path.exists():
            feed = Feed(*json.loads(path.read_text(encoding="utf-8")))
            if feed.generation > after:
                return feed
        await asyncio.sleep(0.01)


class LoadClient:
    """State of one dispatcher."""

    def __init__(self, topic: str, journal: Journal, rng: random.Random, *, replays: bool) -> None:
        self._topic = topic
        self._journal = journal
        self._rng = rng
        self._replays = replays
        self._unfinished: dict[Position, list[int]] = {}
        """The deadline that was offered, and the one in force."""
        self._recent: deque[Position] = deque(maxlen=1_000)
        self._again: Again | None = None
        """Repeats the call of the adding half that has not been answered."""
        self._next_row = 0

    async def follow(self, path: Path) -> None:
        """Work with each service that is published, until one is drained."""
        generation, drained = 0, False
        while not drained:
            # The same service again, too: on a busy machine a recovery may take longer than a call waits.
            feed = await next_feed(path, generation - 1)
            await asyncio.sleep(_RECONNECT_S if feed.generation == generation else 0)
            generation = feed.generation
            with suppress(Unavailable, TrackerNotOpen):
                async with DelayedTrackerClient.connect(feed.address, settings=_SETTINGS) as client:
                    drained = await self._work(client, feed)

    async def _work(self, client: DelayedTrackerClient, feed: Feed) -> bool:
        call = self._journal.begin("open", generation=feed.generation)
        async with await client.open_tracker(self._topic, SUBSCRIPTION) as session:
            self._journal.answered(call)
            if self._again is not None:
                await self._again(session)
            if self._replays:
                await self._replay(session)
            if feed.draining:
                await self._drain(session)
                return True
            await asyncio.gather(until_gone(self._keep_adding(session)), until_gone(self._keep_consuming(session)))
        return False

    async def _replay(self, session: TrackerSession) -> None:
        begin = session.opened.replay_from or Position(0, 0)
        rows = [(offered, *position) for position, (offered, _) in self._unfinished.items() if position >= begin]
        for first in range(0, len(rows), _REPLAY_BATCH):
            await self._add(session, rows[first : first + _REPLAY_BATCH])

    async def _drain(self, session: TrackerSession) -> None:
        """Bring all deadlines near, and deliver until nothing is tracked."""
        far = [position for position, (_, deadline) in self._unfinished.items() if deadline > now_ms() + 1_000]
        for first in range(0, len(far), _REPLAY_BATCH):
            soon = now_ms() + SOONEST_MS
            part = far[first : first + _REPLAY_BATCH]
            await self._reschedule(session, [(soon + self._rng.randrange(500), *position) for position in part])
        async with asyncio.timeout(_DRAIN_S):
            while (stats := await session.stats()).pending_count + stats.leased_count:
                await self._lease(session, nack_share=0.0)

    # -- adding ------------------------------------------------------------------------------------------------------

    async def _keep_adding(self, session: TrackerSession) -> None:
        while True:
            chance = self._rng.random()
            if chance < 0.7:
                await self._add(session, self._new_rows(self._rng.randint(1, 60)))
            elif chance < 0.8:
                await self._cancel(session, self._some(10))
            else:
                await self._reschedule(session, [(self._deadline(), *position) for position in self._some(20)])
            await asyncio.sleep(self._rng.random() / 20)

    def _new_rows(self, count: int) -> Rows:
        first, self._next_row = self._next_row, self._next_row + count
        return [(self._deadline(), *divmod(row, _LEDGER_ENTRIES)) for row in range(first, first + count)]

    def _deadline(self) -> int:
        # Most are soon, so that messages are delivered between two kills.
        return now_ms() + SOONEST_MS + round((LATEST_MS - SOONEST_MS) * self._rng.random() ** 3)

    def _some(self, count: int) -> list[Position]:
        # A replay notes positions once more.
        known = list(dict.fromkeys(position for position in self._recent if position in self._unfinished))
        return self._rng.sample(known, min(count, len(known)))

    async def _add(self, session: TrackerSession, rows: Rows) -> None:
        self._again = lambda later: self._add(later, rows)
        call = self._journal.begin("add", rows=rows)
        answer = await session.add_columns(*columns(rows))
        self._journal.answered(call, due=answer.due_offsets, duplicate=answer.duplicate_offsets)
        self._again = None
        for deadline, *position in rows:
            known = self._unfinished.setdefault(Position(*position), [deadline, deadline])
            if known[0] == known[1]:
                self._recent.append(Position(*position))
        self._finish(Position(*rows[offset][1:]) for offset in answer.due_offsets)

    async def _cancel(self, session: TrackerSession, positions: Sequence[Position]) -> None:
        if not positions:
            return
        self._again = lambda later: self._cancel(later, positions)
        call = self._journal.begin("cancel", positions=positions)
        answer = await session.cancel(*columns(positions))
        self._journal.answered(call, leased=answer.leased_offsets, unknown=answer.unknown_offsets)
        self._again = None
        self._finish(others(positions, answer.leased_offsets))

    async def _reschedule(self, session: TrackerSession, rows: Rows) -> None:
        if not rows:
            return
        self._again = lambda later: self._reschedule(later, rows)
        call = self._journal.begin("reschedule", rows=rows)
        answer = await session.reschedule(*columns(rows))
        self._journal.answered(call, leased=answer.leased_offsets, unknown=answer.unknown_offsets)
        self._again = None
        for deadline, *position in others(rows, answer.leased_offsets):
            if Position(*position) in self._unfinished:
                self._unfinished[Position(*position)][1] = deadline
        self._finish(Position(*rows[offset][1:]) for offset in answer.unknown_offsets)

    def _finish(self, positions: Iterable[Position]) -> None:
        for position in positions:
            self._unfinished.pop(position, None)

    # -- consuming ---------------------------------------------------------------------------------------------------

    async def _keep_consuming(self, session: TrackerSession) -> None:
        while True:
            if self._rng.random() < 0.1:
                await self._take(session)
            else:
                await self._lease(session, nack_share=0.08)

    async def _take(self, session: TrackerSession) -> None:
        call = self._journal.begin("hand_off", maximum=HANDED_OFF_MAX)
        messages = await session.poll_hand_off(HANDED_OFF_MAX)
        self._journal.answered(call, **polled(messages))
        self._finish(messages)

    async def _lease(self, session: TrackerSession, *, nack_share: float) -> None:
        call = self._journal.begin("poll")
        lease = await session.poll(LEASED_MAX, wait_ms=100, lease_ms=3_000)
        self._journal.answered(call, **polled(lease.messages))
        kept: list[Position] = []
        returned: list[Position] = []
        for position in lease.messages:
            (returned if self._rng.random() < nack_share else kept).append(position)
        if returned:
            # One in four leases keeps them until it expires, and one in four returns them as they are.
            chance = self._rng.random()
            if chance < 0.75:
                await self._nack(session, lease.lease_id, returned, self._deadline() if chance < 0.5 else None)
        if kept:
            call = self._journal.begin("ack", positions=kept)
            answer = await session.ack(lease.lease_id, *columns(kept))
            self._journal.answered(call, stale=answer.stale_offsets, unknown=answer.unknown_offsets)
            self._finish(others(kept, answer.stale_offsets))

    async def _nack(
        self, session: TrackerSession, lease_id: int, positions: list[Position], deadline: int | None
    ) -> None:
        call = self._journal.begin("nack", positions=positions, deadline=deadline)
        answer = await session.nack(lease_id, *columns(positions), deliver_at_ms=deadline)
        self._journal.answered(call, stale=answer.stale_offsets, unknown=answer.unknown_offsets)
        for position in others(positions, (*answer.stale_offsets, *answer.unknown_offsets)):
            if deadline is not None and position in self._unfinished:
                self._unfinished[position][1] = deadline


async def until_gone(part: Awaitable[None]) -> None:
    """Run one half of the load until the service is gone; any other error fails the client."""
    with suppress(Unavailable, TrackerNotOpen):
        await part


def columns(rows: Iterable[Sequence[int]]) -> list[list[int]]:
    return [list(column) for column in zip(*rows, strict=True)]


def others(rows: Sequence[Any], offsets: Sequence[int]) -> list[Any]:
    """Return the rows at no given offset."""
    left_out = set(offsets)
    return [row for offset, row in enumerate(rows) if offset not in left_out]


def polled(messages) -> dict[str, object]:
    rows = zip(messages.deliver_at_ms, messages.ledger_ids, messages.entry_ids, strict=True)
    return {"rows": list(rows), "server_ms": messages.server_time_ms}


if __name__ == "__main__":
    feed_path, journal_path, own_topic, seed, replaying = sys.argv[1:]
    load = LoadClient(own_topic, Journal(Path(journal_path)), random.Random(seed), replays=replaying == "replay")
    asyncio.run(load.follow(Path(feed_path)))
