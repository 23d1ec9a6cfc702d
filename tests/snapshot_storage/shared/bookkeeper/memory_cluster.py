"""A BookKeeper cluster in memory: nodes with versions, ledgers that can be fenced, and clients that can be cut off.

It has what storage and add log need of the client, with the same answers, so that interleavings can be tried by the
thousand. What real servers do is tested on real servers.
"""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from delayed_tracker.bookkeeper.errors import BookieUnavailable, DigestMismatch, EntryMissing, LedgerFenced, NotOurs
from delayed_tracker.bookkeeper.metadata.errors import (
    LedgerNotFound,
    NodeChanged,
    NodeExists,
    NodeMissing,
    NodeNotEmpty,
    ZooKeeperUnavailable,
)
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from delayed_tracker.bookkeeper.metadata.zookeeper import ANY_VERSION, Check, Create, Delete, Node, Operation, SetValue
from delayed_tracker.bookkeeper.wire.digest import DigestType, Entry

PAYLOAD_BYTES_MAX = 5_000_000


@dataclass
class _StoredNode:
    value: bytes
    version: int = 0
    session: object | None = None


@dataclass
class _StoredLedger:
    metadata: LedgerMetadata
    entries: list[bytes] = field(default_factory=list)
    fenced: bool = False
    lost: set[int] = field(default_factory=set)
    """Entries that no bookie has any more."""
    damaged: set[int] = field(default_factory=set)
    """Entries of which all copies are damaged."""


def _apply(nodes: dict[str, _StoredNode], operation: Operation, session: object) -> None:
    path = operation.path
    node = nodes.get(path)
    match operation:
        case Create(_, value, ephemeral):
            parent = path.rpartition("/")[0]
            if node is not None:
                raise NodeExists(path, f"{path} exists")
            if parent and parent not in nodes:
                raise NodeMissing(path, f"{path} has no parent")
            nodes[path] = _StoredNode(value, session=session if ephemeral else None)
        case SetValue(_, value, version):
            found = _require(nodes, path, version)
            found.value, found.version = value, found.version + 1
        case Delete(_, version):
            _require(nodes, path, version)
            if any(other.startswith(f"{path}/") for other in nodes):
                raise NodeNotEmpty(path, f"{path} has children")
            del nodes[path]
        case Check(_, version):
            _require(nodes, path, version)


def _require(nodes: dict[str, _StoredNode], path: str, version: int) -> _StoredNode:
    node = nodes.get(path)
    if node is None:
        raise NodeMissing(path, f"{path} is missing")
    if version not in (ANY_VERSION, node.version):
        raise NodeChanged(path, f"{path} is at {node.version}")
    return node


class MemoryCluster:
    """Nodes and ledgers, which survive the processes that use them."""

    def __init__(self) -> None:
        self.nodes: dict[str, _StoredNode] = {}
        self.ledgers: dict[int, _StoredLedger] = {}
        self.last_id = 0

    def apply(self, operations: Sequence[Operation], session: object) -> None:
        """Perform all operations, or none."""
        nodes = {path: replace(node) for path, node in self.nodes.items()}
        for operation in operations:
            _apply(nodes, operation, session)
        self.nodes = nodes

    def lose_entries(self, ledger_id: int, entries: Iterable[int] | None = None) -> None:
        """Lose all copies of some entries of a ledger, or of those that it has now."""
        ledger = self.ledgers[ledger_id]
        ledger.lost.update(range(len(ledger.entries)) if entries is None else entries)

    def damage_entries(self, ledger_id: int, entries: Iterable[int] | None = None) -> None:
        """Damage all copies of some entries of a ledger, or of those that it has now."""
        ledger = self.ledgers[ledger_id]
        ledger.damaged.update(range(len(ledger.entries)) if entries is None else entries)

    def end_session(self, session: object) -> None:
        """Drop the ephemeral nodes of a session."""
        self.nodes = {path: node for path, node in self.nodes.items() if node.session is not session}


