"""SIGHUP makes a running service read its settings again."""

import asyncio
import json
import signal
from pathlib import Path

import grpc
import pytest
from structlog.testing import capture_logs

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.process.reloading import Reload, Reloader
from delayed_tracker.service.server import TrackerServer, drain_ms_of
from delayed_tracker.service.settings.load import InvalidSettings, SettingProblem
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.service.telemetry.logs import set_log_level
from delayed_tracker.v1 import tracker_pb2_grpc as pb_grpc
from tests.service.harness.rpc import opened, poll
from tests.service.harness.service_process import Connected, serving_process
from tests.service.harness.settings import settings_of

MEMORY = settings_of(storage_url="memory:", grpc_listen_address="127.0.0.1:0", http_listen_address="127.0.0.1:0")


def test_reloadable_keys_take_effect_and_others_are_named():
    """A key that needs a restart keeps its old value and is named."""
    reload = Reload.of(Settings(), settings_of(trackers_max=7, log_level="debug", worker_threads=5))
    assert reload.settings == settings_of(trackers_max=7, log_level="debug")
    assert set(reload.changed) == {"trackersMax", "logLevel"}
    assert reload.ignored == ("workerThreads",)


def test_values_that_do_not_fit_those_that_stay_are_refused():
    """A larger batch needs larger messages, whose size needs a restart."""
    wanted = settings_of(batch_positions_max=1_000_000, grpc_message_bytes_max=64 * 2**20)
    with pytest.raises(InvalidInput, match="batchPositionsMax"):
        Reload.of(Settings(), wanted)


async def reload_line(server: TrackerServer, read) -> dict:
    """Return the log line of one reload."""
    reloader = Reloader(read, current=lambda: server.settings, apply=server.apply)
    with capture_logs() as lines:
        running = asyncio.create_task(reloader.run())
        reloader.ask()
        async with asyncio.timeout(10):
            while not lines:  # noqa: ASYNC110  # a thread reads
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
    (line,) = lines
    return line


@pytest.mark.parametrize(("before", "after"), [("info", "warning"), ("warning", "error"), ("error", "info")])
async def test_a_reload_that_changes_the_level_is_reported_by_the_more_talkative(written_log, before, after):
    """The keys that need a restart are named, although the new level may hide the line."""
    stream = written_log("json", before)
    current = settings_of(log_level=before)
    wanted = settings_of(log_level=after, worker_threads=5)
    applied = asyncio.Event()

    def apply(settings: Settings) -> None:
        set_log_level(settings.telemetry.log_level)
        applied.set()

    reloader = Reloader(lambda: wanted, current=lambda: current, apply=apply)
    running = asyncio.create_task(reloader.run())
    reloader.ask()
    async with asyncio.timeout(10):
        await applied.wait()
        while not stream.getvalue():  # noqa: ASYNC110  # logged in the same step as the change, or before it
            await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running])
    assert json.loads(stream.getvalue())["need_restart"] == ["workerThreads"]


@pytest.mark.parametrize(("grace_ms", "drain_ms"), [(0, 0), (1_000, 500), (1_500, 750), (10_000, 9_000)])
def test_trackers_have_part_of_any_grace_period(grace_ms, drain_ms):
    """A second is for closing connections and the storage, of a short period at most half."""
    assert drain_ms_of(grace_ms) == drain_ms


async def test_limits_hold_for_the_next_call():
    """A running service applies the new limit, and the old one again after the next reload."""
    server = TrackerServer(MEMORY)
    bound = await server.start()
    try:
        async with grpc.aio.insecure_channel(str(bound.grpc)) as channel:
            stub = pb_grpc.DelayedDeliveryTrackerServiceStub(channel)
            epoch = await opened(Connected(stub))
            line = await reload_line(server, lambda: MEMORY.with_values({"pollMessagesMax": 3}))
            assert (line["changed"], line["need_restart"]) == (["pollMessagesMax"], [])
            with pytest.raises(grpc.aio.AioRpcError, match="give 1 to 3"):
                await stub.PollScheduledMessages(poll(epoch, max_messages=4))
            await reload_line(server, lambda: MEMORY)
            await stub.PollScheduledMessages(poll(epoch, max_messages=4))
    finally:
        await server.stop()


async def test_an_error_leaves_everything_as_it_was():
    """One line describes the error in the configuration, and the settings in force stay."""
    server = TrackerServer(MEMORY)

    def read() -> Settings:
        raise InvalidSettings([SettingProblem("tracker.conf:3", "logLevel", "loud", "give one of debug, info", 3)] * 2)

    line = await reload_line(server, read)
    assert line["event"] == "settings not reloaded, the old ones stay"
    assert line["problem"].count("tracker.conf:3: logLevel=loud: give one of debug, info") == 2
    assert "\n" not in line["problem"]
    assert server.settings == MEMORY
    await server.trackers.close()


async def test_without_a_place_to_read_from_it_is_ignored():
    """A service whose settings were given in code logs that it ignores the signal."""
    server = TrackerServer(MEMORY)
    line = await reload_line(server, None)
    assert line["event"].startswith("SIGHUP ignored")
    await server.trackers.close()


@pytest.mark.long
async def test_a_hangup_neither_kills_nor_leaves_the_ready_file(tmp_path: Path):
    """The service reads its file again, logs by the new level, keeps its ready file, and stops in order afterwards."""
    conf = tmp_path / "tracker.conf"
    conf.write_text("logLevel=debug\n")
    async with serving_process(tmp_path, "--config", str(conf)) as service, asyncio.timeout(60):
        conf.write_text("logLevel=info\nworkerThreads=3\n")
        service.process.send_signal(signal.SIGHUP)
        line = await service.line("settings reloaded")
        assert (line["changed"], line["need_restart"]) == (["logLevel"], ["workerThreads"])
        conf.write_text("logLevel=loud\n")
        service.process.send_signal(signal.SIGHUP)
        assert "logLevel=loud" in str((await service.line("settings not reloaded, the old ones stay"))["problem"])
        conf.unlink()
        service.process.send_signal(signal.SIGHUP)
        await service.line("settings not reloaded, the old ones stay")
        assert (tmp_path / "ready.json").exists()
        service.process.terminate()
        service.process.send_signal(signal.SIGHUP)
        await service.line("stopped")
        assert await service.process.wait() == 0
    assert not (tmp_path / "ready.json").exists()
