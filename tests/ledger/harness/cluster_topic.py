"""Writes a topic, its cursors and its ledgers into a real cluster, as a broker does."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Self, TypeVar
from uuid import uuid4

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from delayed_tracker.ledger.live import client as live_client
from delayed_tracker.ledger.source_url import open_live_cluster, parse_source_url
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from tests.bookkeeper.servers.cluster import MAX_FRAME_BYTES, ZooKeeperServer
from tests.ledger.harness.log_files import cursor_path, topic_path

T = TypeVar("T")
CLOSED_AT_MS = 1_700_000_100_000


class ClusterTopic:
    """One topic. A context manager: its writer's connections are open inside the block.

    Args:
        zookeeper: of the cluster.
        root: of the metadata store; its trees exist.
        topic: its name; by default one that no other test has.
    """

    def __init__(self, zookeeper: ZooKeeperServer, root: str = "", topic: str | None = None) -> None:
        self.name = topic or f"persistent://lab/{uuid4()}/orders"
        self.url = f"bookkeeper+zk:{zookeeper.address}{root}"
        self.ledgers: dict[int, Sequence[bytes]] = {}
        self._root = root
        self._runner = asyncio.Runner()
        self._client = BookKeeper(
            zookeeper.address, ledgers=f"{root}/ledgers", settings=ClientSettings(frame_bytes_max=MAX_FRAME_BYTES)
        )
        self._info = pb.ManagedLedgerInfo()

    def __enter__(self) -> Self:
        self.run(self._client.__aenter__())
        self._save()
        return self

    def __exit__(self, *_: object) -> None:
        self.run(self._client.__aexit__(None, None, None))
        self._runner.close()
        # Ledgers of parts share connections that live as long as their process. ZooKeeper's threads draw from ``random``,
        # which Hypothesis refuses in the tests after these.
        for client in live_client._SHARED.values():
            client.close()
        live_client._SHARED.clear()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def open(self, *, pinned: bool = False, options: str = ""):
        """Open the cluster as a source."""
        return open_live_cluster(parse_source_url(f"{self.url}{options}"), pinned=pinned)

    def add_ledger(
        self,
        payloads: Sequence[bytes],
        *,
        of_topic: bool = True,
        digest: DigestType = DigestType.CRC32C,
        **options: Any,
    ) -> int:
        """Write a closed ledger, and return its id."""
        writer = self.begin(payloads, digest=digest, of_topic=of_topic, **options)
        self.run(writer.close())
        if of_topic:
            ledger = self._info.ledger_info[-1]
            ledger.entries, ledger.size, ledger.timestamp = len(payloads), sum(map(len, payloads)), CLOSED_AT_MS
            self._save()
        return writer.ledger_id

    def begin(self, payloads: Sequence[bytes], *, of_topic: bool = True, **options: Any) -> LedgerWriter:
        """Write a ledger that stays open, and return its writer."""
        writer = self.run(self._client.create(**options))
        self.add(writer, payloads)
        self.ledgers[writer.ledger_id] = payloads
        if of_topic:
            self._info.ledger_info.add(ledger_id=writer.ledger_id, timestamp=0)
            self._save()
        return writer

    def add(self, writer: LedgerWriter, payloads: Sequence[bytes]) -> None:
        """Add entries one after the other, so that each tells the bookies of the one before."""
        for payload in payloads:
            self.run(writer.add(payload))

    @contextmanager
    def adding(self, writer: LedgerWriter, payload: bytes) -> Iterator[None]:
        """Add the payload again and again inside the block, one after the other."""
        ended = Event()

        def add() -> None:
            while not ended.is_set():
                self.add(writer, [payload])

        thread = Thread(target=add)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def list_ledger(self, ledger_id: int, entry_count: int) -> None:
        """List a ledger in the topic's metadata that the cluster need not have."""
        self._info.ledger_info.add(ledger_id=ledger_id, timestamp=CLOSED_AT_MS, entries=entry_count, size=1)
        self._save()

    def delete_ledger(self, ledger_id: int) -> None:
        """Delete a ledger's metadata, as trimming does; the bookies drop the entries later."""
        self.run(self._client.delete(ledger_id, require={}))

    def add_cursor(self, info: pb.ManagedCursorInfo, subscription: str = "workers") -> None:
        self._set(cursor_path(subscription, self.name), info.SerializeToString())

    def metadata(self, ledger_id: int):
        return self.run(self._client.metadata(ledger_id))

    def _save(self) -> None:
        self._set(topic_path(self.name), self._info.SerializeToString())

    def _set(self, path: str, value: bytes) -> None:
        async def put() -> None:
            await self._client.zookeeper.ensure(self._root + path)
            await self._client.zookeeper.set(self._root + path, value)

        self.run(put())