class MemoryZooKeeper:
    """A session."""

    def __init__(self, client: "MemoryBookKeeper") -> None:
        self._client = client
        self._cluster = client.cluster

    async def _change(self, *operations: Operation) -> None:
        async with self._client.reached("zookeeper"):
            self._cluster.apply(operations, self._client.session)

    async def get(self, path: str) -> Node | None:
        async with self._client.reached("zookeeper"):
            node = self._cluster.nodes.get(path)
            return None if node is None else Node(node.value, node.version)

    async def exists(self, path: str) -> bool:
        return await self.get(path) is not None

    async def children(self, path: str) -> list[str]:
        async with self._client.reached("zookeeper"):
            if path not in self._cluster.nodes:
                raise NodeMissing(path, f"{path} is missing")
            inside = (other.removeprefix(f"{path}/") for other in self._cluster.nodes if other.startswith(f"{path}/"))
            return sorted(name for name in inside if "/" not in name)

    async def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False) -> str:
        await self._change(Create(path, value, ephemeral))
        return path

    async def ensure(self, path: str) -> None:
        names = path.strip("/").split("/")
        for count in range(1, len(names) + 1):
            parent = "/" + "/".join(names[:count])
            async with self._client.reached("zookeeper"):
                if parent not in self._cluster.nodes:
                    self._cluster.apply([Create(parent)], self._client.session)

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> int:
        async with self._client.reached("zookeeper"):
            self._cluster.apply([SetValue(path, value, version)], self._client.session)
            return self._cluster.nodes[path].version

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._change(Delete(path, version))

    async def sync(self, path: str) -> None:
        async with self._client.reached("zookeeper"):
            pass

    async def multi(self, operations: Sequence[Operation]) -> None:
        await self._change(*operations)

    @property
    def session_count(self) -> int:
        return self._client.session_count

    async def until_session(self, after: int) -> int:
        while self.session_count <= after:
            await self._client.renewed.wait()
        return self.session_count


