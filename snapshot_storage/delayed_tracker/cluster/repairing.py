"""Repairs what an inspection has found: removes properties that harm a subscription, and deletes ledgers without a property.

Nothing is lost: a broker replays what no bucket of a subscription has, as it does without any bucket. Properties are removed
as all changes of cursors are (``switch.py``), and always before their ledgers. A ledger is deleted in one step with checks of
these facts, all read after the inspection and in this order:

1. Its metadata says that it is a bucket's, and not one of our own storage.
2. No cursor of the cluster has a property for it.
3. The nodes of its topic and of its cursor have the versions that they had then; the cursor's is read once more.
4. No broker has its topic loaded. A broker that loads it later finds no property for the ledger, and new buckets have new
   ledgers.

A subscription whose node does not decode, and buckets whose bookies do not answer, are left as they are.
"""

import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing, LedgerUnreadable, NotOurs, Unauthorized
from delayed_tracker.bookkeeper.metadata.errors import (
    LedgerMetadataInvalid,
    LedgerNotFound,
    MetadataConflict,
    NodeChanged,
    NodeMissing,
)
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.metadata.zookeeper import Check
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.bucket_ledger import OF_BUCKETS, close_bucket_ledger, read_bucket_ledger
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import ClusterNodeInvalid, CursorChanged, TopicLoaded, TopicTerminated
from delayed_tracker.cluster.inspection import Fault, InspectedBucket, InspectedSubscription, Inspection
from delayed_tracker.cluster.listing import BucketLedger, ClusterListing
from delayed_tracker.cluster.loaded_topics import LoadedTopics, ask_loaded_topics
from delayed_tracker.cluster.publication.publishing import topic_ledgers
from delayed_tracker.cluster.switch import LOAD_S, NodeWrite, UnloadedTopic, require_not_loaded, write_cursor
from delayed_tracker.ledger.errors import SubscriptionNotFound, TopicNotFound
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.maintenance.working import Progress

_HARMFUL: Final = (
    Fault.PROPERTY_INVALID,
    Fault.LEDGER_MISSING,
    Fault.NOT_A_BUCKET,
    Fault.ANOTHER_OWNER,
    Fault.NOT_CLOSED,
    Fault.SNAPSHOT_DAMAGED,
)
"""Faults for which a property is removed, whatever else its subscription has."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Removal:
    """A property to remove."""

    topic: TopicName
    subscription: str
    property: BucketProperty
    fault: Fault


@dataclass(frozen=True, slots=True)
class Left:
    """A problem that is not repaired."""

    topic: str
    subscription: str
    bucket: str
    """Value of the property, or id of the ledger; empty for a subscription as a whole."""
    reason: str


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """Changes that repair what was found."""

    removals: list[Removal]
    """Those of one subscription follow each other."""
    orphans: list[BucketLedger]
    left: list[Left]

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to change."""
        return not self.removals and not self.orphans


@dataclass(frozen=True, slots=True)
class WrittenNode:
    """A cursor's node that was replaced."""

    path: str
    version: int
    """Version of the node that was replaced."""


@dataclass(slots=True)
class Repaired:
    """Result of a repair."""

    removed: list[Removal] = field(default_factory=list)
    nodes: list[WrittenNode] = field(default_factory=list)
    deleted_ledgers: list[int] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RepairOptions:
    """Ways of repairing."""

    record: ChangeRecord | None = None
    """Gets each change before it is made; None for no record."""
    load_s: float = LOAD_S
    """Longest time that a load of a topic takes."""
    report: Callable[[str], None] = lambda _: None
    """Called with a sentence about each change, and before a wait."""
    progress: Progress = lambda _done, _total: None
    """Called with the subscriptions and ledgers that are done, and all."""
    listed: Progress = lambda _done, _total: None
    """Called with topics while the properties are read again."""
    at_point: Callable[[str], None] = lambda _: None
    """Called with the name of a point that has been reached; tests stop there."""


