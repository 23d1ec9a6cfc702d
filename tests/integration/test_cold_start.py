"""The first start on a machine: nothing is compiled yet, and dispatchers do not wait for the compiler."""

import os
import subprocess
import sys

import httpx
import pytest
from numba import config

from tests.integration.harness.dispatcher import connect
from tests.integration.harness.lab import TOPIC, add, add_entries
from tests.service.harness.shell import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


async def test_a_service_answers_before_its_kernels_are_compiled(service):
    """A service that is still compiling reports this, and gives the same answers as a compiled one."""
    async with connect(service.grpc_address) as client, httpx.AsyncClient(timeout=60) as http:
        await until(lambda: "compiling kernels in the background" in service.log.read_text("utf-8"), within_s=60)
        async with await client.open_tracker(TOPIC, "workers") as session:
            await add(session, 7, 1_000)
            await add_entries(session, 8, [2, 0, 1], in_ms=3_000)
            async with await session.poll(10, wait_ms=60_000) as lease:
                assert [position.entry_id for position in lease.messages] == [0, 1, 2]
        assert (await http.get(f"http://{service.http_address}/health/ready")).status_code == 200
    assert "kernels are compiled" not in service.log.read_text("utf-8")
    assert await service.stop() == 0


def warm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "delayed_tracker.cli", "warm", *arguments],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_compiling_ahead_needs_a_place_for_it(monkeypatch):
    """Compiling ahead without a usable cache directory fails with an error that names it and a remedy."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", "/proc/self/nowhere")
    ran = warm()
    assert ran.returncode == 2
    assert "cache directory: '/proc/self/nowhere'" in ran.stderr
    assert "NUMBA_CACHE_DIR" in ran.stderr


def test_compiling_ahead_says_where_it_is_kept(cache):
    """Compiling ahead prints the cache directory, also as JSON."""
    ran = warm("--json")
    assert ran.returncode == 0, ran.stderr
    assert f'"cache": "{cache}"' in ran.stdout
