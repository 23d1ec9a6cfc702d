"""Lists the topics of a live cluster, their subscriptions with the bucket properties, and the ledgers of buckets.

Subscriptions and topics are in ZooKeeper below ``ROOT/managed-ledgers``. A bucket's ledger is known by its custom metadata,
so finding those without a property takes a read of every ledger's metadata.

Memory holds the names of all topics, the bucket properties that are found, at most :data:`BUCKET_LEDGERS_MAX` bucket
ledgers, and one batch of others.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound, NodeMissing
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.bucket_ledger import CURSOR, KEY, TOPIC, is_bucket
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import ClusterNodeInvalid, TooManyBucketLedgers
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.topic_name import TopicName, decode_name, encode_name, similar_names
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.maintenance.working import Progress

BUCKET_LEDGERS_MAX: Final = 200_000
"""Bucket ledgers that one listing keeps, at 1 kB each."""
_AT_ONCE: Final = 64
"""Requests to ZooKeeper in flight, a quarter of what a client allows itself."""
_LEDGERS_PER_BATCH: Final = 1_024
_PATH: Final = re.compile(r"(?!.*(?:^|/)\.{0,2}(?:/|$))[^\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]+")
"""Paths that ZooKeeper takes: without control characters, and without parts that are empty, "." or "..".

Tenants and namespaces are in paths as they are."""
DAMAGED_LISTED_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class SubscriptionNode:
    """A subscription, as its cursor's node was read."""

    topic: TopicName
    subscription: str
    version: int
    """Version of the node."""
    properties: tuple[BucketProperty, ...]
    """Its bucket properties, ascending by range; malformed ones come last."""
    damage: str = ""
    """Reason why the node does not decode; empty if it does."""


@dataclass(frozen=True, slots=True)
class BucketLedger:
    """A ledger whose custom metadata says that it has a snapshot of Pulsar's tracker."""

    ledger_id: int
    topic: str
    """Full name of the topic, as the writer gave it; empty if there is none."""
    subscription: str
    """Name of the subscription, decoded; empty if there is none."""
    bucket_key: str
    closed: bool
    """False while it is written, and if its writer was killed."""
    payload_bytes: int
    """0 unless closed."""

    @classmethod
    def of(cls, metadata: LedgerMetadata) -> "BucketLedger | None":
        """Return the bucket ledger with this metadata; None if it is any other ledger, one of our own storage included."""
        if not is_bucket(metadata):
            return None
        topic, subscription, bucket_key = (
            metadata.custom.get(key, b"").decode("utf-8", "replace") for key in (TOPIC, CURSOR, KEY)
        )
        return cls(metadata.ledger_id, topic, subscription, bucket_key, metadata.closed, max(0, metadata.payload_bytes))

    @property
    def owner(self) -> tuple[TopicName, str] | None:
        """Topic and subscription; None if their names are none, or no nodes can have them."""
        try:
            topic = TopicName.parse(self.topic)
            path = f"{topic.managed_ledger}/{encode_name(self.subscription, 'subscription')}"
        except InvalidInput:
            return None
        return (topic, self.subscription) if self.topic and _PATH.fullmatch(path) else None

    def belongs_to(self, topic: TopicName, subscription: str) -> bool:
        """Return True if it was written for this subscription."""
        return self.owner == (topic, subscription)


@dataclass(frozen=True, slots=True)
class ScannedLedgers:
    """Result of a read of all ledgers' metadata."""

    buckets: tuple[BucketLedger, ...]
    """Ascending by id."""
    ledger_count: int
    """Ledgers that were read."""
    damaged_count: int
    """Ledgers whose metadata does not decode, so that their owner is unknown."""
    damaged: tuple[int, ...]
    """Some of these ledgers, :data:`DAMAGED_LISTED_MAX` at most, ascending."""