class MemoryBookKeeper:
    """A client of the cluster.

    Args:
        cluster: what all clients share.
        chance: how long each operation takes, in turns of the event loop, and whether it fails.
        failing: probability that an operation fails, before or after it was done.
    """

    def __init__(self, cluster: MemoryCluster, chance: random.Random, *, failing: float = 0.0) -> None:
        self.cluster = cluster
        self.chance = chance
        self.failing = failing
        self.cut_off = False
        self.payload_bytes_max = PAYLOAD_BYTES_MAX
        self.zookeeper = MemoryZooKeeper(self)
        self.session = object()
        self.session_count = 1
        self.renewed = asyncio.Event()

    def expire(self) -> None:
        """End the session, and begin another one."""
        self.cluster.end_session(self.session)
        self.session = object()
        self.session_count += 1
        renewed, self.renewed = self.renewed, asyncio.Event()
        renewed.set()

    def reached(self, server: str) -> "_Reached":
        return _Reached(self, server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self.cluster.end_session(self.session)

    async def create(
        self,
        *,
        ensemble: int,
        write_quorum: int,
        ack_quorum: int,
        digest: DigestType,
        custom: Mapping[str, bytes],
        also: Callable[[int], Sequence[Operation]] = lambda _: (),
    ) -> "MemoryWriter":
        async with self.reached("zookeeper"):
            self.cluster.last_id += 1
            ledger_id = self.cluster.last_id
            self.cluster.apply(also(ledger_id), self.session)
            bookies = tuple(f"bookie{number}:3181" for number in range(ensemble))
            metadata = LedgerMetadata(
                ledger_id, 3, LedgerState.OPEN, -1, 0, ensemble, write_quorum, ack_quorum, digest, b"", ((0, bookies),),
                dict(custom),
            )  # fmt: skip
            self.cluster.ledgers[ledger_id] = _StoredLedger(metadata)
        return MemoryWriter(self, ledger_id)

    async def metadata(self, ledger_id: int) -> LedgerMetadata:
        async with self.reached("zookeeper"):
            return self._require(ledger_id, {}).metadata

    async def open(self, ledger_id: int, *, require: Mapping[str, bytes] | None = None) -> "MemoryReader":
        async with self.reached("zookeeper"):
            return MemoryReader(self, self._require(ledger_id, require or {}))

    async def recover(self, ledger_id: int, *, require: Mapping[str, bytes] | None = None) -> "MemoryReader":
        async with self.reached("bookie"):
            self._require(ledger_id, require or {}).fenced = True
        async with self.reached("zookeeper"):
            ledger = self._require(ledger_id, require or {})
            close(ledger)
            return MemoryReader(self, ledger)

    async def delete(self, ledger_id: int, *, require: Mapping[str, bytes], also: Sequence[Operation] = ()) -> bool:
        async with self.reached("zookeeper"):
            if ledger_id not in self.cluster.ledgers:
                return False
            self._require(ledger_id, require)
            self.cluster.apply(also, self.session)
            del self.cluster.ledgers[ledger_id]
            return True

    def _require(self, ledger_id: int, custom: Mapping[str, bytes]) -> _StoredLedger:
        ledger = self.cluster.ledgers.get(ledger_id)
        if ledger is None:
            raise LedgerNotFound(f"ledger {ledger_id} does not exist")
        if any(ledger.metadata.custom.get(key) != value for key, value in custom.items()):
            raise NotOurs(f"ledger {ledger_id} is not ours")
        return ledger


def close(ledger: _StoredLedger) -> None:
    """Record the end of a ledger."""
    if not ledger.metadata.closed:
        size = sum(map(len, ledger.entries))
        ledger.metadata = ledger.metadata.with_state(
            LedgerState.CLOSED, last_entry_id=len(ledger.entries) - 1, payload_bytes=size
        )


class _Reached:
    """Takes some turns of the event loop before and after an operation, and may fail on either side of it."""

    def __init__(self, client: MemoryBookKeeper, server: str) -> None:
        self._client = client
        self._server = server

    async def __aenter__(self) -> None:
        await self._pause("before")

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            await self._pause("after")

    async def _pause(self, moment: str) -> None:
        for _ in range(self._client.chance.randrange(4)):
            await asyncio.sleep(0)
        if self._client.cut_off:
            await asyncio.Event().wait()
        if self._client.chance.random() < self._client.failing:
            problem = f"a planned fault {moment} the operation"
            if self._server == "bookie":
                raise BookieUnavailable("bookie", problem)
            raise ZooKeeperUnavailable("/", problem)


class MemoryWriter:
    """Writes one ledger."""

    def __init__(self, client: MemoryBookKeeper, ledger_id: int) -> None:
        self._client = client
        self.ledger_id = ledger_id
        self._sent: list[asyncio.Task[int]] = []

    @property
    def _ledger(self) -> _StoredLedger:
        ledger = self._client.cluster.ledgers.get(self.ledger_id)
        if ledger is None:
            raise LedgerFenced(f"ledger {self.ledger_id} is gone")
        return ledger

    async def add(self, payload: bytes) -> int:
        return await (await self.begin_add(payload))

    async def add_all(self, payloads: Sequence[bytes]) -> int:
        return [await added for added in [await self.begin_add(payload) for payload in payloads]][-1]

    async def begin_add_all(self, payloads: Sequence[bytes]) -> "asyncio.Future[int]":
        return [await self.begin_add(payload) for payload in payloads][-1]

    async def begin_add(self, payload: bytes) -> "asyncio.Future[int]":
        before = self._sent[-1] if self._sent else None
        task = asyncio.ensure_future(self._add(payload, before))
        self._sent.append(task)
        return task

    async def _add(self, payload: bytes, before: "asyncio.Task[int] | None") -> int:
        if before is not None:
            await asyncio.wait([before])
            before.result()
        async with self._client.reached("bookie"):
            if self._ledger.fenced or self._ledger.metadata.closed:
                raise LedgerFenced(f"ledger {self.ledger_id} was fenced")
            self._ledger.entries.append(payload)
            return len(self._ledger.entries) - 1

    async def close(self, also: Sequence[Operation] = ()) -> None:
        """Close the ledger behind the last entry that was stored, as the real one does, whatever became of later ones."""
        for error in await asyncio.gather(*self._sent, return_exceptions=True):
            if isinstance(error, LedgerFenced):
                raise error
        async with self._client.reached("zookeeper"):
            if self._ledger.metadata.closed:
                raise LedgerFenced(f"ledger {self.ledger_id} was closed by another client")
            self._client.cluster.apply(also, self._client.session)
            close(self._ledger)

    async def abandon(self) -> None:
        await asyncio.gather(*self._sent, return_exceptions=True)


class MemoryReader:
    """Reads one ledger."""

    def __init__(self, client: MemoryBookKeeper, ledger: _StoredLedger) -> None:
        self._client = client
        self._ledger = ledger
        self.metadata = ledger.metadata

    async def read(self, first: int, last: int) -> list[Entry]:
        async with self._client.reached("bookie"):
            return [self._entry(entry_id) for entry_id in range(first, last + 1)]

    def _entry(self, entry_id: int) -> Entry:
        if entry_id in self._ledger.lost:
            raise EntryMissing(f"entry {self.metadata.ledger_id}:{entry_id}: none of its bookies has it")
        if entry_id in self._ledger.damaged:
            raise DigestMismatch(f"entry {self.metadata.ledger_id}:{entry_id}: no copy fits its digest")
        return Entry(entry_id, entry_id - 1, 0, self._ledger.entries[entry_id])
