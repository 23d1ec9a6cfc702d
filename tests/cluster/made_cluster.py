"""A Pulsar cluster without brokers: real ZooKeeper and bookies, with the nodes and bucket ledgers that brokers write."""

import contextlib
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from kazoo.client import KazooClient

from delayed_tracker.bookkeeper.metadata.layout import Layout
from delayed_tracker.bookkeeper.metadata.ledger_metadata import serialize
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from tests.bookkeeper.servers.cluster import Cluster as Servers

TOPIC = TopicName.parse("persistent://t/ns/orders")
SUBSCRIPTION = "billing of all"
NOW_MS = 1_800_000_000_000


def indexes_of(ledgers: Sequence[int], count: int = 8, start_ms: int = NOW_MS - 2_000) -> IndexColumns:
    """Return ``count`` indexes of each ledger, sorted by deadline: half a second apart, the ledgers by turns."""
    rows = [(start_ms + 500 * entry, ledger, entry) for entry in range(count) for ledger in ledgers]
    return IndexColumns.of(sorted(rows))


def sealed(indexes: IndexColumns, *, step_ms: int = 1_000) -> SealedIndexes:
    """Return a bucket with these indexes, cut into segments that span less than ``step_ms``."""
    bounds = cut_segments(indexes.deliver_at_ms, step_ms=step_ms, count_max=-1)
    positions = sorted(zip(indexes.ledger_id.tolist(), indexes.entry_id.tolist(), strict=True))
    return SealedIndexes(indexes, bounds, Position(*positions[0]), Position(*positions[-1]))


@dataclass(frozen=True)
class MadeCluster:
    """A cluster below a chroot of its own."""

    cluster: Cluster

    @property
    def address(self) -> ClusterAddress:
        return self.cluster.address

    async def set(self, path: str, value: bytes) -> None:
        """Create a node with its parents, or set its value."""
        await self.cluster.client.zookeeper.ensure(path)
        await self.cluster.client.zookeeper.set(path, value)

    def set_now(self, path: str, value: bytes) -> None:
        """Do as :meth:`set`, through a session of its own, and return when it is set."""
        client = KazooClient(self.address.zookeeper)
        client.start(30)
        try:
            client.ensure_path(path)
            client.set(path, value)
        finally:
            client.stop()
            client.close()

    async def topic(
        self, topic: TopicName = TOPIC, ledgers: Mapping[int, int] | None = None, *, terminated: bool = False
    ) -> None:
        """Write the node of a topic with these closed ledgers: entries by id."""
        info = pb.ManagedLedgerInfo()
        for ledger_id, entries in (ledgers or {}).items():
            info.ledger_info.add(ledger_id=ledger_id, entries=entries, size=10 * entries, timestamp=NOW_MS)
        if terminated:
            info.terminated_position.ledger_id, info.terminated_position.entry_id = 1, 0
        await self.set(self.address.topic_node(topic), info.SerializeToString())

    async def cursor(
        self,
        properties: Sequence[BucketProperty],
        topic: TopicName = TOPIC,
        subscription: str = SUBSCRIPTION,
        info: pb.ManagedCursorInfo | None = None,
    ) -> None:
        """Write the node of a cursor, and that of its topic if it is missing."""
        if info is None:
            info = pb.ManagedCursorInfo(cursors_ledger_id=-1, mark_delete_ledger_id=1, mark_delete_entry_id=-1)
        info.cursor_properties.add(name="owner", value="somebody")
        for each in properties:
            info.cursor_properties.add(name=each.name, value=each.value)
        if not await self.cluster.client.zookeeper.exists(self.address.topic_node(topic)):
            await self.topic(topic)
        await self.set(self.address.cursor_node(topic, subscription), info.SerializeToString())

    async def bucket(
        self,
        indexes: IndexColumns,
        topic: TopicName = TOPIC,
        subscription: str = SUBSCRIPTION,
        *,
        close: bool = True,
        entries: Sequence[bytes] | None = None,
        custom: Mapping[str, bytes] | None = None,
        password: bytes = b"",
    ) -> BucketProperty:
        """Write a bucket's ledger as a broker does, and return its property.

        Args:
            indexes: of the bucket.
            topic: of the subscription.
            subscription: that has the bucket.
            close: False leaves the ledger open, as a broker that is killed.
            entries: stored in the place of the snapshot.
            custom: custom metadata that are added or replaced.
            password: of the ledger; brokers give none.
        """
        bucket = sealed(indexes)
        encoded = encode_snapshot(bucket)
        named = BucketProperty.of(bucket.first.ledger_id, bucket.last.ledger_id, 0)
        metadata = {
            "application": b"pulsar",
            "component": b"delayed-index-bucket",
            "pulsar/delayedIndexBucketKey": named.name.encode(),
            "pulsar/delayedIndexTopic": str(topic).encode(),
            "pulsar/delayedIndexCursor": subscription.encode(),
        }
        writer = await self.cluster.client.create(
            ensemble=1, write_quorum=1, ack_quorum=1, custom={**metadata, **(custom or {})}, password=password
        )
        for entry in entries if entries is not None else [encoded.metadata, *encoded.segments]:
            await writer.add(entry)
        if close:
            await writer.close()
        else:
            await writer.abandon()
        return BucketProperty(named.name, str(writer.ledger_id))

    def ledger_node(self, ledger_id: int | None) -> str:
        """Return the node of a ledger."""
        assert ledger_id is not None
        return f"{self.address.root}/ledgers/{Layout.HIERARCHICAL.path_of(ledger_id)}"

    async def move_away(self, named: BucketProperty) -> None:
        """Have the metadata of a bucket's ledger say that it is on a bookie that does not answer."""
        path = self.ledger_node(named.bucket_id)
        metadata = await self.cluster.client.metadata(named.bucket_id or 0)
        await self.set(path, serialize(replace(metadata, segments=((0, ("127.0.0.1:1",)),))))

    async def damage(self, named: BucketProperty) -> None:
        """Have no entry of a bucket's ledger fit its digest, which its metadata say is another one than it was written with."""
        path = self.ledger_node(named.bucket_id)
        metadata = await self.cluster.client.metadata(named.bucket_id or 0)
        await self.set(path, serialize(replace(metadata, digest_type=DigestType.HMAC)))

    async def delete_ledger(self, named: BucketProperty) -> None:
        """Delete the ledger of a bucket."""
        assert named.bucket_id is not None
        await self.cluster.client.delete(named.bucket_id, require={})


@contextlib.asynccontextmanager
async def made_cluster(servers: Servers) -> AsyncIterator[MadeCluster]:
    """Make an empty cluster below a chroot of its own on one bookie, connect to it, and yield it."""
    (bookie,) = servers.require(1)
    root = f"/pulsar-{uuid4().hex}"
    servers.zookeeper.make_tree(f"{root}/ledgers", bookies=[bookie.bookie_id])
    with servers.zookeeper.connected() as client:
        client.ensure_path(f"{root}/managed-ledgers")
        # The bookie knows the ledgers of all clusters by their ids: each has a range of its own.
        client.ensure_path(f"{root}/ledgers/idgen-long/HOB-{secrets.randbelow(2**31):010d}")
    options = "ensemble=1&writeQuorum=1&ackQuorum=1"
    address = ClusterAddress.parse(f"bookkeeper+zk:{servers.zookeeper.address}{root}?{options}")
    async with connected(address) as cluster:
        yield MadeCluster(cluster)
