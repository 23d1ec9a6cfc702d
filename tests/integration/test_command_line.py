"""Commands against a separate service: their messages when it is killed, and when another owner takes over."""

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import sys
import termios
from collections.abc import Iterator

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.exit_codes import ExitCode
from tests.integration.harness.dispatcher import connect
from tests.integration.harness.lab import TOPIC, add

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
    async with httpx.AsyncClient(base_url=f"http://{service.http_address}", timeout=60) as http, asyncio.timeout(60):
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
    async with connect(service.grpc_address) as client, await client.open_tracker(TOPIC, "sub-1"):
        out, err = await process.communicate()
    assert (process.returncode, out) == (ExitCode.TRACKER_CONFLICT, b"")
    assert json.loads(err)["error"]["reason"] in {"FENCED", "CLEARED"}


async def test_ctrl_c_ends_a_command_without_a_traceback(service):
    """Ctrl-C ends a command at once with the status that shells expect."""
    process = await waiting_poll(service)
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert (process.returncode, out, err) == (INTERRUPTED, b"", b"")


@contextlib.contextmanager
def full_disk() -> Iterator[int]:
    """Yield a descriptor that takes nothing."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def pipe_without_reader() -> Iterator[int]:
    """Yield the end of a pipe whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


async def delayed(service: ServiceProcess, count: int) -> None:
    """Add positions that are due soon."""
    async with (
        connect(service.grpc_address) as client,
        await client.open_tracker(TOPIC, "sub-1") as session,
    ):
        await add(session, 7, count, in_ms=3_000)


async def polling(service: ServiceProcess, stdout: int, *options: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", "poll", *TRACKER, "--wait-ms", "60000", *options,
        env={**os.environ, "DELAYED_TRACKER_SERVER": service.grpc_address},
        stdout=stdout,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def until_full(reading: int, process: asyncio.subprocess.Process) -> None:
    """Return when a command has filled its pipe, and waits for a reader."""
    size = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
    async with asyncio.timeout(60):
        while int.from_bytes(fcntl.ioctl(reading, termios.FIONREAD, bytes(4)), sys.byteorder) < size:
            await asyncio.sleep(0)
            assert process.returncode is None


async def counts(service: ServiceProcess) -> tuple[int, int, int]:
    """Return how many positions are pending, leased and acknowledged."""
    async with connect(service.grpc_address) as client:
        stats = await client.view_tracker(TOPIC, "sub-1").stats()
    return stats.pending_count, stats.leased_count, stats.acked_count


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(("output", "status"), [(full_disk, ExitCode.FAILURE), (pipe_without_reader, 141)])
async def test_positions_that_cannot_be_printed_are_not_acknowledged(service, output, status, form):
    """On a full disk, and without a reader, the positions are given back, although --then ack asks for more."""
    await delayed(service, 3)
    with output() as stdout:
        process = await polling(service, stdout, "--max", "3", "--then", "ack", *form)
        await process.communicate()
    assert process.returncode == status
    assert await counts(service) == (3, 0, 0)


async def test_ctrl_c_while_a_poll_prints_acknowledges_nothing(service):
    """A reader that reads nothing holds the command up before the ack; Ctrl-C then gives the positions back."""
    count = 1_000
    await delayed(service, count)
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
        process = await polling(service, writing, "--max", str(count), "--then", "ack", "--json")
        await until_full(reading, process)
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    finally:
        os.close(reading)
        os.close(writing)
    assert (process.returncode, err) == (INTERRUPTED, b"")
    assert await counts(service) == (count, 0, 0)


async def test_a_poll_that_acknowledges_prints_one_document_with_the_result(service):
    """The result of --then ack follows the messages within the same JSON object."""
    await delayed(service, 2)
    process = await polling(service, asyncio.subprocess.PIPE, "--max", "2", "--then", "ack", "--json")
    out, err = await process.communicate()
    assert (process.returncode, err) == (0, b"")
    document = json.loads(out)
    assert [each["entry_id"] for each in document["messages"]] == [0, 1]
    assert document["ack"] == {"acked_count": 2, "stale": [], "unknown": []}
    assert await counts(service) == (0, 0, 2)


async def test_a_poll_that_is_fenced_before_the_ack_prints_a_whole_document(service):
    """If the ack fails, the document has the messages and no result, and the error is on stderr."""
    count = 1_000
    await delayed(service, count)
    reading, writing = os.pipe()
    try:
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4_096)
        process = await polling(service, writing, "--max", str(count), "--then", "ack", "--json")
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as stdout:
        await until_full(reading, process)
        async with (
            connect(service.grpc_address) as client,
            await client.open_tracker(TOPIC, "sub-1"),
        ):
            document = json.loads(await asyncio.to_thread(stdout.read))
    _, err = await process.communicate()
    assert process.returncode == ExitCode.TRACKER_CONFLICT
    assert json.loads(err)["error"]["reason"] == "FENCED"
    assert len(document["messages"]) == count
    assert "ack" not in document
    assert await counts(service) == (count, 0, 0)