def plan_repair(found: Inspection) -> RepairPlan:
    """Choose what is removed and deleted.

    Of ranges that share a ledger, those with the most messages stay; of equal ones, that which the ledger's metadata names.
    """
    plan = RepairPlan([], [each for each in found.orphans if each.owner is not None], [])
    for each in found.subscriptions:
        topic, name = str(each.topic), each.subscription
        if each.damage:
            plan.left.append(Left(topic, name, "", f"{each.damage}: only a copy of the node mends it"))
            continue
        for bucket in each.buckets:
            if bucket.has(Fault.UNREADABLE):
                plan.left.append(Left(topic, name, bucket.property.value, "its bookies do not answer: try again"))
        plan.removals.extend(_removals(each))
    plan.left.extend(
        Left(each.topic, each.subscription, str(each.ledger_id), "its metadata names no topic and subscription")
        for each in found.orphans
        if each.owner is None
    )
    return plan


def _removals(found: InspectedSubscription) -> list[Removal]:
    def removal(bucket: InspectedBucket, fault: Fault) -> Removal:
        return Removal(found.topic, found.subscription, bucket.property, fault)

    removals, others = [], []
    for bucket in found.buckets:
        fault = next((problem.fault for problem in bucket.problems if problem.fault in _HARMFUL), None)
        if fault is None:
            others.append(bucket)
        else:
            removals.append(removal(bucket, fault))
    if any(bucket.has(Fault.UNREADABLE) for bucket in others):
        # It is not known which of the ranges that share a ledger has more.
        return removals
    kept: list[tuple[int, int]] = []
    for bucket in sorted(others, key=_preference):
        ledgers = bucket.property.ledgers
        assert ledgers is not None, "a malformed property is harmful"
        if any(first <= ledgers[1] and ledgers[0] <= last for first, last in kept):
            removals.append(removal(bucket, Fault.RANGES_OVERLAP))
        else:
            kept.append(ledgers)
    return removals


def _preference(bucket: InspectedBucket) -> tuple[int, bool, str]:
    """Return the key by which buckets that may stay are sorted, the best first."""
    return -bucket.message_count, not bucket.has_own_key, bucket.property.name


async def repair(cluster: Cluster, plan: RepairPlan, options: RepairOptions | None = None) -> Repaired:
    """Make the changes of a plan. What cannot be changed now is listed, and the rest is done.

    Args:
        cluster: is connected.
        plan: of :func:`plan_repair`, for an inspection of a moment ago.
        options: ways of repairing.
    Raises:
        BrokerUnavailable: a broker does not say what it has loaded; what follows was not changed.
        BackupUnusable: the record cannot be written; what it does not have was not changed.
        ZooKeeperUnavailable: inspect again, and repair again.
    """
    return await _Repair(cluster, plan, options or RepairOptions()).run()


