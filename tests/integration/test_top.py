"""``delayed-tracker top`` in a pseudo-terminal and in a pipe, against a separate service."""

import asyncio
import json
import os
import pty
import re
import signal
import sys
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.exit_codes import ExitCode
from tests.integration.harness.dispatcher import connect
from tests.integration.harness.lab import OWN_ADDRESS, TOPIC, add

WAIT_S = 60
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")
_HOME = "\x1b[H"
_ENTERED, _LEFT = "\x1b[?1049h", "\x1b[?1049l"

pytestmark = pytest.mark.slow


class Terminal:
    """``top`` at a terminal: its screen, and keys to press."""

    def __init__(self, master: int, slave: int) -> None:
        self.master = master
        self.slave = slave
        self.as_it_was = termios.tcgetattr(slave)
        self.drawn = ""
        self.process: asyncio.subprocess.Process
        self._news = asyncio.Event()

    def read(self) -> None:
        self.drawn += os.read(self.master, 65_536).decode("utf-8", "replace")
        self._news.set()

    def press(self, key: str) -> None:
        os.write(self.master, key.encode())

    def resize(self, *, lines: int, columns: int) -> None:
        termios.tcsetwinsize(self.slave, (lines, columns))
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    @property
    def screen(self) -> list[str]:
        """Lines drawn last."""
        return _ESCAPES.sub("", self.drawn.rpartition(_HOME)[2]).splitlines()

    @property
    def last_screen(self) -> int:
        """Place at which the screen that is there begins in what was drawn."""
        return max(self.drawn.rfind(_HOME), 0)

    async def shows(self, wanted: Callable[[list[str]], object], *, since: int | None = None) -> list[str]:
        """Return the first screen that satisfies ``wanted``: the one that is there, or one that is drawn from now on.

        Args:
            wanted: tells by the lines of a screen.
            since: an earlier ``last_screen``, to go back to it: a rate is on one screen only, which may have gone by.
        """
        begin = self.last_screen if since is None else since
        try:
            async with asyncio.timeout(WAIT_S):
                while True:
                    screens = [_ESCAPES.sub("", part).splitlines() for part in self.drawn[begin:].split(_HOME)]
                    for screen in screens:
                        if screen and wanted(screen):
                            return screen
                    begin = self.last_screen
                    self._news.clear()
                    assert self.process.returncode is None, self.drawn
                    await self._news.wait()
        except TimeoutError:
            pytest.fail("never shown; the screen is:\n" + "\n".join(self.screen))

    async def ended(self) -> int:
        """Return the exit status after all output has been read."""
        async with asyncio.timeout(WAIT_S):
            status = await self.process.wait()
            while _LEFT not in self.drawn:
                self._news.clear()
                await self._news.wait()
        return status


@asynccontextmanager
async def top_at_a_terminal(address: str, *options: str) -> AsyncIterator[Terminal]:
    master, slave = pty.openpty()
    terminal = Terminal(master, slave)
    terminal.resize(lines=12, columns=160)
    environment = {**os.environ, "DELAYED_TRACKER_SERVER": address, "TERM": "xterm-256color"}
    for name in ("COLUMNS", "LINES", "FORCE_COLOR"):
        environment.pop(name, None)
    terminal.process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", "top", "--interval", "0.2", *options,
        env=environment, stdin=slave, stdout=slave, stderr=slave,
    )  # fmt: skip
    loop = asyncio.get_running_loop()
    loop.add_reader(master, terminal.read)
    try:
        yield terminal
    finally:
        if terminal.process.returncode is None:
            terminal.process.kill()
            await terminal.process.wait()
        loop.remove_reader(master)
        os.close(master)
        os.close(slave)


def row_of(screen: list[str], end_of_topic: str) -> list[str]:
    """Return the cells of a topic's row; none if it has no row."""
    return next((line.split() for line in screen if line.split()[:1] and line.split()[0].endswith(end_of_topic)), [])


@pytest.fixture
def service_settings() -> dict[str, str]:
    return {"grpcListenAddress": OWN_ADDRESS}


@pytest.fixture
async def client(service):
    async with connect(service.grpc_address) as connected:
        yield connected


