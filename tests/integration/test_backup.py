"""A backup of a service under load becomes a storage that verifies, and from which a service goes on."""

import asyncio
import json
import random
import sys
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.integration.harness.committed import committed_snapshots
from tests.integration.harness.dispatcher import SETTINGS, SUBSCRIPTION, TOPIC, Dispatcher, connect

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


async def command(*arguments: str) -> dict[str, object]:
    """Run a command as an operator does, and return its answer."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", *arguments, "--json",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    return json.loads(out)


async def test_backups_under_load_verify(tmp_path: Path):
    """Every snapshot of a restored backup is sound, what was sealed before the backup is in it, and its owner is fenced."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    storage_url = f"sqlite:{tmp_path / 'tracker.db'}"
    dispatcher = Dispatcher(random.Random(seed), soon_share=0.2)
    service = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=SETTINGS)
    copies: list[tuple[Path, set[int]]] = []
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
            old_epoch = session.epoch
            working = asyncio.create_task(dispatcher.work(session))
            for number in range(3):
                sealed = len(dispatcher.sealed_seen)
                async with asyncio.timeout(60):
                    while len(dispatcher.sealed_seen) < sealed + 3:
                        await dispatcher.deliver_once(session, wait_ms=100)
                copy = tmp_path / f"copy-{number}"
                must_be_there = set(dispatcher.snapshots_that_must_be_there())
                await command("backup", str(copy), "--storage", storage_url)
                copies.append((copy, must_be_there & set(dispatcher.snapshots_that_must_be_there())))
            assert not working.done()
            working.cancel()
            await asyncio.wait({working})
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()
    for copy, must_be_there in copies:
        restored_url = f"sqlite:{tmp_path / f'restored-{copy.name}'}"
        await command("restore", str(copy), "--storage", restored_url)
        committed = await committed_snapshots(restored_url)
        assert must_be_there <= set(committed)
        assert all(positions <= dispatcher.offered.keys() for positions in committed.values())
    await command("compact", "--storage", restored_url)
    again = await ServiceProcess.start(tmp_path, storage_url=restored_url, settings=SETTINGS)
    try:
        async with connect(again.grpc_address) as client:
            report = await client.view_tracker(TOPIC, SUBSCRIPTION).verify()
            assert report.sound
            assert len(report.snapshots) >= len(must_be_there) > 0
            async with await client.open_tracker(TOPIC, SUBSCRIPTION) as session:
                assert session.epoch > old_epoch + 1
                await dispatcher.offer(session, dispatcher.unfinished)
                assert await dispatcher.lost(session) == []
        assert await again.stop() == 0
    finally:
        await again.ensure_stopped()
