"""A real service with a full disk refuses or blocks adds in bounded memory, and continues when there is room."""

import asyncio
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import httpx
import numpy as np
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import CallTimedOut, DelayedTrackerClient, Overloaded, TrackerSession
from tests.benchmarks.abuse.memory_curve import adding, limit_files
from tests.benchmarks.inputs.serving import until_kernels_are_loaded
from tests.benchmarks.machine import ProcessMeter
from tests.integration.harness.dispatcher import PATIENT, connect, now_ms
from tests.integration.harness.lab import HOUR_MS, TOPIC
from tests.service.metrics.scraping import parsed, summed

pytestmark = pytest.mark.long

BATCH = 1_000
SETTINGS = {
    # Else the add log on the same disk refuses them first: tests/integration/crashes/test_full_disk.py.
    "trackerDurableAdds": "false",
    "unstoredIndexesMax": "10000",
    "trackerUnstoredIndexesMax": "8000",
    "delayedDeliveryMinIndexCountPerBucket": "2000",
    "storageRetryMillis": "50",
    "storageBackoffMillis": "1",
}
FULL_BYTES = 1
NO_LIMIT = -1
UNSTORED_MAX = 500_000
SECONDS_MIN = 20


@pytest.fixture
def service_settings():
    return SETTINGS


Columns = tuple[np.ndarray, np.ndarray, np.ndarray]


def batch(number) -> Columns:
    """Return a batch in a new ledger, so that earlier ledgers may be sealed."""
    return np.full(BATCH, now_ms() + HOUR_MS), np.full(BATCH, number), np.arange(BATCH)


async def refusal(session: TrackerSession, refused: Columns) -> Overloaded:
    """Return the error of a call that is refused; where the machine stands still at the last retry, it is made anew."""
    while True:
        try:
            await session.add_columns(*refused)
        except CallTimedOut:
            continue
        except Overloaded as error:
            return error
        raise AssertionError("the call was not refused")


@pytest.mark.slow
async def test_calls_are_refused_while_the_disk_is_full_and_go_on_when_it_is_not(service: ServiceProcess):
    """The client retries for as long as a call may take; then it raises an error, and nothing was applied."""
    impatient = replace(PATIENT, call_timeout_s=10.0)  # some retries; long enough for a call on a busy machine
    async with (
        connect(service.grpc_address) as patient,
        await patient.open_tracker(TOPIC, "patient") as session,
        DelayedTrackerClient.connect(service.grpc_address, settings=impatient) as client,
        await client.open_tracker(TOPIC, "impatient") as other,
    ):
        limit_files(service, FULL_BYTES)
        for number in range(8):
            await session.add_columns(*batch(number))
        for number in range(2):
            await other.add_columns(*batch(number))
        assert (await refusal(other, batch(2))).retry_after_s == 1
        assert (await other.stats()).pending_count == 2 * BATCH
        adding_on = asyncio.create_task(session.add_columns(*batch(8)))
        assert len((await session.add_columns(*batch(3))).duplicate_offsets) == BATCH
        assert not adding_on.done()
        limit_files(service, NO_LIMIT)
        assert (await adding_on).added_count == BATCH
        assert (await session.stats()).pending_count == 9 * BATCH


@pytest.mark.slow
async def test_a_stream_is_held_back_while_the_disk_is_full(service: ServiceProcess):
    """A stream is blocked without an error and without an end; it continues once there is room."""
    async with (
        connect(service.grpc_address) as client,
        await client.open_tracker(TOPIC, "workers") as session,
    ):
        limit_files(service, FULL_BYTES)

        async def batches():
            for number in range(30):
                yield batch(number)

        answered = 0
        async with aclosing(session.add_stream(batches())) as answers:
            async for answer in answers:
                answered += answer.added_count
                if answered == 8 * BATCH:
                    assert (await session.stats()).pending_count == answered
                    limit_files(service, NO_LIMIT)
        assert answered == 30 * BATCH
        assert (await session.stats()).pending_count == answered


async def added_count(service: ServiceProcess) -> float:
    """Return how many indexes were added to all trackers."""
    async with httpx.AsyncClient(base_url=f"http://{service.http_address}", timeout=60) as http:
        return summed(parsed((await http.get("/metrics")).text), "delayed_tracker_indexes_total", event="added")


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("options", [(), ("--stream",)], ids=["calls", "streams"])
@pytest.mark.parametrize("file_bytes", [3_000 * 1024, NO_LIMIT], ids=["full disk", "healthy disk"])
async def test_memory_does_not_grow_with_what_is_offered(tmp_path: Path, file_bytes: int, options: tuple[str, ...]):
    """Memory is flat once the maximum is reached while three processes add as fast as they can."""
    service = await ServiceProcess.start(
        tmp_path,
        storage_url=f"sqlite:{tmp_path / 'tracker.db'}",
        settings={"unstoredIndexesMax": str(UNSTORED_MAX), "trackerUnstoredIndexesMax": str(UNSTORED_MAX)},
    )
    try:
        await until_kernels_are_loaded(service)
        meter = ProcessMeter(service.process.pid)
        idle_bytes, curve = meter.resident_bytes, []
        # Twice the maximum shows that room comes back. How soon, the other programs on the machine decide.
        wanted_count = 2 * UNSTORED_MAX + 1 if file_bytes == NO_LIMIT else UNSTORED_MAX
        async with adding(service.grpc_address, 3, *options) as added:
            limit_files(service, file_bytes)  # not before: an open needs the storage
            while len(curve) < SECONDS_MIN or await added_count(service) < wanted_count:
                await asyncio.sleep(1)
                curve.append(meter.resident_bytes - idle_bytes)
        print([f"{held / 1e6:.0f} MB" for held in curve], added)
        assert sum(one.accepted for one in added) >= wanted_count
        assert max(curve) < 200 * UNSTORED_MAX + 50e6
    finally:
        await service.ensure_stopped()
