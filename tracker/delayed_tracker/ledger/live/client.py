"""Connection of this process to one cluster: synchronous calls that wait for one event loop in the background.

A source has a connection of its own and closes it. A ledger that Spark sends to a worker finds the worker's connection by
the cluster's address; it is opened by the first read, shared by all ledgers of the address, and kept until the process
ends, because the next task reads the same cluster.
"""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, ZooKeeperError, ZooKeeperUnavailable
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import MetadataUnavailable
from delayed_tracker.ledger.live.address import ClusterAddress
from delayed_tracker.ledger.live.pace import Pace
from delayed_tracker.ledger.live.throttle import Throttle

T = TypeVar("T")

_SPECULATIVE_READ_MS: Final = 2_000
"""Time until a second bookie is asked. A bulk reader that asks twice as soon as bookies are slow makes them slower."""
_ATTEMPTS: Final = 3
_AT_ONCE: Final = 64
"""Calls of :meth:`ClusterClient.run_all` in flight."""


class ClusterClient:
    """A client of one cluster for synchronous code, not connected before its first call. Thread-safe.

    Pickled, it becomes the shared client of its address in the process that unpickles it.

    Args:
        address: of the cluster.
        clock: of the throttle.
    """

    def __init__(self, address: ClusterAddress, clock: Callable[[], float] = time.monotonic) -> None:
        self.address = address
        self.throttle = Throttle(address.bytes_per_second_max, clock)
        self.pace = Pace()
        self._bookkeeper: BookKeeper | None = None
        self._turn = threading.Lock()
        self._is_closed = False

    def __reduce__(self) -> tuple[Callable[[ClusterAddress], "ClusterClient"], tuple[ClusterAddress]]:
        return shared_client, (self.address,)

    def connect(self) -> None:
        """Connect now. Errors are those of :meth:`run`."""
        self.run(lambda _: asyncio.sleep(0))

    def run(self, work: Callable[[BookKeeper], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the background, and return its result.

        Raises:
            InvalidInput: there is no BookKeeper cluster below the root.
            MetadataUnavailable: ZooKeeper does not answer, or refuses this client.
        """
        try:
            return _wait_for(work(self._connected()))
        except ZooKeeperError as error:
            raise MetadataUnavailable(f"{self.address.text}: {error.message}") from error

    def run_all(self, works: Sequence[Callable[[BookKeeper], Coroutine[Any, Any, T]]]) -> list[T]:
        """Run many coroutines, 64 at a time, and return their results in order. Errors are those of :meth:`run`."""

        async def all_of(bookkeeper: BookKeeper) -> list[T]:
            turns = asyncio.Semaphore(_AT_ONCE)

            async def one(work: Callable[[BookKeeper], Coroutine[Any, Any, T]]) -> T:
                async with turns:
                    return await work(bookkeeper)

            return await asyncio.gather(*map(one, works))

        return self.run(all_of)

    def close(self) -> None:
        """End the connections. Later calls fail."""
        with self._turn:
            self._is_closed = True
            bookkeeper, self._bookkeeper = self._bookkeeper, None
        if bookkeeper is not None:
            _wait_for(bookkeeper.__aexit__(None, None, None))

    def _connected(self) -> BookKeeper:
        with self._turn:
            if self._is_closed:
                raise MetadataUnavailable(f"{self.address.text} was closed; open the source again")
            if self._bookkeeper is None:
                try:
                    self._bookkeeper = _wait_for(self._connect())
                except LedgerMetadataInvalid as error:
                    raise InvalidInput("source", self.address.text, error.message) from error
            return self._bookkeeper

    async def _connect(self) -> BookKeeper:
        settings = ClientSettings(
            speculative_read_ms=_SPECULATIVE_READ_MS,
            reply_bytes_max=self.address.frame_bytes_max,
            tls=self.address.tls.of_bookies("source", self.address.text),
        )
        client = BookKeeper(
            self.address.hosts,
            ledgers=self.address.ledgers,
            settings=settings,
            zookeeper_tls=self.address.tls.of_zookeeper(),
        )
        return await client.__aenter__()


async def patiently(bookkeeper: BookKeeper, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Ask ZooKeeper, and again if its connection breaks meanwhile: reading does not end when a server is restarted.

    Raises:
        ZooKeeperUnavailable: it does not come back, or breaks three times.
    """
    for _ in range(_ATTEMPTS - 1):
        with contextlib.suppress(ZooKeeperUnavailable):
            return await ask()
        await bookkeeper.zookeeper.until_connected()
    return await ask()


_SHARED: Final[dict[tuple[int, ClusterAddress], ClusterClient]] = {}
"""By process, as a forked one has neither the thread nor the connections of its parent."""
_TURN: Final = threading.Lock()


def shared_client(address: ClusterAddress) -> ClusterClient:
    """Return the client that all ledgers of an address share in this process; it is never closed."""
    with _TURN:
        return _SHARED.setdefault((os.getpid(), address), ClusterClient(address))


class _Loop:
    """The event loop of this process, in a thread of its own."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, name="cluster-reads", daemon=True).start()


_loop: _Loop | None = None


def _wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the loop of this process; an interrupt of this thread cancels it."""
    running = asyncio.run_coroutine_threadsafe(work, _running_loop())
    try:
        return running.result()
    finally:
        running.cancel()


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603  one for each process
    with _TURN:
        if _loop is None or _loop.process != os.getpid():
            _loop = _Loop()
        return _loop.loop
