"""Services as processes: resources that they do not share, and orderly stops."""

import asyncio
from pathlib import Path

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceDidNotStart, ServiceProcess
from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.client import Cleared, DelayedTrackerError, Fenced, Position, SessionClosed, TrackerNotOpen
from tests.integration.harness.dispatcher import SETTINGS, connect, now_ms

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_settings() -> dict[str, str]:
    return SETTINGS


@pytest.fixture
def service_settings() -> dict[str, str]:
    return {**SETTINGS, "shutdownGraceMillis": "5000"}


async def refused(directory: Path, storage_url: str, settings: dict[str, str]) -> ServiceDidNotStart:
    directory.mkdir()
    with pytest.raises(ServiceDidNotStart) as caught:
        await ServiceProcess.start(directory, storage_url=storage_url, settings=settings)
    assert "Traceback" not in str(caught.value)
    return caught.value


@pytest.mark.long
@pytest.mark.parametrize("key", ["grpcListenAddress", "httpListenAddress"])
async def test_a_port_in_use_is_refused(shared_service, tmp_path, key):
    """A port in use is refused with the key, the address and its own exit status."""
    taken = shared_service.grpc_address if key.startswith("grpc") else shared_service.http_address
    error = await refused(tmp_path / "second", "memory:", {key: taken})
    assert error.exit_status == ExitCode.ADDRESS_IN_USE
    assert f"{key}={taken}" in str(error)


@pytest.mark.long
async def test_a_data_file_in_use_is_refused(service, tmp_path):
    """Two services never write one file."""
    error = await refused(tmp_path / "second", f"sqlite:{tmp_path / 'tracker.db'}", {})
    assert error.exit_status == ExitCode.STORAGE_UNUSABLE
    assert "tracker.db" in str(error)


@pytest.mark.long
async def test_sigterm_ends_waiting_polls_and_keeps_every_index(service, tmp_path):
    """Sealed indexes are in snapshots after an orderly stop; the others come back from the add log."""
    positions = [Position(ledger_id, entry_id) for ledger_id in (1, 2) for entry_id in range(60)]
    async with connect(service.grpc_address) as client, await client.open_tracker("t", "s") as session:
        await session.add_columns(
            [now_ms() + 3_600_000] * 120, [row.ledger_id for row in positions], [row.entry_id for row in positions]
        )
        assert await service.stop() == 0
        with pytest.raises(DelayedTrackerError):
            await session.poll(1)
    again = await ServiceProcess.start(tmp_path, storage_url=f"sqlite:{tmp_path / 'tracker.db'}", settings=SETTINGS)
    try:
        async with connect(again.grpc_address) as client, await client.open_tracker("t", "s") as session:
            assert session.opened.recovered_count == 120
            assert await session.contains([1, 2], [0, 0]) == [True, True]
    finally:
        await again.ensure_stopped()


@pytest.mark.long
async def test_odd_names_are_kept_verbatim(service, tmp_path):
    """Long topics and subscriptions with spaces, slashes and percent signs are kept, also after a crash."""
    names = [
        ("persistent://lab/main/" + "x" * 178, "s"),
        ("persistent://lab/main/delayed", "a b/c%2Fd%"),
        ("persistent://lab/main/delayed", "späť 日本 \N{PILE OF POO}"),
    ]
    rows = [(ledger_id, entry_id) for ledger_id in (1, 2) for entry_id in range(60)]
    async with connect(service.grpc_address) as client:
        for name in names:
            session = await client.open_tracker(*name)
            await session.add_columns([now_ms() + 3_600_000] * 120, [row[0] for row in rows], [row[1] for row in rows])
            while not any(bucket.bucket_id for bucket in await session.buckets()):
                pass
    await service.kill()
    again = await ServiceProcess.start(tmp_path, storage_url=f"sqlite:{tmp_path / 'tracker.db'}", settings=SETTINGS)
    try:
        async with connect(again.grpc_address) as client:
            for topic, subscription in names:
                async with await client.open_tracker(topic, subscription) as session:
                    assert session.opened.recovered_count == 120
                async with await client.open_tracker(topic, subscription + " ") as other:
                    assert other.opened.recovered_count == 0
    finally:
        await again.ensure_stopped()


async def test_owners_are_fenced_and_closed_trackers_say_so(shared_service):
    """The client raises the errors of the real service for fenced owners and closed trackers."""
    async with connect(shared_service.grpc_address) as client:
        with pytest.raises(TrackerNotOpen):
            await client.view_tracker("t", "s").stats()
        first = await client.open_tracker("t", "s", owner="first")
        second = await client.open_tracker("t", "s", owner="second")
        assert second.epoch > first.epoch
        with pytest.raises(Fenced, match="second"):
            await first.add_columns([1], [1], [1])
        assert await second.clear() == 0
        await second.close()
        with pytest.raises(SessionClosed):
            await second.poll(1)
        with pytest.raises(TrackerNotOpen):
            await client.view_tracker("t", "s").stats()
        with pytest.raises(DelayedTrackerError, match="topic"):
            await client.open_tracker("", "s")


async def test_a_waiting_poll_ends_when_the_tracker_is_cleared(shared_service):
    """Clearing ends a waiting poll with its own error, so that a dispatcher does not take it for an empty answer."""
    async with connect(shared_service.grpc_address) as client, await client.open_tracker("t", "s") as session:
        waiting = asyncio.create_task(session.poll(1, wait_ms=30_000))
        async with httpx.AsyncClient(base_url=f"http://{shared_service.http_address}", timeout=60) as http:
            while "delayed_tracker_waiting_polls 1\n" not in (await http.get("/metrics")).text:
                pass
        await session.clear()
        with pytest.raises(Cleared):
            await waiting
