"""The disk fills up under adds: they are refused with the cause, nothing answered is lost, and freed space is used."""

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import TrackerSession, Unavailable
from tests.integration.harness.dispatcher import SUBSCRIPTION, TOPIC, connect, now_ms
from tests.integration.harness.lab import HOUR_MS, add

DISK = "16m"
LEFT_BYTES = 2**20
BATCH = 1_000
BATCHES_MAX = 2_000
DUE = 0
"""Ledger of messages that are due while the disk is full."""

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small file system. Where this user may not, the test is skipped, except in CI."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        refused = "this user may not mount a tmpfs: run the tests as root"
        if os.environ.get("CI"):
            pytest.fail(refused, pytrace=False)
        pytest.skip(refused)
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> Path:
    """Write a file that leaves little space, and return it."""
    free = os.statvfs(disk)
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize - LEFT_BYTES)
    return ballast


async def add_ledger(session: TrackerSession, ledger_id: int) -> None:
    """Add the messages of a ledger; some may be there already."""
    answer = await session.add_columns([now_ms() + HOUR_MS] * BATCH, [ledger_id] * BATCH, range(BATCH))
    assert answer.added_count + len(answer.duplicate_offsets) == BATCH


async def add_until_refused(session: TrackerSession) -> tuple[int, Unavailable]:
    """Add ledger after ledger; return the one that was refused, and the error."""
    for ledger_id in range(1, BATCHES_MAX):
        try:
            await add_ledger(session, ledger_id)
        except Unavailable as error:
            return ledger_id, error
    raise AssertionError("the disk was never full")


async def require_tracked(session: TrackerSession, through: int) -> None:
    """Assert that all messages of the ledgers up to one are tracked."""
    for ledger_id in range(1, through + 1):
        assert all(await session.contains([ledger_id] * BATCH, range(BATCH))), ledger_id


async def test_a_full_disk_refuses_adds_and_loses_nothing(tmp_path: Path, small_disk: Path):
    """Due messages go out meanwhile; when space is freed adds go on by themselves, and a kill loses none of them."""
    storage_url = f"sqlite:{small_disk / 'tracker.db'}"
    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings={})
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            await add(session, DUE, 10, in_ms=2_000)
            ballast = fill(small_disk)
            refused, error = await add_until_refused(session)
            assert error.reason == "STORAGE_UNAVAILABLE"
            assert "check the disk's free space" in str(error)
            assert refused > 1, "some adds must have been answered before"
            assert len(await session.poll(10, wait_ms=60_000)) > 0
            ballast.unlink()
            async with asyncio.timeout(120):
                while True:
                    try:
                        await add_ledger(session, refused)
                        break
                    except Unavailable as again:
                        assert again.reason == "STORAGE_UNAVAILABLE"  # noqa: PT017
            await add_ledger(session, refused + 1)
            await require_tracked(session, refused + 1)
        await service.kill()
        service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings={})
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            await require_tracked(session, refused + 1)
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()


async def test_a_kill_while_the_disk_is_full_loses_nothing(tmp_path: Path, small_disk: Path):
    """The service starts again when there is space, with every add that it has answered."""
    storage_url = f"sqlite:{small_disk / 'tracker.db'}"
    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings={})
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            ballast = fill(small_disk)
            refused, _ = await add_until_refused(session)
        await service.kill()
        ballast.unlink()
        service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings={})
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            await require_tracked(session, refused - 1)
            await add_ledger(session, refused)
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()