class ClusterListing:
    """Reads the metadata of one cluster, and nothing else. Every method raises ZooKeeperUnavailable.

    Args:
        cluster: is connected.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._address = cluster.address
        self._client = cluster.client
        self._zookeeper = cluster.client.zookeeper
        self._root = cluster.address.managed_ledgers

    async def topics(self) -> list[TopicName]:
        """Return all topics that have ledgers of messages, ascending. One request for each namespace, or two."""
        found: list[TopicName] = []

        async def look(level: str) -> None:
            names = await self._children(f"{self._root}/{level}/persistent")
            topics = (TopicName.of_managed_ledger(f"{level}/persistent/{name}") for name in names)
            found.extend(topic for topic in topics if topic is not None and topic.holds_messages)

        levels = []
        for tenant in await self._children(self._root):
            for namespace in await self._children(f"{self._root}/{tenant}"):
                below = f"{tenant}/{namespace}"
                # Topics with a cluster in their names are one level further down.
                levels += [below, *(f"{below}/{child}" for child in await self._children(f"{self._root}/{below}"))]
        await for_each(levels, look, at_once=_AT_ONCE)
        return sorted(found)

    async def chosen_topics(self, topic: str | None) -> list[TopicName]:
        """Return the topic of a name, its partitions if it is partitioned, or all topics for None.

        Raises:
            InvalidInput: it is no topic's name.
            TopicNotFound: there is no such topic; the message has similar names.
        """
        if topic is None:
            return await self.topics()
        name = TopicName.parse(topic)
        if not _PATH.fullmatch(name.managed_ledger):
            raise InvalidInput("topic", topic, "no topic can have this name; give persistent://tenant/namespace/name")
        if await self._zookeeper.exists(self._address.topic_node(name)):
            return [name]
        known = await self.topics()
        partitions = [each for each in known if str(each).startswith(f"{name}-partition-") and each.partition >= 0]
        if partitions:
            return partitions
        near = similar_names(name, map(str, known))
        raise TopicNotFound(
            f"the cluster has no topic {name}; {_similar(near, len(known))}", metadata={"topic": str(name)}
        )

    async def subscriptions(
        self, topic: str | None = None, subscription: str | None = None, *, progress: Progress
    ) -> list[SubscriptionNode]:
        """Return the subscriptions that have bucket properties, or a node that does not decode, ascending.

        Args:
            topic: full name, of a partitioned topic as well; None for all topics.
            subscription: as users write it; None for all subscriptions.
            progress: called with topics.
        Raises:
            InvalidInput: a name is none.
            TopicNotFound: there is no such topic.
            SubscriptionNotFound: no chosen topic has the subscription.
        """
        topics = await self.chosen_topics(topic)
        found: list[SubscriptionNode] = []
        done = known = 0

        async def look(each: TopicName) -> None:
            nonlocal done, known
            names = [decode_name(child) for child in await self._children(self._address.topic_node(each))]
            chosen = [name for name in names if subscription in (None, name)]
            known += len(chosen)
            for name in chosen:
                node = await self.subscription(each, name)
                if node is not None and (node.properties or node.damage):
                    found.append(node)
            done += 1
            progress(done, len(topics))

        await for_each(topics, look, at_once=_AT_ONCE)
        if subscription is not None and not known:
            where = "the cluster" if topic is None else topic
            raise SubscriptionNotFound(
                f"{where} has no subscription {subscription!r}; give a subscription as `bin/pulsar-admin topics "
                "subscriptions TOPIC` lists it",
                metadata={"subscription": subscription},
            )
        return sorted(found, key=lambda node: (node.topic, node.subscription))

    async def subscription(
        self, topic: TopicName, subscription: str, *, newest: bool = False
    ) -> SubscriptionNode | None:
        """Return a subscription, with or without bucket properties; None if there is none.

        Args:
            topic: it belongs to.
            subscription: as users write it.
            newest: True for a node that is not older than any write that was acknowledged before.
        """
        path = self._address.cursor_node(topic, subscription)
        if newest:
            await self._zookeeper.sync(path)
        node = await self._zookeeper.get(path)
        if node is None:
            return None
        try:
            buckets = CursorNode.decode(node.value, f"{subscription!r} of {topic}").buckets
        except ClusterNodeInvalid as error:
            return SubscriptionNode(topic, subscription, node.version, (), damage=error.message)
        return SubscriptionNode(topic, subscription, node.version, tuple(sorted(buckets, key=_place)))

    async def has_cursor(self, topic: TopicName, subscription: str, *, newest: bool = False) -> bool:
        """Return True if a subscription's cursor has a node, whether it decodes or not.

        Args:
            topic: it belongs to.
            subscription: as users write it; of a name that no node can have there is no cursor.
            newest: True for what is not older than any write that was acknowledged before.
        """
        if not _PATH.fullmatch(f"{topic.managed_ledger}/{encode_name(subscription, 'subscription')}"):
            return False
        path = self._address.cursor_node(topic, subscription)
        if newest:
            await self._zookeeper.sync(path)
        return await self._zookeeper.exists(path)

    async def has_namespace(self, topic: TopicName) -> bool:
        """Return True if the metadata has the namespace of a topic: topics of it, or policies, global or of this cluster.

        Pulsar's nodes of topics are below containers, which ZooKeeper removes with the last topic; the policies stay.
        """
        name = f"{topic.tenant}/{topic.namespace}"
        if not _PATH.fullmatch(name):
            return False
        for path in (
            f"{self._root}/{name}/persistent",
            f"{self._address.policies}/{name}",
            f"{self._address.local_policies}/{name}",
        ):
            if await self._zookeeper.exists(path):
                return True
        return False

    async def scan_ledgers(
        self, topics: Iterable[TopicName] | None = None, subscription: str | None = None, *, progress: Progress
    ) -> ScannedLedgers:
        """Read the metadata of every ledger of the cluster, and return those of buckets.

        Args:
            topics: whose buckets are kept; None for all.
            subscription: whose buckets are kept; None for all.
            progress: called with ledgers; the total is what is known so far.
        Raises:
            TooManyBucketLedgers: more than :data:`BUCKET_LEDGERS_MAX` are to be kept.
        Cost: a request for each ledger of the cluster, 64 at a time.
        """
        wanted = None if topics is None else frozenset(topics)
        found: list[BucketLedger] = []
        damaged: list[int] = []
        count = damaged_count = 0

        async def read(ledger_id: int) -> None:
            nonlocal damaged_count
            try:
                ledger = BucketLedger.of(await self._client.metadata(ledger_id, newest=False))
            except LedgerNotFound:
                return
            except LedgerMetadataInvalid:
                damaged_count += 1
                if len(damaged) < DAMAGED_LISTED_MAX:
                    damaged.append(ledger_id)
                return
            if ledger is None or subscription not in (None, ledger.subscription):
                return
            if wanted is None or (ledger.owner is not None and ledger.owner[0] in wanted):
                found.append(ledger)

        async def read_all(batch: list[int]) -> None:
            nonlocal count
            await for_each(batch, read, at_once=_AT_ONCE)
            if len(found) > BUCKET_LEDGERS_MAX:
                raise TooManyBucketLedgers(
                    f"the cluster has more than {BUCKET_LEDGERS_MAX} ledgers of buckets; give --topic to look at one topic"
                )
            count += len(batch)
            progress(count, count)

        batch: list[int] = []
        async for ledger_id in self._client.ledger_ids():
            batch.append(ledger_id)
            if len(batch) == _LEDGERS_PER_BATCH:
                await read_all(batch)
                batch = []
        await read_all(batch)
        found.sort(key=lambda ledger: ledger.ledger_id)
        return ScannedLedgers(tuple(found), count, damaged_count, tuple(sorted(damaged)))

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._zookeeper.children(path)
        except NodeMissing:
            return []


def _similar(near: list[str], topic_count: int) -> str:
    return f"similar names: {', '.join(near)}" if near else f"it has {topic_count} topics"


def _place(found: BucketProperty) -> tuple[bool, tuple[int, int], str]:
    return found.ledgers is None, found.ledgers or (0, 0), found.name
