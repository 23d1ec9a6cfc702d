"""The service works under the limits of its unit, as far as this machine can apply them without systemd."""

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.integration.crashes.tracing import find_strace
from tests.integration.harness.dispatcher import connect, now_ms
from tests.repository.deployment.test_systemd import allowed_calls
from tests.repository.deployment.tools import CONF
from tests.repository.deployment.unit import Sandbox, directives
from tests.service.harness.service_process import next_line

START_S = 90

pytestmark = pytest.mark.slow


def can_unshare() -> bool:
    """Tell if this process may make mount namespaces, which containers often forbid."""
    try:
        return subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture
def sandbox(tmp_path: Path) -> Sandbox:
    if not can_unshare():
        pytest.skip("no mount namespaces here: run as root, or with user namespaces")
    made = Sandbox(tmp_path)
    made.prepare()
    (tmp_path / "etc" / "tracker.conf").write_bytes((CONF / "tracker.conf").read_bytes())
    return made


@asynccontextmanager
async def running(sandbox: Sandbox) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, object]]]:
    process = await asyncio.create_subprocess_exec(
        *sandbox.command("--json", "--set", "grpcListenAddress=127.0.0.1:0", "--set", "httpListenAddress=127.0.0.1:0"),
        env={**os.environ, **sandbox.environment},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(START_S):
            yield process, await next_line(process, "ready")
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.long
async def test_the_unit_starts_reloads_and_stops(sandbox: Sandbox):
    """ExecStart answers calls and keeps its storage in the state directory, SIGHUP reloads, SIGTERM stops with 0."""
    async with running(sandbox) as (process, ready):
        assert json.loads(sandbox.ready_file.read_text("utf-8"))["pid"] == process.pid
        async with httpx.AsyncClient() as http:
            answer = await http.get(f"http://{ready['http']}/health/ready")
        assert answer.status_code == 200
        async with connect(str(ready["grpc"])) as client, await client.open_tracker("t", "s") as session:
            await session.add_columns([now_ms() + 3_600_000], [1], [1])
        assert (sandbox.directory / "state" / "data" / "tracker.db").exists()

        limits = Path(f"/proc/{process.pid}/limits").read_text("utf-8")
        assert re.search(rf"Max open files +{sandbox.open_files} +{sandbox.open_files} ", limits)
        assert re.search(r"Max core file size +0 +0 ", limits)
        status = dict(
            row.split(":\t", 1) for row in Path(f"/proc/{process.pid}/status").read_text("utf-8").splitlines()
        )
        assert (status["NoNewPrivs"], int(status["CapEff"], 16), int(status["CapBnd"], 16)) == ("1", 0, 0)

        process.send_signal(signal.SIGHUP)
        await next_line(process, "settings reloaded")
        process.terminate()
        await process.communicate()
        assert process.returncode == 0


@pytest.mark.long
async def test_a_wrong_configuration_ends_with_the_status_that_systemd_knows(sandbox: Sandbox):
    """The status is that of RestartPreventExitStatus, so that systemd does not try again."""
    (sandbox.directory / "etc" / "tracker.conf").write_text("noSuchKey=1\n", encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *sandbox.command(), env={**os.environ, **sandbox.environment}, stderr=asyncio.subprocess.PIPE
    )
    _, said = await process.communicate()
    assert [str(process.returncode)] == directives()["RestartPreventExitStatus"]
    assert b"noSuchKey" in said


TOLERATED = {"fchown", "mbind"}
"""Calls whose refusal does no harm: SQLite's as root, and OpenBLAS' choice of memory, which containers refuse, too."""


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_the_filter_allows_every_system_call_of_the_service(tmp_path: Path):
    """From the start to the stop, no call is used that SystemCallFilter would refuse."""
    record = tmp_path / "calls"
    # Only calls outside of the filter stop the service, and its exit, which shows that the recording works.
    untraced = ",".join(f"?{name}" for name in sorted(allowed_calls() - {"exit_group"}))
    tracer = (
        find_strace(), "-D", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-e", f"trace=!{untraced}", "-o", str(record), "--",
    )  # fmt: skip
    service = await ServiceProcess.start(
        tmp_path, storage_url=f"sqlite:{tmp_path / 'tracker.db'}", settings={}, run_by=tracer
    )
    try:
        async with connect(service.grpc_address) as client, await client.open_tracker("t", "s") as session:
            await session.add_columns([now_ms() + 3_600_000] * 2, [1, 2], [1, 1])
        async with httpx.AsyncClient() as http:
            assert (await http.get(f"http://{service.http_address}/metrics")).status_code == 200
        assert await service.stop() == 0
    finally:
        await service.ensure_stopped()
    used = set(re.findall(r"^\d+ +([a-z_0-9]+)\(", record.read_text("utf-8", "replace"), re.MULTILINE))
    assert "exit_group" in used
    assert used - {"exit_group"} - TOLERATED == set()
