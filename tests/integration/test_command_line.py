"""Commands against a separate service: their messages when it is killed, and when another owner takes over."""

import asyncio
import json
import os
import signal
import sys

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.client import DelayedTrackerClient

TOPIC = "persistent://lab/main/delayed"
TRACKER = ["--topic", TOPIC, "--subscription", "sub-1"]
INTERRUPTED = 130
"""Status that shells expect of a process that ends by SIGINT."""

pytestmark = pytest.mark.slow


async def waiting_poll(service: ServiceProcess, *options: str) -> asyncio.subprocess.Process:
    """Start ``delayed-tracker poll``, and wait until the service counts it among the waiting polls."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", "poll", *TRACKER, "--wait-ms", "60000", *options,
        env={**os.environ, "DELAYED_TRACKER_SERVER": service.grpc_address},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    async with httpx.AsyncClient(base_url=f"http://{service.http_address}") as http, asyncio.timeout(60):
        while "delayed_tracker_waiting_polls 1\n" not in (await http.get("/metrics")).text:
            assert process.returncode is None
    return process


@pytest.mark.long
async def test_a_service_killed_during_a_poll_is_said_so(service):
    """A service killed during a poll gives one line with the cause, and the status for "try again"."""
    process = await waiting_poll(service)
    await service.kill()
    out, err = await process.communicate()
    assert (process.returncode, out) == (ExitCode.SERVICE_UNAVAILABLE, b"")
    assert err.startswith(b"delayed-tracker: the service cannot be reached, or went away during the call (")
    assert err.endswith(b"); try again\n")


@pytest.mark.long
async def test_a_poll_whose_tracker_is_taken_over_is_told_so(service):
    """A dispatcher that opens the tracker fences the command."""
    process = await waiting_poll(service, "--json")
    async with DelayedTrackerClient.connect(service.grpc_address) as client, await client.open_tracker(TOPIC, "sub-1"):
        out, err = await process.communicate()
    assert (process.returncode, out) == (ExitCode.TRACKER_CONFLICT, b"")
    assert json.loads(err)["error"]["reason"] in {"FENCED", "CLEARED"}


async def test_ctrl_c_ends_a_command_without_a_traceback(service):
    """Ctrl-C ends a command at once with the status that shells expect."""
    process = await waiting_poll(service)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (INTERRUPTED, b"", b"")
