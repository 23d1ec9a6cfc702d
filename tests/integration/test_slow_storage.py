"""One tracker on a storage that takes ten minutes, in a real process, does not slow another."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import DelayedTrackerClient, DelayedTrackerError
from tests.integration.harness.dispatcher import PATIENT, SETTINGS
from tests.integration.harness.lab import HOUR_MS, add_entries

pytestmark = pytest.mark.long

SLOW, FAST = "persistent://lab/main/slow", "persistent://lab/main/fast"
SLOW_MS = 600_000
"""Far longer than the adds take on any machine."""
ADDS = 40
BATCH = 10


@pytest.mark.slow
async def test_adds_answer_while_another_tracker_waits_for_its_storage(tmp_path: Path) -> None:
    """Adds that seal are answered while the storage blocks another tracker's open."""
    topic = SLOW.replace(":", "%3A")
    storage_url = f"faulty:latency_ms={SLOW_MS},topic={topic};sqlite:{tmp_path / 'tracker.db'}"
    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
    try:
        patient = replace(PATIENT, open_timeout_s=SLOW_MS / 1_000)
        async with DelayedTrackerClient.connect(service.grpc_address, settings=patient) as client:
            opening = asyncio.create_task(client.open_tracker(SLOW, "s", owner="slow"))
            async with await client.open_tracker(FAST, "s", owner="fast") as session:
                for number in range(ADDS):
                    ledger_id, entry_id = divmod(number * BATCH, 60)
                    await add_entries(session, ledger_id, range(entry_id, entry_id + BATCH), in_ms=HOUR_MS)
                buckets = await session.buckets()
            assert not opening.done(), "the slow tracker was slow"
            assert len(buckets) > 5, "and the fast one was storing buckets meanwhile"
            opening.cancel()
            with pytest.raises((asyncio.CancelledError, DelayedTrackerError)):
                await opening
    finally:
        await service.ensure_stopped()
