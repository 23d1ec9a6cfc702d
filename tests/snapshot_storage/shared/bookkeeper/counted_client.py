"""A client of BookKeeper that counts what it asks ZooKeeper and the bookies."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.zookeeper import ANY_VERSION, Node, Operation, ZooKeeperClient
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl


@dataclass(frozen=True)
class Asked:
    """Requests to the servers, and bytes that went with them."""

    zookeeper: dict[str, int]
    """Requests to ZooKeeper by kind."""
    entries: dict[str, int]
    """Requests to bookies by kind; those that read or add an entry have one each."""
    zookeeper_bytes: int
    """Bytes of values that ZooKeeper was given or gave."""
    bookie_bytes: int
    """Bytes that bookies were sent, and those of entries that they gave."""

    @property
    def zookeeper_count(self) -> int:
        """Requests to ZooKeeper of any kind."""
        return sum(self.zookeeper.values())


class CountedZooKeeper(ZooKeeperClient):
    """A session that counts its requests, each once: ``ensure`` is several creates."""

    def __init__(self, hosts: str) -> None:
        super().__init__(hosts)
        self.counts: Counter[str] = Counter()
        self.bytes = 0

    async def get(self, path: str) -> Node | None:
        """See the client. Nodes of bookies do not count: one is read when the first ledger is placed on its bookie."""
        if "/available/" in path:
            return await super().get(path)
        self.counts["get"] += 1
        node = await super().get(path)
        self.bytes += 0 if node is None else len(node.value)
        return node

    async def exists(self, path: str) -> bool:
        """See the client."""
        self.counts["exists"] += 1
        return await super().exists(path)

    async def children(self, path: str, on_change: Callable[[], None] | None = None) -> list[str]:
        """See the client."""
        self.counts["children"] += 1
        return await super().children(path, on_change)

    async def create(self, path: str, value: bytes = b"", *, ephemeral: bool = False, sequential: bool = False) -> str:
        """See the client."""
        self.counts["create"] += 1
        self.bytes += len(value)
        return await super().create(path, value, ephemeral=ephemeral, sequential=sequential)

    async def set(self, path: str, value: bytes, version: int = ANY_VERSION) -> int:
        """See the client."""
        self.counts["set"] += 1
        self.bytes += len(value)
        return await super().set(path, value, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """See the client."""
        self.counts["delete"] += 1
        await super().delete(path, version)

    async def sync(self, path: str) -> None:
        """See the client."""
        self.counts["sync"] += 1
        await super().sync(path)

    async def multi(self, operations: Sequence[Operation]) -> None:
        """See the client."""
        self.counts["multi"] += 1
        self.bytes += sum(len(getattr(operation, "value", b"")) for operation in operations)
        await super().multi(operations)


class CountedClient(BookKeeper):
    """A client whose session counts, too."""

    def __init__(self, url: BookKeeperUrl) -> None:
        super().__init__(url.zookeeper, ledgers=url.ledgers)
        self.session = CountedZooKeeper(url.zookeeper)
        self._zookeeper = self.session
        self._seen = (Counter[str](), 0)

    def asked(self) -> Asked:
        """Return what was asked since the last call."""
        session, (seen, seen_bytes) = self.session, self._seen
        entries: Counter[str] = Counter()
        moved = 0
        for bookie in self.stats().values():
            for name, operation in bookie.operations.items():
                entries[name] += sum(operation.outcomes.values())
                moved += operation.sent_bytes + operation.received_bytes
        self._seen = (entries, moved)
        asked = Asked(dict(session.counts), dict(entries - seen), session.bytes, moved - seen_bytes)
        session.counts.clear()
        session.bytes = 0
        return asked
