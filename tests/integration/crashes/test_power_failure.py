"""The power fails: from what was synced by then, the service starts and honours every answer that it had given."""

import asyncio
import random
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerClient, Position, TrackerSession
from tests.integration.crashes.facts import End, Facts
from tests.integration.crashes.journal import read_journal
from tests.integration.crashes.load import SETTINGS, TWICE_MAX, Load, running_load
from tests.integration.crashes.load_client import SUBSCRIPTION, columns
from tests.integration.crashes.recording import rebuilt
from tests.integration.crashes.tracing import recorder, until_recorded
from tests.integration.harness.dispatcher import connect

CLIENTS = 2
PEEKED_MAX = 10_000
DELIVERED = 20
"""Messages of each client before the power may fail."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


async def recorded_load(directory: Path, seed: int, seconds: float, points: int) -> Load:
    """Record the service under load until it is killed; its files are in ``storage``, the record in ``recording``.

    Args:
        directory: of all files.
        seed: of the clients.
        seconds: time under load after the first deliveries.
        points: answers that there must be at least, for which a busy machine takes longer.
    """
    storage = directory / "storage"
    storage.mkdir()
    service = await ServiceProcess.start(
        directory,
        storage_url=f"sqlite:{storage / 'tracker.db'}",
        settings=SETTINGS,
        run_by=recorder(directory / "recording"),
    )
    try:
        async with running_load(directory, seed, count=CLIENTS) as load:
            load.publish(service.grpc_address)
            await load.until_working()
            await load.until_delivered(DELIVERED)
            await asyncio.sleep(seconds)
            while len(answers_of(load)) < points:
                load.require_running()
                await asyncio.sleep(0.2)
            load.require_running()
            await service.kill()
    finally:
        await service.ensure_stopped()
    await until_recorded(directory / "recording", service.process.pid)
    return load


def answers_of(load: Load) -> list[float]:
    """Return the times at which an answer was noted."""
    journals = [read_journal(load.journal_of(topic)) for topic in load.topics]
    return [event["at"] for journal in journals for event in journal if "answer" in event]


async def tracked_of(session: TrackerSession, positions: list[Position]) -> set[Position]:
    """Return those of the positions that the service has."""
    if not positions:
        return set()
    answer = await session.contains(*columns(positions))
    return {position for position, there in zip(positions, answer, strict=True) if there}


async def require_honoured(client: DelayedTrackerClient, topic: str, facts: Facts) -> int:
    """Assert that a client's answers hold; return the consumed positions that are tracked again."""
    assert facts.wrong == []
    async with await client.open_tracker(topic, SUBSCRIPTION) as session:
        tracked = await tracked_of(session, list(facts.positions))
        peeked = await session.peek(PEEKED_MAX)
    assert facts.lost(facts.owed().keys() - tracked) == []
    ended = {position: fact.end for position, fact in facts.positions.items() if fact.end is not None}
    back = [position for position in tracked & ended.keys() if ended[position] is not End.CONSUMED]
    assert back == [], "cancelled, or answered as due"
    for deadline, position in zip(peeked.deliver_at_ms, peeked, strict=True):
        assert deadline in facts.positions[position].deadlines, position
    return len(tracked & ended.keys())


@pytest.mark.parametrize(
    ("points", "seconds"),
    [
        pytest.param(4, 3.0, id="4-points"),
        pytest.param(100, 20.0, id="100-points", marks=[pytest.mark.deep, pytest.mark.timeout(1_800)]),
    ],
)
async def test_answers_hold_after_a_power_failure(tmp_path: Path, points: int, seconds: float):
    """At every second point all that was not synced is lost; at the others, a random prefix of it survives."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    load = await recorded_load(tmp_path, seed, seconds, points)
    # The power fails as soon as the client has an answer.
    moments = rng.sample(sorted(answers_of(load)), points)
    owed_count = 0
    for number, (moment, state) in enumerate(rebuilt(tmp_path / "recording", tmp_path / "storage", moments)):
        directory = tmp_path / f"failure-{number}"
        state.write(directory, rng if number % 2 else None)
        service = await ServiceProcess.start(
            tmp_path, storage_url=f"sqlite:{directory / 'tracker.db'}", settings=SETTINGS
        )
        again = 0
        try:
            async with connect(service.grpc_address) as client:
                for topic in load.topics:
                    facts = load.facts(topic, until=moment)
                    owed_count += len(facts.owed())
                    again += await require_honoured(client, topic, facts)
            assert again <= TWICE_MAX
            assert await service.stop() == 0
        finally:
            await service.ensure_stopped()
    assert state.sync_count > 10
    assert owed_count > 0
