"""Asks ZooKeeper from asyncio, by kazoo, whose threads do the waiting.

A call fails at once while the connection is down, instead of waiting in kazoo's queue, and after its time-out, which does
not withdraw the request: a write that failed with ``ZooKeeperUnavailable`` may have happened, or happen later. Callers
therefore write with versions, and read back.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError

from delayed_tracker.bookkeeper.metadata.errors import (
    AccessDenied,
    NodeChanged,
    NodeExists,
    NodeMissing,
    NodeNotEmpty,
    RequestTooLarge,
    ZooKeeperError,
    ZooKeeperUnavailable,
)
from delayed_tracker.bookkeeper.metadata.kazoo_log import quiet_logger
from delayed_tracker.bookkeeper.tls import ZooKeeperTls
from delayed_tracker.core.values.errors import InvalidInput

ANY_VERSION: Final = -1
REQUEST_BYTES_MAX: Final = 900 * 1024
"""ZooKeeper drops the connection at requests above 1 MiB (``jute.maxbuffer``), which looks like an outage."""
_REQUESTS_MAX: Final = 256
"""Requests in flight; more wait, within their time-out."""
_RECONNECTING: Final = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 2.0}
"""Pauses in seconds between attempts to connect. kazoo's own grow to an hour, so that it would be away as long again as the
server was, and its session would be over."""
_OPERATION_BYTES: Final = 100
"""Bound of what a request has besides path and value."""
_REFUSALS: Final = {
    kazoo_errors.NoNodeError: (NodeMissing, "does not exist"),
    kazoo_errors.NodeExistsError: (NodeExists, "exists"),
    kazoo_errors.BadVersionError: (NodeChanged, "was changed by another client"),
    kazoo_errors.NotEmptyError: (NodeNotEmpty, "has children"),
    kazoo_errors.NoAuthError: (AccessDenied, "is not allowed to this client; correct the node's ACL"),
    kazoo_errors.AuthFailedError: (AccessDenied, "needs SASL, which this client does not speak"),
}
_CONSEQUENCES: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
"""Results of the operations of a multi that did not fail themselves."""


@dataclass(frozen=True, slots=True)
class Node:
    """Value of a node, and the version that a conditional write names."""

    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Create:
    """Creates a node, whose parent must exist."""

    path: str
    value: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetValue:
    """Sets the value of a node that has the version."""

    path: str
    value: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a node that has the version, and no children."""

    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Check:
    """Requires that a node has a version."""

    path: str
    version: int


Operation = Create | SetValue | Delete | Check
"""One part of :meth:`ZooKeeperClient.multi`."""