async def test_a_live_screen_follows_the_service(service, client):
    """The screen follows added positions, another size and another order; q restores the terminal."""
    async with await client.open_tracker(TOPIC, "workers") as session:
        await add(session, 7, 60)
        async with top_at_a_terminal(service.grpc_address) as terminal:
            screen = await terminal.shows(lambda lines: row_of(lines, "delayed")[2:3] == ["60"])
            assert "1 trackers: 1 open, 0 on disk; 0 overdue" in screen[0]
            assert "60 pending, 0 leased" in screen[1]
            await terminal.shows(lambda lines: row_of(lines, "delayed")[4:5] == ["0.0"])
            since = terminal.last_screen
            await add(session, 8, 40)
            screen = await terminal.shows(
                lambda lines: float((row_of(lines, "delayed")[4:5] or ["0"])[0]) > 0, since=since
            )
            assert row_of(screen, "delayed")[2] == "100"
            assert "overdue" in screen[3]
            terminal.press("b")
            await terminal.shows(lambda lines: any("by buckets" in line for line in lines))
            terminal.resize(lines=8, columns=60)
            await terminal.shows(lambda lines: lines and all(len(line) <= 60 for line in lines) and len(lines) == 8)
            terminal.press("q")
            assert await terminal.ended() == 0
            assert termios.tcgetattr(terminal.slave) == terminal.as_it_was
            assert terminal.drawn.index(_ENTERED) < terminal.drawn.index(_LEFT)
            assert terminal.drawn.rindex("\x1b[?25h") > terminal.drawn.rindex("\x1b[?25l"), "the cursor is back"


async def test_what_is_handed_out_and_what_is_overdue_is_seen(service, client):
    """A tracker is overdue without polls; then the screen shows a rate and leased positions."""
    async with await client.open_tracker(TOPIC, "workers") as session:
        await add(session, 7, 50, in_ms=1_500)
        async with top_at_a_terminal(service.grpc_address, "--sort", "overdue") as terminal:
            screen = await terminal.shows(lambda lines: row_of(lines, "delayed") and "; 1 overdue by up to" in lines[0])
            assert row_of(screen, "delayed")[2] == "50"
            since = terminal.last_screen
            lease = await session.poll(50)
            assert len(lease.messages) == 50
            await terminal.shows(
                lambda lines: row_of(lines, "delayed")[2:4] == ["0", "50"] and re.search(r"handed out [1-9]", lines[1]),
                since=since,
            )
            terminal.press("q")
            assert await terminal.ended() == 0


@pytest.mark.long
async def test_a_service_that_goes_away_is_said_and_tried_again(service, tmp_path, storage_url):
    """The rows of a stopped service stay and come back with it; Ctrl-C ends the command in order."""
    async with connect(service.grpc_address) as client:
        await add(await client.open_tracker(TOPIC, "workers"), 7, 60)
    async with top_at_a_terminal(service.grpc_address) as terminal:
        await terminal.shows(lambda lines: row_of(lines, "delayed"))
        await service.kill()
        screen = await terminal.shows(lambda lines: any("the service cannot be reached" in line for line in lines))
        assert row_of(screen, "delayed")[2] == "60"
        same_address = {"grpcListenAddress": service.grpc_address}
        again = await ServiceProcess.start(tmp_path, storage_url=storage_url, settings=same_address)
        try:
            await terminal.shows(lambda lines: lines and not any("cannot be reached" in line for line in lines))
            terminal.process.send_signal(signal.SIGINT)
            assert await terminal.ended() == 0
        finally:
            await again.ensure_stopped()


async def top_in_a_pipe(address: str, *options: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "delayed_tracker.cli", "top", *options,
        env={**os.environ, "DELAYED_TRACKER_SERVER": address, "FORCE_COLOR": "1", "NO_COLOR": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_scripts_get_a_table_or_lines(service, client):
    """A pipe gets a plain table, or with JSON one line each time, with rates from the second line on."""
    async with await client.open_tracker(TOPIC, "workers") as session:
        await add(session, 7, 60)
        status, out, err = await top_in_a_pipe(service.grpc_address)
        assert (status, err, _ENTERED in out) == (0, "", False)
        assert "1 trackers: 1 open" in out
        status, out, err = await top_in_a_pipe(
            service.grpc_address, "--json", "--count", "2", "--interval", "0.1", "--topic-prefix", TOPIC[:20]
        )
        assert (status, err) == (0, "")
        first, second = map(json.loads, out.splitlines())
        assert (first["trackers"][0]["topic"], first["totals"]["pending_count"]) == (TOPIC, 60)
        assert first["trackers"][0]["rates"] is None
        assert second["trackers"][0]["rates"]["added"] == 0.0
        status, out, _ = await top_in_a_pipe(
            service.grpc_address, "--topic-prefix", "nothing", "--json", "--count", "1"
        )
        assert (status, json.loads(out)["trackers"], json.loads(out)["server_time_ms"]) == (0, [], None)


@pytest.mark.long
async def test_a_service_that_is_not_there_ends_it(service):
    """A service that cannot be reached ends the command before any screen, with the status for "try again"."""
    await service.stop()
    status, out, err = await top_in_a_pipe(service.grpc_address, "--count", "1")
    assert (status, out) == (ExitCode.SERVICE_UNAVAILABLE, "")
    assert err.startswith("delayed-tracker: ")
