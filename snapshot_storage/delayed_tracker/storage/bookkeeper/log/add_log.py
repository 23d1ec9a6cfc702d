"""The add log over BookKeeper: one ledger an instance, rolled over, and deleted behind the cut.

Whoever takes a tracker over fences the ledgers of its former owner, and copies what is not cut into its own log, so that
the log of one instance has all records of a tracker at any time.
"""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Final

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import BookKeeperError
from delayed_tracker.storage.add_log import (
    LogAppend,
    LogExtent,
    LogPage,
    require_cuts,
    require_epoch_number,
    require_page,
    require_parts,
)
from delayed_tracker.storage.bookkeeper.connecting import Connect, client_of
from delayed_tracker.storage.bookkeeper.ledgers import unavailable
from delayed_tracker.storage.bookkeeper.log.instance_log import InstanceLog
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.own_log import ROLL_BYTES
from delayed_tracker.storage.bookkeeper.log.owners import InstanceRemoved, Owners
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import StorageInUse, StorageUnavailable

ANNOUNCE_AGAIN_S: Final = 0.5
"""Pause after an announcement of this instance that failed."""


class BookKeeperAddLog:
    """Records of adds in ledgers, and their owners in ZooKeeper.

    Args:
        url: where.
        roll_bytes: size of a ledger after which the next one begins.
        chance: source of the instance's number; those of two processes must differ.
        connect: makes the client.
    """

    def __init__(
        self,
        url: BookKeeperUrl,
        *,
        roll_bytes: int = ROLL_BYTES,
        chance: random.Random | None = None,
        connect: Connect = client_of,
    ) -> None:
        self._url = url
        self._roll_bytes = roll_bytes
        self._chance = chance or random.SystemRandom()
        self._connect = connect
        self._opened: InstanceLog | None = None
        self._parts = AsyncExitStack()
        self._announcing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect to ZooKeeper, and register a new instance. The ledgers of earlier ones are read when needed."""
        if self._opened is not None:
            raise StorageInUse("this add log is started already; close it first, or open another one")
        async with AsyncExitStack() as parts:
            with unavailable():
                client = await parts.enter_async_context(self._connect(self._url))
                session = client.zookeeper.session_count
                opened = await self._register(client)
            self._parts = parts.pop_all()
        self._opened = opened
        self._announcing = asyncio.create_task(self._keep_announcing(client, session))

    async def _register(self, client: BookKeeper) -> InstanceLog:
        owners = Owners(client.zookeeper, self._url.root, f"{self._chance.getrandbits(64):016x}")
        await owners.register()
        return InstanceLog(owners, LogLedgers(client, self._url), self._roll_bytes)

    async def _keep_announcing(self, client: BookKeeper, session: int) -> None:
        """Say in each new session that this instance is alive; the end of the last one has said that it is dead."""
        while True:
            session = await client.zookeeper.until_session(session)
            while not await self._announced(client):  # noqa: ASYNC110  # ZooKeeper does not say when to try again
                await asyncio.sleep(ANNOUNCE_AGAIN_S)

    async def _announced(self, client: BookKeeper) -> bool:
        """Announce this instance, or begin another one if it was removed; return True if that was done."""
        opened = self._require_opened()
        try:
            try:
                await opened.owners.announce()
            except InstanceRemoved:
                self._opened = await self._register(client)
                await opened.sweep()
        except BookKeeperError:
            return False
        return True

    async def close(self) -> None:
        """Finish the accepted operations, close the ledger, and end the instance."""
        if self._announcing is not None:
            self._announcing.cancel()
            await asyncio.wait([self._announcing])
        opened, self._opened, self._announcing = self._opened, None, None
        if opened is not None:
            try:
                with unavailable():
                    await opened.close()
            finally:
                await self._parts.aclose()

    async def log_id(self) -> str:
        """Return the id that all instances below the URL's root share."""
        opened = self._require_opened()
        with unavailable():
            return await opened.owners.log_id()

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """Append the parts whose trackers are not fenced in one commit, and return the others."""
        opened = self._require_opened()
        require_parts(parts)
        with unavailable():
            return await opened.append(parts, writer)

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """Record the epoch and its writer, and bring the tracker's records into this instance's log."""
        opened = self._require_opened()
        require_epoch_number(epoch)
        with unavailable():
            return await opened.take_over((topic, cursor), epoch, writer)

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """Return records of a tracker of this instance after a number, up to a size."""
        opened = self._require_opened()
        require_page(after, bytes_max)
        with unavailable():
            return await opened.read((topic, cursor), after, bytes_max)

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Record the cuts of this instance's trackers, and delete the ledgers that nobody needs any more."""
        opened = self._require_opened()
        require_cuts(cuts)
        with unavailable():
            await opened.cut(cuts)

    async def extents(self) -> list[LogExtent]:
        """Return the trackers of this instance, and of instances that are dead, that have records."""
        opened = self._require_opened()
        with unavailable():
            return await opened.extents()

    async def size_bytes(self) -> int:
        """Return the bytes of this instance's ledgers, each counted once."""
        return self._require_opened().own.size_bytes

    def _require_opened(self) -> InstanceLog:
        if self._opened is None:
            raise StorageUnavailable("the add log is not open; call start() first")
        return self._opened
