"""Dispatcher and service are killed again and again; each new dispatcher begins at replay_from, and nothing is lost."""

import asyncio
import random
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import Offers, Position, TrackerSession, Unavailable
from tests.integration.harness.dispatcher import SETTINGS, SUBSCRIPTION, TOPIC, connect, now_ms

KILLS = 3
ENTRIES = 4_000
RANGE_ENTRIES = 7
HOUR_MS = 3_600_000

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


def position_of(number: int) -> Position:
    """Return the position of the topic's n-th entry: ledgers have 100 entries."""
    return Position(1 + number // 100, number % 100)


def number_of(position: Position) -> int:
    return 100 * (position.ledger_id - 1) + position.entry_id


def is_delayed(number: int) -> bool:
    return number % 3 != 0 and number % 50 >= RANGE_ENTRIES


async def offer_from(offers: Offers, first: int, enough: asyncio.Event, stop_after: int) -> None:
    """Offer all entries from one on, several ranges at a time, until the service is gone."""
    at_ms = now_ms() + HOUR_MS
    room = asyncio.Semaphore(5)
    answered = 0

    async def offer(last: int, delayed: list[int]) -> None:
        nonlocal answered
        columns = zip(*((at_ms, *position_of(number)) for number in delayed), strict=True)
        try:
            await offers.offer(position_of(last), *map(list, columns))
        except Unavailable:
            return
        finally:
            room.release()
        answered += 1
        if answered == stop_after:
            enough.set()

    async with asyncio.TaskGroup() as group:
        for begin in range(first, ENTRIES, RANGE_ENTRIES):
            numbers = range(begin, min(begin + RANGE_ENTRIES, ENTRIES))
            if delayed := [number for number in numbers if is_delayed(number)]:
                await room.acquire()
                group.create_task(offer(numbers[-1], delayed))
                await asyncio.sleep(0)
            else:
                offers.passed(position_of(numbers[-1]))
    enough.set()


async def begin_of(session: TrackerSession) -> int:
    begin = session.opened.replay_from
    return 0 if begin is None else number_of(begin)


async def missing(session: TrackerSession, end: int) -> list[int]:
    """Return the delayed entries below one that are not tracked."""
    delayed = [number for number in range(end) if is_delayed(number)]
    positions = [position_of(number) for number in delayed]
    tracked = await session.contains([each.ledger_id for each in positions], [each.entry_id for each in positions])
    return [number for number, there in zip(delayed, tracked, strict=True) if not there]


async def test_each_dispatcher_begins_where_the_one_before_was(tmp_path: Path):
    """Positions below replay_from are tracked after each kill, and all are after the last replay."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    begins = []
    for kill in range(KILLS + 1):
        service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
        try:
            async with (
                connect(service.grpc_address) as client,
                await client.open_tracker(TOPIC, SUBSCRIPTION) as session,
            ):
                begins.append(begin := await begin_of(session))
                assert await missing(session, begin) == []
                enough = asyncio.Event()
                stop_after = rng.randrange(5, 80) if kill < KILLS else ENTRIES
                offering = asyncio.create_task(offer_from(session.offers(), begin, enough, stop_after))
                await enough.wait()
                if kill < KILLS:
                    await service.kill()
                    offering.cancel()
                    await asyncio.wait({offering})
                    continue
                await offering
                assert await missing(session, ENTRIES) == []
                assert (await session.stats()).unaccounted_count == 0
        finally:
            await service.ensure_stopped()
    assert begins[0] == 0
    assert begins == sorted(begins)
    assert begins[1] > 0
    assert begins[-1] > begins[1], "claims must have moved"
