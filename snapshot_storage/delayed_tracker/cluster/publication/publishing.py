"""Publishes the buckets of a snapshot storage as those of a broker's subscriptions.

    storage -> positions that count -> ranges of whole ledgers -> a ledger of each -> properties of the cursor, at once

The ledgers of some topics are written first, while brokers may have the topics loaded. Then no broker may have them, and
each cursor's properties are replaced in one step (``switch.py``). Last, the ledgers of the old properties are deleted.
A process that is killed leaves the old buckets or the new ones, and ledgers without a property, which ``pulsar inspect``
finds and ``pulsar repair`` deletes. What a bucket lacks the broker replays, as always.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.bookkeeper.errors import BookKeeperError
from delayed_tracker.bookkeeper.metadata.errors import RequestTooLarge
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.bucket_ledger import (
    bucket_metadata,
    create_bucket_ledger,
    delete_bucket_ledger,
    ledger_form,
)
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.cursor_state import read_cursor_state
from delayed_tracker.cluster.errors import ClusterError, ClusterNodeInvalid, TopicTerminated
from delayed_tracker.cluster.publication.bucket_switch import (
    CursorSwitches,
    PublicationOptions,
    PublishedSubscription,
    delete_old_ledgers,
)
from delayed_tracker.cluster.publication.ledger_ranges import LedgerRange, SourceBucket, plan_ranges, surviving_buckets
from delayed_tracker.cluster.publication.range_snapshot import SegmentLimits, entries_of, make_snapshots
from delayed_tracker.cluster.switch import require_not_loaded
from delayed_tracker.core.rules.recovery import RecoverableBucket
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.errors import LedgerError, MetadataInvalid
from delayed_tracker.ledger.metadata.managed_ledger import ManagedLedger, parse_managed_ledger
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.codec.codec import codec_of, decode_metadata
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.maintenance.working import Progress
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore

TOPICS_AT_ONCE: Final = 64
"""Topics whose ledgers are written before their cursors are switched: brokers are asked once for all of them."""


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionPlan:
    """Buckets of one subscription to publish."""

    topic: TopicName
    subscription: str
    managed_ledger: ManagedLedger
    sources: Sequence[SourceBucket]
    ranges: Sequence[LedgerRange]
    old: tuple[BucketProperty, ...]
    """Bucket properties that the cursor had when it was read."""

    @property
    def index_count(self) -> int:
        """Positions in all ranges."""
        return sum(one.index_count for one in self.ranges)


async def plan_subscription(
    cluster: Cluster, storage: SnapshotStore, tracker: tuple[str, str], limits: TrackerLimits
) -> SubscriptionPlan:
    """Read a tracker's catalogue and its cursor, and plan its buckets.

    Args:
        cluster: is connected.
        storage: is started; nothing in it is changed.
        tracker: topic and subscription.
        limits: of the broker's buckets.
    Raises:
        TopicNotFound, SubscriptionNotFound: the cluster does not have it.
        TopicTerminated: its cursors cannot be changed safely.
        InvalidInput: the storage has positions of ledgers that the topic does not have, or columnar snapshots.
        SnapshotCorrupt, SnapshotNotFound: something of the storage cannot be read.
        ClusterNodeInvalid: a node is damaged.
        StorageUnavailable, BookKeeperError: try again.
    """
    topic, subscription = TopicName.parse(tracker[0]), tracker[1]
    managed_ledger = await topic_ledgers(cluster, topic)
    name = f"cursor {subscription!r} of {topic}"
    node = CursorNode.decode((await cluster.cursor_node(topic, subscription)).value, name)
    cursor = await read_cursor_state(cluster, node, managed_ledger, name=name)
    state = await storage.list(*tracker)
    if state.corrupt:
        raise SnapshotCorrupt(
            f"the catalogue of {subscription!r} of {topic} has damaged entries; run `delayed-tracker storage check --repair` "
            "on the storage"
        )
    buckets = [await _recoverable(storage, entry) for entry in state.entries]
    mark_delete = max(cursor.mark_delete, state.mark_delete_in_force)
    sources = surviving_buckets(buckets, mark_delete=mark_delete, acked=cursor.acked)
    sources = _of_topic(sources, managed_ledger, topic)
    ranges = plan_ranges(sources, index_count_min=limits.min_index_count_per_bucket)
    return SubscriptionPlan(topic, subscription, managed_ledger, sources, ranges, node.buckets)


async def publish(
    cluster: Cluster,
    storage: SnapshotStore,
    plans: Sequence[SubscriptionPlan],
    limits: TrackerLimits,
    *,
    options: PublicationOptions,
    progress: Progress,
) -> list[PublishedSubscription]:
    """Publish planned subscriptions, those of some topics at a time.

    Args:
        cluster: is connected.
        storage: has the snapshots; is started.
        plans: those without ranges are left as they are.
        limits: of the broker's segments.
        options: ways of publishing.
        progress: called with the indexes that are written, and all.
    Raises:
        TopicLoaded, BrokerUnavailable, CursorChanged: nothing of that subscription was changed, and its new ledgers are
            deleted; subscriptions before it stay published.
        SnapshotTooLarge: the messages of one ledger fit no snapshot.
        SnapshotCorrupt, SnapshotNotFound: the storage was changed meanwhile, or is damaged.
        StorageUnavailable, BookKeeperError: publish again. Ledgers may be left, which ``pulsar repair`` finds.
        BackupUnusable: the record cannot be written; what it does not have was not changed.
    """
    published: list[PublishedSubscription] = []
    waiting = [plan for plan in plans if plan.ranges]
    total, done = sum(plan.index_count for plan in waiting), 0

    def written(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    for group in _groups(waiting):
        writer = _GroupWriter(cluster, storage, limits, options)
        try:
            if not options.wait_s:
                # Refused now, before anything is written, rather than at the switch.
                await require_not_loaded(cluster, [plan.topic for plan in group], load_s=0)
            for plan in group:
                await writer.write(plan, written)
            options.at_point("ledgers.written")
            switches = CursorSwitches(cluster, [plan.topic for plan in group], options)
            for plan in group:
                published += [await writer.switch(plan, switches)]
        finally:
            await writer.discard()
    return published


async def topic_ledgers(cluster: Cluster, topic: TopicName) -> ManagedLedger:
    """Return the ledgers of a topic whose cursors can be changed.

    Raises:
        TopicNotFound: the cluster does not have it.
        TopicTerminated: it is terminated.
        ClusterNodeInvalid: its node is damaged.
    """
    try:
        managed_ledger = parse_managed_ledger((await cluster.topic_node(topic)).value)
    except MetadataInvalid as error:
        raise ClusterNodeInvalid(f"the node of {topic} does not decode: {error.message}") from error
    if managed_ledger.terminated_at is not None:
        raise TopicTerminated(str(topic))
    return managed_ledger


class _GroupWriter:
    """Ledgers of some subscriptions, of which those without a property are deleted at the end."""

    def __init__(
        self, cluster: Cluster, storage: SnapshotStore, limits: TrackerLimits, options: PublicationOptions
    ) -> None:
        self._cluster = cluster
        self._storage = storage
        self._options = options
        self._limits = SegmentLimits(
            limits.max_step_per_segment_ms, limits.max_indexes_per_segment, cluster.client.payload_bytes_max
        )
        self._written: dict[tuple[TopicName, str], list[BucketProperty]] = {}

    async def write(self, plan: SubscriptionPlan, progress: Callable[[int], None]) -> None:
        """Write the ledgers of one subscription."""
        buckets = self._written[plan.topic, plan.subscription] = []
        form = await ledger_form(self._cluster, plan.managed_ledger)
        for wanted in plan.ranges:
            for snapshot in await make_snapshots(self._storage, plan.sources, wanted, self._limits):
                first, last = snapshot.range.first_ledger, snapshot.range.last_ledger
                ledger_id = await create_bucket_ledger(
                    self._cluster,
                    form,
                    bucket_metadata(plan.topic, plan.subscription, first, last),
                    entries_of(self._storage, plan.sources, snapshot, self._limits),
                )
                buckets.append(BucketProperty.of(first, last, ledger_id))
                self._options.report(f"ledger {ledger_id}: created for ledgers {first} to {last} of {plan.topic}")
                self._options.at_point("ledger.created")
                if self._options.record is not None:
                    self._options.record.created(plan.topic, plan.subscription, ledger_id)
                progress(snapshot.range.index_count)

    async def switch(self, plan: SubscriptionPlan, switches: CursorSwitches) -> PublishedSubscription:
        """Replace the properties of one subscription by those of its ledgers, and delete the old ledgers."""
        buckets = self._written.pop((plan.topic, plan.subscription))
        result = PublishedSubscription(plan.topic, plan.subscription, plan.index_count, tuple(buckets))
        try:
            write, old = await switches.switch(plan.topic, plan.subscription, buckets)
        except (ClusterError, LedgerError, RequestTooLarge):
            # Certainly not written. After any other failure the properties may name the ledgers, and they stay.
            self._written[plan.topic, plan.subscription] = buckets
            raise
        assert write is not None, "new ledgers have new ids"
        result.path, result.version = write.path, write.version
        await delete_old_ledgers(self._cluster, result, old, self._options)
        return result

    async def discard(self) -> None:
        """Delete the ledgers that no property names. What cannot be deleted now is found by ``pulsar repair``."""
        for buckets in self._written.values():
            for bucket in buckets:
                assert bucket.bucket_id is not None
                try:
                    await delete_bucket_ledger(self._cluster, bucket.bucket_id)
                except BookKeeperError as error:
                    self._options.report(f"ledger {bucket.bucket_id}: not deleted ({error.message})")


async def _recoverable(storage: SnapshotStore, entry: CatalogueEntry) -> RecoverableBucket:
    """Return an entry of the catalogue with the positions that its snapshot has."""
    stored = await storage.get_bucket_snapshot_metadata(entry.bucket_id)
    codec = codec_of(stored)
    if codec is not SnapshotCodec.PULSAR:
        # What is published stays readable for Pulsar in every step; the conversion is a copy, which is verified.
        raise InvalidInput(
            "--from",
            f"bucket {entry.bucket_id}",
            f"its snapshot has the {codec} codec, which Pulsar cannot read; set snapshotCodec=pulsar, stop the service, copy "
            "the storage with `delayed-tracker storage copy --pulsar-codec`, and publish from the copy",
        )
    metadata = decode_metadata(stored)
    bits = metadata.positions()
    try:
        consumed = PositionBitmap.deserialize(entry.consumed)
    except InvalidInput as error:
        raise SnapshotCorrupt(
            f"bucket {entry.bucket_id}: its consumed positions do not decode; run `delayed-tracker storage check --repair`"
        ) from error
    return RecoverableBucket(
        entry.bucket_id,
        entry.first,
        entry.last,
        SegmentGroups.of(metadata.bounds),
        bits=bits,
        consumed=consumed,
        seal_number=entry.seal_number,
        is_foreign=entry.seal_number is None,
    )


def _of_topic(sources: Sequence[SourceBucket], managed_ledger: ManagedLedger, topic: TopicName) -> list[SourceBucket]:
    """Return the buckets without positions of ledgers that were trimmed; refuse those of ledgers that never were the topic's."""
    known = {ledger.ledger_id for ledger in managed_ledger.ledgers}
    lowest = min(known, default=None)
    found = []
    for source in sources:
        bitmaps = {}
        for ledger, bitmap in source.bits.bitmaps():
            if ledger in known:
                bitmaps[ledger] = bitmap
            elif lowest is None or ledger > lowest:
                raise InvalidInput(
                    "--from",
                    f"bucket {source.bucket_id}",
                    f"{topic} has no ledger {ledger}; give the storage of its cluster",
                )
        if bitmaps:
            found.append(SourceBucket(source.bucket_id, source.groups, PositionBitmap.from_bitmaps(bitmaps)))
    return found


def _groups(plans: Sequence[SubscriptionPlan]) -> Iterator[list[SubscriptionPlan]]:
    """Yield the plans of some topics at a time; those of one topic are together."""
    by_topic: dict[TopicName, list[SubscriptionPlan]] = {}
    for plan in plans:
        by_topic.setdefault(plan.topic, []).append(plan)
    topics = list(by_topic.values())
    for start in range(0, len(topics), TOPICS_AT_ONCE):
        yield [plan for of_topic in topics[start : start + TOPICS_AT_ONCE] for plan in of_topic]
