"""A service that is killed right after it has moved a cursor: what is above stays, and nothing else comes back."""

import asyncio
from pathlib import Path

import pytest
from pyroaring import BitMap

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import BucketState, Position, TrackerSession, TrackerView
from tests.integration.harness.dispatcher import SETTINGS, SUBSCRIPTION, TOPIC, connect, now_ms

HOUR_MS = 3_600_000
ENTRIES = range(100)
OLD, NEW = Position(1, 79), Position(1, 19)
CANCELLED = range(85, 90)

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


async def membership(view: TrackerView) -> dict[int, BitMap]:
    found: dict[int, BitMap] = {}
    async for part in view.membership():
        found[part.ledger_id] = found.get(part.ledger_id, BitMap()) | BitMap.deserialize(part.bitmap)
    return found


async def sealed(session: TrackerSession) -> None:
    """Seal what is in memory, and return when it is stored: until then a crash without durable adds loses it."""
    await session.seal()
    while any(bucket.state is BucketState.SEALING for bucket in await session.buckets()):  # noqa: ASYNC110  # a process
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("durable", ["true", pytest.param("false", marks=pytest.mark.deep)])
async def test_a_move_survives_a_kill(tmp_path: Path, durable: str):
    """Through three kills: after the move, after the replay, and after its bucket was sealed and the log was cut."""
    settings = SETTINGS | {"trackerDurableAdds": durable, "delayedDeliveryMinIndexCountPerBucket": "1000"}
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    at_ms = now_ms() + HOUR_MS

    async def started() -> ServiceProcess:
        return await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=settings)

    service = await started()
    try:
        async with connect(service.grpc_address) as client:
            session = await client.open_tracker(TOPIC, SUBSCRIPTION)
            await session.add_columns([at_ms] * 100, [1] * 100, ENTRIES, offered_through=Position(1, 99))
            await sealed(session)
            await session.cancel([1] * len(CANCELLED), CANCELLED)
            await session.advance_mark_delete(*OLD)
            await session.add_columns([at_ms], [2], [0])
            answer = await session.reset_cursor(NEW, keep_index=True)
            assert (answer.cleared_count, answer.replay_from) == (0, Position(1, 20))
        kept = BitMap([*range(80, 85), *range(90, 100)])
        in_memory = {2: BitMap([0])} if durable == "true" else {}
        await service.kill()
        service = await started()
        again = [*range(20, 80), *CANCELLED]
        async with connect(service.grpc_address) as client:
            session = await client.open_tracker(TOPIC, SUBSCRIPTION)
            assert session.opened.replay_from == Position(1, 20)
            assert await membership(session) == {1: kept} | in_memory
            added = await session.add_columns([at_ms + 1] * len(again), [1] * len(again), again)
            assert added.added_count == len(again)
        # Without durable adds what is in memory, as late positions are, comes from the next replay.
        tracked = {1: kept | BitMap(again)} | in_memory if durable == "true" else {1: kept}
        await service.kill()
        service = await started()
        async with connect(service.grpc_address) as client:
            session = await client.open_tracker(TOPIC, SUBSCRIPTION)
            assert await membership(session) == tracked
            await sealed(session)
            await session.close()
        await service.kill()
        service = await started()
        async with connect(service.grpc_address) as client:
            session = await client.open_tracker(TOPIC, SUBSCRIPTION)
            assert await membership(session) == tracked
            peeked = await session.peek(1_000)
            deadlines = dict(
                zip(zip(peeked.ledger_ids, peeked.entry_ids, strict=True), peeked.deliver_at_ms, strict=True)
            )
            assert {entry: deadlines[1, entry] - at_ms for entry in kept} == dict.fromkeys(kept, 0)
            if durable == "true":
                assert {entry: deadlines[1, entry] - at_ms for entry in again} == dict.fromkeys(again, 1)
            assert (await session.verify()).sound
        await service.stop()
    finally:
        await service.ensure_stopped()
