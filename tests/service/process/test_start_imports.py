"""A start imports no compiler: the first calls are answered before numba, which takes a quarter of the start."""

import subprocess
import sys

import pytest

from tests.repository.project_tree import ROOT

pytestmark = pytest.mark.slow

FIRST_ANSWERS = """
import asyncio, sys, time
from pathlib import Path
from delayed_tracker.client import DelayedTrackerClient
from delayed_tracker.service.process import kernel_start
from delayed_tracker.service.server import TrackerServer
from tests.service.harness.settings import settings_of

async def main():
    kernel_start.LOAD_AFTER_S = 3_600
    server = TrackerServer(settings_of(
        storage_url=f"sqlite:{sys.argv[1]}/tracker.db", grpc_listen_address="127.0.0.1:0", http_listen_address="127.0.0.1:0"
    ))
    bound = await server.start()
    async with (
        DelayedTrackerClient.connect(str(bound.grpc)) as client,
        await client.open_tracker("persistent://shop/orders/events", "billing") as session,
    ):
        later_ms = time.time_ns() // 1_000_000 + 3_600_000
        assert (await session.add_columns([later_ms], [1], [0])).added_count == 1
        assert not len(await session.poll(10))
        assert await session.contains([1], [0]) == [True]
    await server.stop()

asyncio.run(main())
print(sorted({"numba", "llvmlite", "numpy.ma"} & sys.modules.keys()))
"""


def test_the_first_answers_need_no_compiler(tmp_path):
    """A tracker is opened, added to, polled and asked, all without numba."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FIRST_ANSWERS, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
