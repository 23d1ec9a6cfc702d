"""Knows the bookies of a cluster: which take entries, which fail, and where each listens."""

import asyncio
import random
import re
from collections.abc import Callable, Collection
from typing import Final

from google.protobuf.message import DecodeError

from delayed_tracker.bookkeeper.errors import BookieUnavailable, NotEnoughBookies
from delayed_tracker.bookkeeper.metadata.errors import NodeMissing, ZooKeeperError
from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.connection import Endpoint
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.pulsar.v1.bookie_service_info_pb2 import BookieServiceInfo

AddressOf = Callable[[str], tuple[str, int] | None]
"""Returns host and port for the id of a bookie, or None for those that ZooKeeper has."""

_PROTOCOL: Final = "bookie-rpc"
_READ_ONLY: Final = "readonly"
_BOOKIE_ID: Final = re.compile(r"(?!\.{1,2}$)[^\s/\x00-\x1f]+")
_ADDRESS: Final = re.compile(r"\[?(?P<host>[^\s\[\]]+?)\]?:(?P<port>[0-9]{1,5})")


class Bookies:
    """The bookies below one root. Lists are read again after ZooKeeper said that they changed.

    Args:
        zookeeper: session that is started.
        root: node of the ledgers, ``/ledgers`` mostly.
        settings: times.
        address_of: overrides addresses of ZooKeeper, for forwarded ports.
        chance: source of the choice.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperClient,
        root: str,
        settings: ClientSettings,
        *,
        address_of: AddressOf | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self._zookeeper = zookeeper
        self._settings = settings
        self._address_of = address_of
        self._chance = chance or random.SystemRandom()
        self._writable = _Listing(zookeeper, f"{root}/available")
        self._read_only = _Listing(zookeeper, f"{root}/available/{_READ_ONLY}")
        self._nodes = (self._writable.path, self._read_only.path)
        self._known: dict[str, Endpoint] = {}
        self._quarantined: dict[str, float] = {}

    async def writable(self) -> frozenset[str]:
        """Return the ids of the bookies that take entries.

        Raises:
            ZooKeeperUnavailable: the list changed, and ZooKeeper does not answer.
        """
        return await self._writable.names() - {_READ_ONLY}

    async def read_only(self) -> frozenset[str]:
        """Return the ids of the bookies that serve reads alone.

        Raises:
            ZooKeeperUnavailable: the list changed, and ZooKeeper does not answer.
        """
        return await self._read_only.names()

    async def choose(self, count: int, exclude: Collection[str] = ()) -> list[str]:
        """Return the ids of bookies for new entries, at random: racks and regions are not considered.

        Bookies that failed a short time ago are chosen only if there are too few others.

        Args:
            count: bookies to return, from 0.
            exclude: bookies that the ensemble has already.
        Raises:
            NotEnoughBookies: there are fewer.
            ZooKeeperUnavailable: the list changed, and ZooKeeper does not answer.
        """
        fit = await self.writable() - frozenset(exclude)
        avoided = fit & self.quarantined()
        chosen = self._sample(fit - avoided, count)
        chosen += self._sample(avoided, count - len(chosen))
        if len(chosen) < count:
            others = f", besides {', '.join(sorted(exclude))}" if exclude else ""
            raise NotEnoughBookies(
                f"bookies: {self._writable.path} at ZooKeeper {self._zookeeper.hosts} has {len(fit)} of {count} that are"
                f" needed{others}; start bookies, or create ledgers with a smaller ensemble"
            )
        return chosen

    def quarantine(self, bookie_id: str) -> None:
        """Avoid a bookie that failed, for ``quarantine_ms`` from now."""
        until = asyncio.get_running_loop().time() + self._settings.quarantine_ms / 1_000
        self._quarantined[bookie_id] = until

    def quarantined(self) -> frozenset[str]:
        """Return the ids of the bookies that are avoided now."""
        now = asyncio.get_running_loop().time()
        self._quarantined = {bookie_id: until for bookie_id, until in self._quarantined.items() if until > now}
        return frozenset(self._quarantined)

    async def endpoint_of(self, bookie_id: str) -> Endpoint:
        """Return where a bookie listens, as ``address_of``, its node in ZooKeeper, or at last its id says.

        While ZooKeeper does not answer, it is where the bookie listened last.

        Raises:
            BookieUnavailable: the bookie is not registered and its id is no address, or its node is damaged.
        """
        forwarded = None if self._address_of is None else self._address_of(bookie_id)
        if forwarded is not None:
            return _endpoint(bookie_id, *forwarded)
        if _BOOKIE_ID.fullmatch(bookie_id) is None:
            raise BookieUnavailable(bookie_id, "this is no id of a bookie; repair the ledger's metadata")
        try:
            # Half of an attempt is left for the connection itself.
            async with asyncio.timeout(self._settings.connect_timeout_ms / 2_000):
                found = await self._registered(bookie_id)
        except (ZooKeeperError, TimeoutError):
            found = self._known.get(bookie_id)
        if found is None:
            address = _ADDRESS.fullmatch(bookie_id)
            if address is None:
                raise BookieUnavailable(
                    bookie_id, f"it is in neither {' nor '.join(self._nodes)}, and its id is no HOST:PORT; start it"
                )
            found = _endpoint(bookie_id, address["host"], int(address["port"]))
        self._known[bookie_id] = found
        return found

    async def _registered(self, bookie_id: str) -> Endpoint | None:
        """Return what the bookie's node says; None if there is none, or it is empty."""
        for parent in self._nodes:
            node = await self._zookeeper.get(f"{parent}/{bookie_id}")
            if node is not None and node.value:
                return _parse_service_info(bookie_id, node.value)
        return None

    def _sample(self, bookies: frozenset[str], count: int) -> list[str]:
        return self._chance.sample(sorted(bookies), min(max(count, 0), len(bookies)))


