"""Starts a real ZooKeeper and real bookies, and waits until each serves."""

import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from tests.bookkeeper.servers.server_process import ServerProcess, free_port, java_command

MAX_FRAME_BYTES: Final = 5_253_120
"""Size of the largest frame that the bookies take, the length in front of it included."""
START_TIMEOUT_S: Final = 60.0
_TICK_MS: Final = 1_000
"""ZooKeeper allows sessions of 2 to 20 ticks."""
_SESSION_MS: Final = 6_000
HIERARCHICAL: Final = b"2\norg.apache.bookkeeper.meta.HierarchicalLedgerManagerFactory:1"
LEDGERS: Final = "/ledgers"
SMALL: Final = ("-Xmx256m", "-XX:MaxDirectMemorySize=256m")
"""Options of a bookie for tests."""
_BOOKIE_SETTINGS: Final = {
    "advertisedAddress": "127.0.0.1",
    "allowLoopback": "true",
    "httpServerEnabled": "false",
    "diskUsageThreshold": "0.99",
    "diskUsageWarnThreshold": "0.98",
    "journalMaxGroupWaitMSec": "1",
    "journalPreAllocSizeMB": "4",
    "journalMaxSizeMB": "64",
    "nettyMaxFrameSizeBytes": str(MAX_FRAME_BYTES),
    # No ledger is collected while tests run, not even one of a tree that the bookie does not know.
    "gcWaitTime": "3600000",
    "zkTimeout": str(_SESSION_MS),
    "statsProviderClass": "org.apache.bookkeeper.stats.NullStatsProvider",
}


class ServerNotReady(Exception):
    """A server ended or did not serve in time; the message has the end of its log."""