class _Repair:
    """One run."""

    def __init__(self, cluster: Cluster, plan: RepairPlan, options: RepairOptions) -> None:
        self._cluster = cluster
        self._plan = plan
        self._options = options
        self._result = Repaired(left=list(plan.left))
        self._done = 0

    async def run(self) -> Repaired:
        by_cursor: dict[tuple[TopicName, str], list[Removal]] = {}
        for removal in self._plan.removals:
            by_cursor.setdefault((removal.topic, removal.subscription), []).append(removal)
        self._total = len(by_cursor) + len(self._plan.orphans)
        unloaded = await self._unloaded(topic for topic, _ in by_cursor)
        for (topic, subscription), removals in by_cursor.items():
            if topic in unloaded:
                await self._remove(unloaded[topic], subscription, removals)
            self._step()
        self._options.at_point("properties.removed")
        if self._result.removed or self._plan.orphans:
            named = await self._named_ledgers()
            # A ledger that another property names as well is still in use.
            doomed = [
                ledger for ledger in await self._ledgers_of(self._result.removed) if ledger.ledger_id not in named
            ]
            self._total += len(doomed)
            await self._delete_all([*doomed, *self._plan.orphans], named)
        return self._result

    def _step(self) -> None:
        self._done += 1
        self._options.progress(self._done, self._total)

    # -- properties --------------------------------------------------------------------------------------------------

    async def _unloaded(self, topics: Iterable[TopicName]) -> dict[TopicName, UnloadedTopic]:
        """Return those of the topics whose cursors can be changed now; list the others."""
        waiting: list[TopicName] = []
        for topic in dict.fromkeys(topics):
            try:
                await topic_ledgers(self._cluster, topic)
                waiting.append(topic)
            except (TopicNotFound, TopicTerminated, ClusterNodeInvalid) as error:
                self._leave_topic(topic, error.message)
        if waiting:
            loaded = await ask_loaded_topics(self._cluster)
            for topic in [each for each in waiting if str(each) in loaded.broker_of]:
                self._leave_topic(topic, TopicLoaded(str(topic), loaded.broker_of[str(topic)]).message)
                waiting.remove(topic)
        while waiting:
            try:
                return await require_not_loaded(
                    self._cluster, waiting, load_s=self._options.load_s, report=self._options.report
                )
            except (TopicNotFound, TopicTerminated, TopicLoaded) as error:
                # Changed since a moment ago, which happens to few.
                (topic,) = [each for each in waiting if str(each) == error.metadata["topic"]]
                self._leave_topic(topic, error.message)
                waiting.remove(topic)
        return {}

    async def _remove(self, unloaded: UnloadedTopic, subscription: str, removals: Sequence[Removal]) -> None:
        """Remove properties of one cursor that it still has, in one step."""
        gone = {removal.property for removal in removals}
        removed: set[BucketProperty] = set()

        def change(node: CursorNode) -> CursorNode:
            removed.clear()
            removed.update(gone.intersection(node.buckets))
            return node.with_buckets([each for each in node.buckets if each not in gone])

        record = self._options.record

        def before(planned: NodeWrite) -> None:
            if record is not None:
                record.cursor(planned)
            self._options.at_point("cursor.recorded")

        def refused(planned: NodeWrite) -> None:
            if record is not None:
                record.refused(planned)

        try:
            write = await write_cursor(self._cluster, unloaded, subscription, change, before=before, refused=refused)
        except (TopicLoaded, CursorChanged, ClusterNodeInvalid, SubscriptionNotFound) as error:
            self._leave(removals, error.message)
            return
        if write is not None:
            self._result.nodes.append(WrittenNode(write.path, write.version))
            self._options.report(f"{write.path}: version {write.version} is now {write.version + 1}")
            self._options.at_point("cursor.written")
        self._result.removed += [removal for removal in removals if removal.property in removed]

    def _leave_topic(self, topic: TopicName, reason: str) -> None:
        self._leave([removal for removal in self._plan.removals if removal.topic == topic], reason)

    def _leave(self, removals: Iterable[Removal], reason: str) -> None:
        self._result.left += [
            Left(str(removal.topic), removal.subscription, removal.property.value, reason) for removal in removals
        ]

    # -- ledgers -----------------------------------------------------------------------------------------------------

    async def _ledgers_of(self, removals: Iterable[Removal]) -> list[BucketLedger]:
        """Return the ledgers of removed properties that are buckets of their subscriptions."""
        found: dict[int, BucketLedger] = {}
        for removal in removals:
            bucket_id = removal.property.bucket_id
            if bucket_id is None:
                continue
            try:
                ledger = BucketLedger.of(await self._cluster.client.metadata(bucket_id))
            except (LedgerNotFound, LedgerMetadataInvalid):
                continue
            if ledger is not None and ledger.belongs_to(removal.topic, removal.subscription):
                found[bucket_id] = ledger
        return list(found.values())

    async def _delete_all(self, ledgers: Sequence[BucketLedger], named: Collection[int]) -> None:
        """Delete ledgers to which no property points, of topics that are not loaded.

        Args:
            ledgers: whose metadata said that they are buckets'.
            named: ids of the ledgers of all properties, read a moment ago.
        """
        if not ledgers:
            return
        nodes = {ledger.ledger_id: await self._nodes_of(ledger) for ledger in ledgers}
        loaded = await ask_loaded_topics(self._cluster)
        for ledger in ledgers:
            checks = nodes[ledger.ledger_id]
            if isinstance(checks, str):
                self._leave_ledger(ledger, checks)
            elif ledger.ledger_id in named:
                self._leave_ledger(ledger, "a property points to it")
            else:
                await self._delete(ledger, checks, loaded)
            self._step()

    async def _named_ledgers(self) -> set[int]:
        """Return the ledgers of all properties of the cluster."""
        nodes = await ClusterListing(self._cluster).subscriptions(progress=self._options.listed)
        return {each.bucket_id for node in nodes for each in node.properties if each.bucket_id is not None}

    async def _nodes_of(self, ledger: BucketLedger) -> list[Check] | str:
        """Return checks that the nodes of a ledger's owner do not change from now on, or the reason to leave it."""
        assert ledger.owner is not None, "a ledger without an owner is not planned"
        topic, subscription = ledger.owner
        checks = []
        try:
            topic_node = await self._cluster.topic_node(topic)
            checks.append(Check(self._cluster.address.topic_node(topic), topic_node.version))
            node = await self._cluster.cursor_node(topic, subscription)
            checks.append(Check(self._cluster.address.cursor_node(topic, subscription), node.version))
            buckets = CursorNode.decode(node.value, f"cursor {subscription!r} of {topic}").buckets
        except (TopicNotFound, SubscriptionNotFound):
            # Deleted, and its ledgers were left.
            return checks
        except ClusterNodeInvalid as error:
            return error.message
        return "a property points to it" if ledger.ledger_id in {each.bucket_id for each in buckets} else checks

    async def _delete(self, ledger: BucketLedger, checks: Sequence[Check], loaded: LoadedTopics) -> None:
        """Record and delete a ledger, if it is still a bucket's, and its owner's nodes are as they were."""
        assert ledger.owner is not None
        topic = str(ledger.owner[0])
        broker = loaded.broker_of.get(topic)
        if broker is not None:
            self._leave_ledger(ledger, TopicLoaded(topic, broker).message)
            return
        client, ledger_id = self._cluster.client, ledger.ledger_id
        try:
            metadata = await client.metadata(ledger_id)
            if BucketLedger.of(metadata) is None:
                self._leave_ledger(ledger, "its metadata does not say any more that it is a bucket's")
                return
            if self._options.record is not None and (reason := await close_bucket_ledger(self._cluster, metadata)):
                self._leave_ledger(ledger, reason)
                return
            await self._record(metadata)
            self._options.at_point("ledger.recorded")
            await client.delete(ledger_id, require=OF_BUCKETS, also=checks)
        except LedgerNotFound:
            return
        except (NodeChanged, NodeMissing):
            self._leave_ledger(ledger, "the topic or its subscription was changed meanwhile: inspect it again")
            return
        except (NotOurs, Unauthorized, LedgerMetadataInvalid, LedgerUnreadable, MetadataConflict) as error:
            self._leave_ledger(ledger, error.message)
            return
        _LOG.info("ledger %d: deleted", ledger_id)
        self._options.report(f"ledger {ledger_id}: deleted")
        self._result.deleted_ledgers.append(ledger_id)
        self._options.at_point("ledger.deleted")

    async def _record(self, metadata: LedgerMetadata) -> None:
        """Record a ledger with its entries; without them if some are lost, since it cannot be restored then."""
        record = self._options.record
        if record is None:
            return
        try:
            # Before anything of it is in the record.
            async for _ in read_bucket_ledger(self._cluster, metadata.ledger_id):
                pass
            entries = read_bucket_ledger(self._cluster, metadata.ledger_id)
        except (EntryMissing, DigestMismatch):
            entries = _no_entries()
        await record.deleted(metadata, entries)

    def _leave_ledger(self, ledger: BucketLedger, reason: str) -> None:
        self._result.left.append(Left(ledger.topic, ledger.subscription, str(ledger.ledger_id), reason))


async def _no_entries() -> AsyncIterator[bytes]:
    for entry in list[bytes]():
        yield entry