class ZooKeeperClient:
    """A session with ZooKeeper. An asynchronous context manager, to be used in one event loop.

    Every call raises :class:`ZooKeeperUnavailable` if the connection is down, breaks, or no answer comes in time, and
    :class:`AccessDenied` if ZooKeeper refuses this client.
    """

    def __init__(
        self, hosts: str, *, timeout_s: float = 10.0, session_s: float = 10.0, tls: ZooKeeperTls | None = None
    ) -> None:
        """Take the addresses; :meth:`start` connects.

        Args:
            hosts: ``HOST:PORT``, several divided by commas, without a path.
            timeout_s: seconds to wait for the connection and for each answer.
            session_s: seconds until the servers drop the ephemeral nodes of a client that is away.
            tls: None for connections in the clear.
        Raises:
            InvalidInput: the addresses are none.
        """
        if not all(host.strip() for host in hosts.split(",")) or "/" in hosts:
            raise InvalidInput("zookeeper", hosts, "give HOST:PORT, several divided by commas, without a path")
        self.hosts = hosts
        self._timeout_s = timeout_s
        secure = {} if tls is None else _tls_arguments(tls)
        self._client: Any = KazooClient(
            hosts, timeout=session_s, connection_retry=dict(_RECONNECTING), logger=quiet_logger(), **secure
        )
        self._turns = asyncio.Semaphore(_REQUESTS_MAX)
        self._up = asyncio.Event()
        self.session_count = 0
        """Sessions so far. A session ends when the servers have not heard of this client for ``session_s``, and with it its
        ephemeral nodes; the next one begins by itself."""
        self._session: object = None
        self._renewed = asyncio.Event()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def connected(self) -> bool:
        """True while calls are sent at once. A lost connection comes back by itself."""
        return bool(self._client.connected)

    async def start(self) -> None:
        """Connect.

        Raises:
            ZooKeeperUnavailable: no server answers in time.
        """
        loop = asyncio.get_running_loop()
        self._client.add_listener(lambda state: _call_soon(loop, self._note, state))
        connected = False
        try:
            await asyncio.to_thread(self._client.start_async)
            await self.until_connected()
            connected = True
        finally:
            if not connected:
                await self.close()

    async def until_connected(self) -> None:
        """Wait for the connection, which calls do not.

        Raises:
            ZooKeeperUnavailable: no server answers in time.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._up.wait()
                # kazoo fails the requests in flight before it tells that the connection broke.
                while not self.connected:
                    self._up.clear()
                    await self._up.wait()
        except TimeoutError as error:
            raise ZooKeeperUnavailable(
                "/",
                f"ZooKeeper at {self.hosts} does not answer within {self._timeout_s:g} s; start it or correct the address",
            ) from error

    async def until_session(self, after: int) -> int:
        """Wait until there were more sessions than that, and return their number."""
        while self.session_count <= after:
            await self._renewed.wait()
        return self.session_count

    async def close(self) -> None:
        """End the session, and with it its ephemeral nodes; without an answer they stay until it expires."""
        await asyncio.to_thread(self._end)

    async def get(self, path: str) -> Node | None:
        """Return a node; None if there is none. The server may be behind others: :meth:`sync` first where it matters."""
        try:
            value, stat = await self._ask(path, lambda: self._client.get_async(path))
        except NodeMissing:
            return None
        return Node(bytes(value or b""), int(stat.version))

    async def exists(self, path: str) -> bool:
        """Return True if there is such a node."""
        return await self._ask(path, lambda: self._client.exists_async(path)) is not None

    async def children(self, path: str, on_change: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children, ascending.

        Args:
            path: of the parent.
            on_change: is called once in the event loop when children come or go, the node is deleted, or the connection
                breaks; then call this method again.
        Raises:
            NodeMissing: there is no such node.
        """
        watch = None if on_change is None else _watch(asyncio.get_running_loop(), on_change)
        return sorted(await self._ask(path, lambda: self._client.get_children_async(path, watch=watch)))

    async def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """Create a node, and return its path: with a number of ten digits at its end if it is sequential.

        Raises:
            NodeExists: there is such a node.
            NodeMissing: there is no parent.
            RequestTooLarge: the value is above 900 KiB.
        """
        _require_size([Create(path, value)])
        created = await self._ask(
            path, lambda: self._client.create_async(path, value, ephemeral=ephemeral, sequence=sequential)
        )
        return str(created)

    async def ensure(self, path: str) -> None:
        """Create a node and its parents, as far as they are missing, with empty values."""
        missing = [path]
        while missing:
            try:
                await self.create(missing[-1])
            except NodeExists:
                missing.pop()
            except NodeMissing:
                missing.append(missing[-1].rpartition("/")[0])
            else:
                missing.pop()

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> int:
        """Set the value of a node that has the version, and return the new version.

        Raises:
            NodeChanged: the node has another version.
            NodeMissing: there is no such node.
            RequestTooLarge: the value is above 900 KiB.
        """
        _require_size([SetValue(path, value)])
        return int((await self._ask(path, lambda: self._client.set_async(path, value, version))).version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node that has the version.

        Raises:
            NodeChanged: the node has another version.
            NodeMissing: there is no such node.
            NodeNotEmpty: it has children.
        """
        await self._ask(path, lambda: self._client.delete_async(path, version))

    async def sync(self, path: str) -> None:
        """Wait until this session's server has all writes that ZooKeeper acknowledged before this call."""
        await self._ask(path, lambda: self._client.sync_async(path))

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Perform all operations, or none.

        Raises:
            NodeChanged, NodeExists, NodeMissing, NodeNotEmpty: one of them is refused; the error has its path.
            RequestTooLarge: together they are above 900 KiB.
        """
        _require_size(operations)
        transaction = self._client.transaction()
        for operation in operations:
            match operation:
                case Create(path, value, ephemeral):
                    transaction.create(path, value, ephemeral=ephemeral)
                case SetValue(path, value, version):
                    transaction.set_data(path, value, version)
                case Delete(path, version):
                    transaction.delete(path, version)
                case Check(path, version):
                    transaction.check(path, version)
        results = await self._ask(operations[0].path, transaction.commit_async)
        # kazoo returns the exceptions instead of raising one.
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, _CONSEQUENCES):
                raise self._error(operation.path, result)

    async def _ask(self, path: str, call: Callable[[], Any]) -> Any:
        """Send a request by ``call``, and return the answer that kazoo's thread hands to the event loop."""
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        loop = answered.get_loop()

        def settle(result: Any) -> None:
            if answered.done():
                return
            if result.exception is None:
                answered.set_result(result.value)
            else:
                answered.set_exception(result.exception)

        try:
            async with asyncio.timeout(self._timeout_s), self._turns:
                if not self.connected:
                    raise ZooKeeperUnavailable(
                        path, f"{path}: ZooKeeper at {self.hosts} is not connected; try again later"
                    )
                call().rawlink(lambda result: _call_soon(loop, settle, result))
                return await answered
        except TimeoutError as error:
            raise ZooKeeperUnavailable(
                path, f"{path}: ZooKeeper at {self.hosts} did not answer within {self._timeout_s:g} s; try again later"
            ) from error
        except kazoo_errors.KazooException as error:
            raise self._error(path, error) from error

    def _note(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            session = self._client.client_id  # None if the connection broke meanwhile
            if session not in (None, self._session):
                self._session = session
                self.session_count += 1
                renewed, self._renewed = self._renewed, asyncio.Event()
                renewed.set()
            self._up.set()
        else:
            self._up.clear()

    def _error(self, path: str, error: Exception) -> ZooKeeperError:
        for refused, (kind, words) in _REFUSALS.items():
            if isinstance(error, refused):
                return kind(path, f"{path} at ZooKeeper {self.hosts} {words}")
        return ZooKeeperUnavailable(
            path, f"{path}: ZooKeeper at {self.hosts} answered {type(error).__name__} {error}; try again later"
        )

    def _end(self) -> None:
        # A server that does not answer cannot be told; kazoo's thread may still wait for it.
        with contextlib.suppress(kazoo_errors.KazooException, KazooTimeoutError, OSError):
            self._client.stop()
            self._client.close()


def _require_size(operations: Sequence[Operation]) -> None:
    size = sum(
        len(operation.path.encode()) + len(getattr(operation, "value", b"")) + _OPERATION_BYTES
        for operation in operations
    )
    if size > REQUEST_BYTES_MAX:
        path = operations[0].path
        raise RequestTooLarge(
            path, f"{path}: a request of {size:,} bytes is above {REQUEST_BYTES_MAX:,}; store less in one node"
        )


def _call_soon(loop: asyncio.AbstractEventLoop, callback: Callable[..., None], *arguments: Any) -> None:
    # A loop that is closed has nobody who waits.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback, *arguments)


def _watch(loop: asyncio.AbstractEventLoop, on_change: Callable[[], None]) -> Callable[[object], None]:
    """Return a function that kazoo calls, in one of its threads, with an event of a node."""

    def changed(_event: object) -> None:
        _call_soon(loop, on_change)

    return changed


def _tls_arguments(tls: ZooKeeperTls) -> dict[str, Any]:
    return {
        "use_ssl": True,
        "verify_certs": True,
        "ca": tls.ca,
        "certfile": tls.certificate,
        "keyfile": tls.key,
        "check_hostname": tls.check_hostname,
    }