class ZooKeeperServer:
    """A ZooKeeper of one server, with the nodes of an empty BookKeeper cluster."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        directory.mkdir()
        program = ["org.apache.zookeeper.server.ZooKeeperServerMain", str(self.port), str(directory), str(_TICK_MS)]
        # What a test wrote survives a kill -9 in the page cache, so that an fsync would only cost time.
        options = ["-Xmx128m", "-Dzookeeper.forceSync=no", "-Dzookeeper.4lw.commands.whitelist=*"]
        self.process = ServerProcess(java_command(options, program), directory.with_suffix(".log"))

    @property
    def address(self) -> str:
        """Return the address for clients, without a path."""
        return f"127.0.0.1:{self.port}"

    @contextmanager
    def connected(self) -> Iterator[Any]:
        """Connect a kazoo client for a moment, to look at nodes or write them.

        Its thread draws from ``random`` as long as it lives, and Hypothesis refuses that while it makes its examples.

        Raises:
            ServerNotReady: the server does not answer in time.
        """
        client = KazooClient(self.address, timeout=_SESSION_MS / 1_000)
        try:
            client.start(START_TIMEOUT_S)
            yield client
        except KazooTimeoutError as error:
            raise ServerNotReady(f"ZooKeeper does not answer:\n{self.process.last_lines()}") from error
        finally:
            client.stop()
            client.close()

    def expire(self, session: object) -> None:
        """End the session of a client that is away, as if its time were over: id and password as kazoo has them."""
        client = KazooClient(self.address, client_id=session)
        client.start(START_TIMEOUT_S)
        client.stop()
        client.close()

    def end_sessions_below(self, root: str) -> None:
        """Delete the ephemeral nodes below a path, as if the sessions of those that made them were over.

        For a client that was killed: its session would live on for seconds, and only it knows the password.
        """
        with self.connected() as client:
            for line in client.command(b"dump").splitlines():
                if line.strip().startswith(f"{root}/"):
                    client.delete(line.strip())

    def start(self) -> None:
        """Start the server, and wait until it answers.

        Raises:
            ServerNotReady: it ended, or did not answer in time.
        """
        self.process.launch()
        with self.connected():
            pass

    def make_tree(self, root: str = LEDGERS, layout: bytes = HIERARCHICAL, bookies: Iterable[str] = ()) -> None:
        """Make the nodes of a cluster below a root.

        ``bookies`` are ids of bookies of another tree. They are listed here as well, so that clients of this tree write
        to them: a bookie does not care where the metadata of a ledger is.
        """
        with self.connected() as client:
            client.ensure_path(f"{root}/available/readonly")
            client.create(f"{root}/LAYOUT", layout)
            for bookie in bookies:
                client.create(f"{root}/available/{bookie}", b"")

    def stop(self) -> None:
        """Stop the server."""
        self.process.stop()


class Bookie:
    """One bookie, which keeps its port, id and files when it is started again."""

    def __init__(self, zookeeper: ZooKeeperServer, directory: Path, java_options: Sequence[str] = SMALL) -> None:
        self._zookeeper = zookeeper
        self._java_options = java_options
        self.port = free_port()
        directory.mkdir()
        settings = _BOOKIE_SETTINGS | {
            "metadataServiceUri": f"zk+hierarchical://{zookeeper.address}{LEDGERS}",
            "bookiePort": str(self.port),
            "journalDirectories": str(directory / "journal"),
            "ledgerDirectories": str(directory / "ledgers"),
        }
        configuration = directory / "bookie.conf"
        configuration.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
        self._program = ["org.apache.bookkeeper.server.Main", "-c", str(configuration)]
        self._log = directory.with_suffix(".log")
        self.process = self._process(read_only=False)

    @property
    def bookie_id(self) -> str:
        """Return the id under which the bookie registers."""
        return f"127.0.0.1:{self.port}"

    def launch(self, *, read_only: bool = False) -> int:
        """Start the process without waiting, and return what :meth:`wait` needs: the registration that is not it."""
        with self._zookeeper.connected() as client:
            older = client.exists(self._node(read_only))
        self.process = self._process(read_only)
        self.process.launch()
        return -1 if older is None else int(older.czxid)

    def wait(self, older: int, *, read_only: bool = False) -> None:
        """Wait until the bookie has registered anew and takes connections.

        The node of a killed process stays until its session expires.

        Raises:
            ServerNotReady: the bookie ended, or was not ready in time.
        """
        node, deadline = self._node(read_only), time.monotonic() + START_TIMEOUT_S
        changed = threading.Event()
        with self._zookeeper.connected() as client:
            while True:
                changed.clear()
                found = client.exists(node, watch=lambda _: changed.set())
                # A bookie registers before it listens.
                if found is not None and found.czxid != older and self._listens():
                    return
                # Wakes up now and then to see a process that ended or began to listen.
                changed.wait(0.1)
                if not self.process.running or time.monotonic() > deadline:
                    raise ServerNotReady(f"bookie {self.bookie_id} is not ready:\n{self.process.last_lines()}")

    def start(self, *, read_only: bool = False) -> None:
        """Start the bookie, and wait until it has registered and takes connections.

        Raises:
            ServerNotReady: it ended, or was not ready in time.
        """
        self.wait(self.launch(read_only=read_only), read_only=read_only)

    def _listens(self) -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", self.port)) == 0

    def _node(self, read_only: bool) -> str:
        return f"{LEDGERS}/available/{'readonly/' if read_only else ''}{self.bookie_id}"

    def _process(self, read_only: bool) -> ServerProcess:
        # A read-only bookie would become writable by itself at its next check of the disks.
        program = [*self._program, "-r"] if read_only else self._program
        return ServerProcess(java_command(self._java_options, program), self._log)


class Cluster:
    """A ZooKeeper and its bookies. Tests ask for as many bookies as they need, and leave them running.

    Args:
        zookeeper: started and stopped by the caller.
        directory: of the bookies' files; it exists.
        java_options: of each bookie.
    """

    def __init__(self, zookeeper: ZooKeeperServer, directory: Path, java_options: Sequence[str] = SMALL) -> None:
        self.zookeeper = zookeeper
        self.bookies: list[Bookie] = []
        self._directory = directory
        self._java_options = java_options

    @property
    def uri(self) -> str:
        """Return the address of the metadata as Java's client takes it."""
        return f"zk+hierarchical://{self.zookeeper.address}{LEDGERS}"

    def require(self, count: int) -> list[Bookie]:
        """Return the first ``count`` bookies, writable; those that are missing or were killed are started together.

        Raises:
            ServerNotReady: one of them does not start.
        """
        while len(self.bookies) < count:
            directory = self._directory / f"bookie{len(self.bookies)}"
            self.bookies.append(Bookie(self.zookeeper, directory, self._java_options))
        wanted = self.bookies[:count]
        for bookie, older in [(bookie, bookie.launch()) for bookie in wanted if not bookie.process.running]:
            bookie.wait(older)
        return wanted

    def stop(self) -> None:
        """Kill the bookies, whose files nobody reads again."""
        for bookie in self.bookies:
            if bookie.process.running:
                bookie.process.kill()


@contextmanager
def running_cluster(directory: Path, bookies: int) -> Iterator[Cluster]:
    """Start a ZooKeeper with the nodes of an empty cluster, and bookies; for programs, which have no fixtures.

    Raises:
        NoPulsarClasses: there is no Java, or the classes cannot be fetched.
        ServerNotReady: a server ended, or did not answer in time.
    """
    zookeeper = ZooKeeperServer(directory / "zookeeper")
    try:
        zookeeper.start()
        zookeeper.make_tree()
        (directory / "bookies").mkdir()
        cluster = Cluster(zookeeper, directory / "bookies")
        try:
            cluster.require(bookies)
            yield cluster
        finally:
            cluster.stop()
    finally:
        zookeeper.stop()