class _Listing:
    """Names of a node's children, read again after a watch said that they changed."""

    def __init__(self, zookeeper: ZooKeeperClient, path: str) -> None:
        self.path = path
        self._zookeeper = zookeeper
        self._names: frozenset[str] = frozenset()
        self._is_current = False
        self._turn = asyncio.Lock()

    async def names(self) -> frozenset[str]:
        """Return the names; none if the node is missing."""
        async with self._turn:
            if not self._is_current:
                # Set before, so that a change between the answer and this task's turn is not overlooked.
                self._is_current = True
                is_read = False
                try:
                    self._names = frozenset(await self._zookeeper.children(self.path, self._changed))
                    is_read = True
                except NodeMissing:
                    self._names = frozenset()
                finally:
                    self._is_current = self._is_current and is_read
            return self._names

    def _changed(self) -> None:
        self._is_current = False


def _parse_service_info(bookie_id: str, value: bytes) -> Endpoint:
    """Return where the node of a bookie says that it listens.

    Raises:
        BookieUnavailable: the value is damaged, or has no address of this protocol.
    """
    try:
        info = BookieServiceInfo.FromString(value)
    except DecodeError as error:
        raise BookieUnavailable(bookie_id, f"its node in ZooKeeper is damaged ({error}); restart it") from error
    for endpoint in info.endpoints:
        if endpoint.protocol == _PROTOCOL:
            return _endpoint(bookie_id, endpoint.host, endpoint.port)
    raise BookieUnavailable(bookie_id, f"its node in ZooKeeper has no endpoint of protocol {_PROTOCOL}; restart it")


def _endpoint(bookie_id: str, host: str, port: int) -> Endpoint:
    try:
        return Endpoint(host, port)
    except InvalidInput as error:
        raise BookieUnavailable(bookie_id, f"its address {host}:{port} is none; {error.message}") from error
