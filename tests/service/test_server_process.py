"""The service as a process of its own: signals, the ready file and log lines, from a supervisor's view."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from delayed_tracker.storage.sqlite.lock import lock_path_of
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.service.harness.service_process import next_line
from tests.snapshot_storage.sqlite.sqlite_files import started

SERVE = """
import asyncio, sys
from pathlib import Path
from delayed_tracker.service.telemetry.logs import configure_logging
from delayed_tracker.service.server import serve
from delayed_tracker.service.settings.server import ServerSettings
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.service.settings.storage import StorageSettings

configure_logging("json", "info")
url, ready, host = sys.argv[1:]
settings = Settings(
    storage=StorageSettings(storage_url=url),
    server=ServerSettings(
        grpc_listen_address=f"{host}:0",
        http_listen_address="127.0.0.1:0",
        allow_insecure_listen=True,
        shutdown_grace_ms=60_000,
    ),
)
asyncio.run(serve(settings, ready_file=Path(ready)))
"""

REF = pb.TrackerRef(topic="t", subscription="s")

pytestmark = pytest.mark.slow


@asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[Process]:
    """Run Python, and kill it at the end if it still runs."""
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@asynccontextmanager
async def service(directory: Path, host: str = "127.0.0.1") -> AsyncIterator[Process]:
    arguments = [f"sqlite:{directory / 'tracker.db'}", str(directory / "ready.json"), host]
    async with running("-c", SERVE, *arguments) as process:
        yield process


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_stops_the_service_in_order(tmp_path: Path, number: signal.Signals):
    """A poll in flight is answered, the process exits with 0, and the ready file is gone."""
    async with service(tmp_path) as process, asyncio.timeout(60):
        ready = await next_line(process, "ready")
        written = json.loads((tmp_path / "ready.json").read_text())
        assert written.items() >= {"grpc": ready["grpc"], "http": ready["http"], "pid": process.pid}.items()
        async with grpc.aio.insecure_channel(written["grpc"]) as channel:
            stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
            opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="test"))
            poll = stub.PollScheduledMessages(
                pb.PollScheduledMessagesRequest(tracker=REF, epoch=opened.epoch, max_messages=1, wait_ms=60_000)
            )
            await stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF))
            process.send_signal(number)
            with pytest.raises(grpc.aio.AioRpcError) as ended:
                await poll
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
        await next_line(process, "stopped")
        assert await process.wait() == 0
    assert list(tmp_path.glob("ready*")) == []


@pytest.mark.long
async def test_a_thread_that_hangs_does_not_delay_the_end(tmp_path: Path):
    """After a stop in order, the process exits with 0, even if one of its threads waits for ever."""
    hanging = "import threading\nthreading.Thread(target=threading.Event().wait).start()\n"
    ending = "from delayed_tracker.cli.service.serve import _end_process_within\n"
    serving = SERVE.replace("ready_file=Path(ready)", "ready_file=Path(ready), end_within=_end_process_within")
    arguments = ["sqlite:" + str(tmp_path / "tracker.db"), str(tmp_path / "ready.json"), "127.0.0.1"]
    async with running("-c", hanging + ending + serving, *arguments) as process:
        await next_line(process, "ready")
        process.send_signal(signal.SIGTERM)
        await next_line(process, "stopped")
        async with asyncio.timeout(30):
            assert await process.wait() == 0


@pytest.mark.long
async def test_idle_streams_do_not_delay_a_stop(tmp_path: Path):
    """Idle streams of reflection, health watches and adds end at once, long before the grace period of a minute."""
    async with service(tmp_path) as process, asyncio.timeout(60):
        ready = await next_line(process, "ready")
        async with grpc.aio.insecure_channel(str(ready["grpc"])) as channel:
            reflection = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo()
            await reflection.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            assert await reflection.read() is not grpc.aio.EOF
            watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
            assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
            stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
            opened = await stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="test"))
            adds = stub.AddMessagesStream()
            add = pb.AddMessagesRequest(tracker=REF, epoch=opened.epoch)
            await adds.write(pb.AddMessagesStreamRequest(add=add))
            await adds.read()
            signalled_at = asyncio.get_running_loop().time()
            process.send_signal(signal.SIGTERM)
            await next_line(process, "stopped")
            assert await process.wait() == 0
            assert asyncio.get_running_loop().time() - signalled_at < 15


@pytest.mark.long
async def test_a_killed_service_can_be_started_again_at_once(tmp_path: Path):
    """Nothing that a kill -9 leaves prevents the next start, and the stale ready file is replaced."""
    async with service(tmp_path) as killed:
        await next_line(killed, "ready")
        killed.kill()
        await killed.wait()
    assert (tmp_path / "ready.json").exists()
    async with service(tmp_path) as process:
        await next_line(process, "ready")
        assert json.loads((tmp_path / "ready.json").read_text())["pid"] == process.pid


async def test_a_second_start_by_mistake_leaves_the_ready_file(tmp_path: Path):
    """It fails because the storage is open already, and the running service still looks ready."""
    async with service(tmp_path) as process:
        await next_line(process, "ready")
        async with service(tmp_path) as second, asyncio.timeout(60):
            _, said = await second.communicate()
            assert b"StorageInUse" in said
        assert json.loads((tmp_path / "ready.json").read_text())["pid"] == process.pid


async def test_listening_beyond_loopback_is_warned_about(tmp_path: Path):
    """A service that is allowed to serve other machines in plain text logs a warning, and no other service does."""
    async with service(tmp_path, host="0.0.0.0") as process:
        row = await next_line(process, "reachable from other machines without TLS or authentication")
        assert row["key"] == "grpcListenAddress"
        assert row["level"] == "warning"


@asynccontextmanager
async def starting(*overrides: str) -> AsyncIterator[Process]:
    """Run ``delayed-tracker serve`` with a short grace period."""
    pairs = ("grpcListenAddress=127.0.0.1:0", "httpListenAddress=127.0.0.1:0", "shutdownGraceMillis=2000", *overrides)
    options = [option for each in pairs for option in ("--set", each)]
    async with running("-m", "delayed_tracker.cli", "serve", "--json", *options) as process:
        yield process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_start_that_reads_ledgers(tmp_path: Path, number: signal.Signals):
    """A thread that waits for a file holds up neither the closing of the storage nor the exit with 0."""
    (tmp_path / "bookie" / "current").mkdir(parents=True)
    os.mkfifo(tmp_path / "metadata.jsonl")
    ledgers = f"bookkeeper+file:{tmp_path / 'bookie'}?metadata={tmp_path / 'metadata.jsonl'}"
    storage = tmp_path / "tracker.db"
    # The storage has more time to close than is waited for here: a busy machine takes longer than two seconds.
    overrides = (f"bucketSnapshotStorageUrl=sqlite:{storage}", f"ledgerSourceUrl={ledgers}")
    async with starting(*overrides, "shutdownGraceMillis=600000") as process:
        await next_line(process, "opening ledgers")
        process.send_signal(number)
        await next_line(process, "stopping before the service has started")
        await next_line(process, "stopped")
        async with asyncio.timeout(30):
            assert await process.wait() == 0
    assert not storage.with_name("tracker.db-wal").exists()


async def test_a_signal_ends_a_start_whose_storage_hangs(tmp_path: Path):
    """A storage that answers nothing, not even its close, is left when the grace period ends."""
    storage = tmp_path / "tracker.db"
    async with started(storage):
        pass
    with contextlib.closing(sqlite3.connect(storage, isolation_level=None)) as other_program:
        other_program.execute("PRAGMA locking_mode = EXCLUSIVE")
        other_program.execute("BEGIN EXCLUSIVE")
        lock_path_of(storage).unlink()
        async with starting(f"bucketSnapshotStorageUrl=sqlite:{storage}") as process:
            async with asyncio.timeout(60):
                while not lock_path_of(storage).exists():
                    await asyncio.sleep(0)
                    assert process.returncode is None
            process.send_signal(signal.SIGTERM)
            await next_line(process, "what the start had opened did not close in time")
            await next_line(process, "stopped")
            async with asyncio.timeout(30):
                assert await process.wait() == 0
