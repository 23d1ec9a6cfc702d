"""Redis as a delay queue, measured in the same run: a sorted set of "ledger:entry" by deadline, over hiredis.

One connection; hiredis itself packs commands and parses answers, without a client library around it. This is the least
work on the client's side that Python allows. Nothing is written to disk, except where the append-only file is on.
"""

import shutil
import socket
import statistics
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import hiredis

from tests.benchmarks.goals import Peer
from tests.benchmarks.inputs.shapes import ALL_DUE_MS, Shape, offered
from tests.benchmarks.machine import version_of
from tests.benchmarks.measure import Reading, Run, Stopwatch, require

Command = tuple[bytes | int, ...]

KEY = b"delayed"
_START_ATTEMPTS = 200
_READ_BYTES = 2**20


class Redis:
    """One connection to a server that was started for it."""

    def __init__(self, connection: socket.socket, pid: int) -> None:
        self.pid = pid
        self._connection = connection
        self._reader = hiredis.Reader()

    def call(self, *command: bytes | int) -> object:
        """Send one command and return its answer."""
        self._connection.sendall(hiredis.pack_command(command))
        return self._answer()

    def calls(self, commands: Sequence[Command], in_flight: int) -> list[object]:
        """Send commands with ``in_flight`` unanswered at a time; return the answers in order."""
        answers = []
        for sent, command in enumerate(commands):
            if sent >= in_flight:
                answers.append(self._answer())
            self._connection.sendall(hiredis.pack_command(command))
        answers += [self._answer() for _ in range(len(commands) - len(answers))]
        return answers

    def _answer(self) -> object:
        while (answer := self._reader.gets()) is False:
            received = self._connection.recv(_READ_BYTES)
            if not received:
                raise ConnectionError("the Redis server closed the connection")
            self._reader.feed(received)
        if isinstance(answer, hiredis.ReplyError):
            raise answer
        return answer


@contextmanager
def redis(directory: Path, *, fsync: str = "") -> Iterator[Redis]:
    """Start a separate server on a free port of the loopback interface; stop it after the block.

    Args:
        directory: of its files.
        fsync: value of ``appendfsync`` for an append-only file, which is never rewritten; empty writes none.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {"port": str(port), "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": str(directory)}
    if fsync:
        options |= {"appendonly": "yes", "appendfsync": fsync, "auto-aof-rewrite-percentage": "0"}
    command = ["redis-server", *(word for name, value in options.items() for word in (f"--{name}", value))]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        try:
            with _connected(port, server) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield Redis(connection, server.pid)
        finally:
            server.terminate()


def _connected(port: int, server: subprocess.Popen[bytes]) -> socket.socket:
    for _ in range(_START_ATTEMPTS):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            try:
                server.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
            break
    raise ConnectionError(f"redis-server does not answer on port {port}")


def has_redis(run: Run) -> bool:
    """Return True if a server can be started; else report that it is skipped."""
    if shutil.which("redis-server") is not None:
        return True
    run.skip("Redis: there is no redis-server on the PATH (Debian: apt-get install redis-server)")
    return False


def redis_adds(run: Run, sizes: Sequence[int], in_flight: int, *, key: str = "grpc add", fsync: str = "") -> None:
    """Measure ZADD for batches of these sizes into ``run.peers``, under ``key``; ``fsync`` as for :func:`redis`."""
    if not has_redis(run):
        return
    run.note(f"peer: {version_of('redis-server', '--version')}")
    with redis(run.new_directory(), fsync=fsync) as server:
        for size in sizes:
            count = size * max(1, min(run.scale.calls, run.scale.adds // size))
            commands = [_zadd(part) for part in _parts(count, size)]
            readings = []
            what = f"Redis ZADD of {size:,}, {in_flight} at a time" + (f", appendfsync {fsync}" if fsync else "")
            for counts in run.repeats(what):
                server.call(b"FLUSHALL")
                with Stopwatch(served_by=server.pid) as watch:
                    answers = server.calls(commands, in_flight)
                require("Redis ZADD", sum(map(int, answers)) == count == server.call(b"ZCARD", KEY))
                if counts:
                    readings.append(watch.reading)
            _note(run, key if size == 1_000 else f"{key} {size}", readings, count)


def redis_polls(run: Run, sizes: Sequence[int]) -> None:
    """Measure ZRANGEBYSCORE and ZREM of its results, for polls of these sizes, into ``run.peers``."""
    if not has_redis(run):
        return
    with redis(run.new_directory()) as server:
        for size in sizes:
            count = size * max(1, min(run.scale.calls, run.scale.polled // size))
            readings = []
            for counts in run.repeats(f"Redis ZRANGEBYSCORE and ZREM of {size:,}"):
                server.call(b"FLUSHALL")
                server.calls([_zadd(part) for part in _parts(count, 1_000)], 8)
                removed = 0
                with Stopwatch(served_by=server.pid) as watch:
                    while due := server.call(b"ZRANGEBYSCORE", KEY, b"-inf", ALL_DUE_MS, b"LIMIT", 0, size):
                        removed += server.call(b"ZREM", KEY, *due)
                require("Redis ZREM", removed == count)
                if counts:
                    readings.append(watch.reading)
            _note(run, "grpc poll" if size == 1_000 else f"grpc poll {size}", readings, count)


def _parts(count: int, size: int) -> Iterator[list[tuple[int, bytes]]]:
    """Yield (deadline, member) rows in batches."""
    rows = [(ms, b"%d:%d" % (ledger, entry)) for ms, ledger, entry in offered(Shape.WEEK, count, per_ledger=50_000)]
    for start in range(0, count, size):
        yield rows[start : start + size]


def _zadd(rows: list[tuple[int, bytes]]) -> Command:
    return (b"ZADD", KEY, *(word for row in rows for word in row))


def _note(run: Run, key: str, readings: Sequence[Reading], count: int) -> None:
    million_per_s = statistics.median(count * 1e3 / reading.wall_ns for reading in readings)
    run.peers[key] = Peer("redis", million_per_s, is_measured=True)
    run.note(f"peer: {key}: {million_per_s:.3f} M indexes/s")
