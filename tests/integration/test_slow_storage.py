"""One tracker on a storage with 30 s latency, in a real process, does not slow another."""

import asyncio
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerError
from tests.integration.harness.dispatcher import SETTINGS, connect, now_ms

pytestmark = pytest.mark.long

SLOW, FAST = "persistent://lab/main/slow", "persistent://lab/main/fast"
ADDS = 400


@pytest.mark.slow
async def test_adds_answer_while_another_tracker_waits_for_its_storage(tmp_path: Path) -> None:
    """Adds that seal are answered while the storage blocks another tracker's open."""
    topic = SLOW.replace(":", "%3A")
    storage_url = f"faulty:latency_ms=30000,topic={topic};sqlite:{tmp_path / 'tracker.db'}"
    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
    try:
        async with connect(service.grpc_address) as client:
            opening = asyncio.create_task(client.open_tracker(SLOW, "s", owner="slow"))
            async with await client.open_tracker(FAST, "s", owner="fast") as session:
                for number in range(ADDS):
                    ledger_id, entry_id = divmod(number, 60)
                    await session.add_columns([now_ms() + 3_600_000], [ledger_id], [entry_id])
                buckets = await session.buckets()
            assert not opening.done(), "the slow tracker was slow"
            assert len(buckets) > 5, "and the fast one was storing buckets meanwhile"
            opening.cancel()
            with pytest.raises((asyncio.CancelledError, DelayedTrackerError)):
                await opening
    finally:
        await service.ensure_stopped()
