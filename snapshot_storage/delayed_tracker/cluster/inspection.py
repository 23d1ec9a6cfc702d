"""Inspects the buckets of a live cluster: each property with its ledger, each ledger with its property, and every snapshot.

Nothing is changed and no ledger is fenced, so brokers may work meanwhile. What they change between two reads would look like
damage: a merge deletes a ledger before its property, a seal closes a ledger before it sets the property. So whatever looks
wrong is read again at the end, and counts only if it still is so.
"""

import enum
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from delayed_tracker.bookkeeper.errors import (
    BookieUnavailable,
    DigestMismatch,
    EntryMissing,
    LedgerUnreadable,
    TooManyInFlight,
    Unauthorized,
)
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.cluster.listing import BucketLedger, ClusterListing, SubscriptionNode
from delayed_tracker.cluster.snapshot_ledger import SnapshotLedger
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.verification import Verdict, verify_segments
from delayed_tracker.storage.maintenance.working import Progress

BUCKETS_AT_ONCE: Final = 4
"""Snapshots that are read at a time. Each has one read in memory: 50,000 indexes or one segment."""
PROBLEMS_PER_BUCKET_MAX: Final = 8
"""Problems of one bucket that are kept."""


class Fault(enum.Enum):
    """Kinds of problems; :mod:`delayed_tracker.cluster.repairing` says what mends each."""

    CURSOR_DAMAGED = "cursor damaged"
    """The cursor's node does not decode. Only its owner can restore it."""
    PROPERTY_INVALID = "property invalid"
    """Key or value of a property is malformed: the broker gives up all buckets of the subscription."""
    LEDGER_MISSING = "ledger missing"
    """A property points to no ledger: the subscription falls back to memory, and cannot be deleted while it has no consumer."""
    NOT_A_BUCKET = "not a bucket"
    """A property points to a ledger whose metadata does not say that it is a bucket's."""
    ANOTHER_OWNER = "another owner"
    """A property points to the bucket of another subscription, which deletes it once it has drained it."""
    NOT_CLOSED = "not closed"
    """A property points to a ledger that its writer has not closed."""
    SNAPSHOT_DAMAGED = "snapshot damaged"
    """The snapshot does not decode, contradicts itself or its range, or entries of it are lost or damaged in all copies."""
    RANGES_OVERLAP = "ranges overlap"
    """Two buckets share a message ledger: the broker deletes a snapshot that it still lists, and merges fail."""
    ORPHAN = "orphan"
    """A bucket's ledger has no property, so nobody reads or deletes it."""
    UNREADABLE = "unreadable"
    """Bookies do not answer now, so nothing is known. Nothing is repaired."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    fault: Fault
    text: str
    """One sentence."""


@dataclass(slots=True)
class InspectedBucket:
    """One bucket property and its snapshot."""

    property: BucketProperty
    message_count: int = 0
    """Messages in the snapshot, acknowledged ones included."""
    segment_count: int = 0
    byte_count: int = 0
    """Payload bytes that were read."""
    due_count: int = 0
    """Messages whose deadline has passed."""
    first_deadline_ms: int | None = None
    """None if there are no messages, or the metadata does not decode."""
    last_deadline_ms: int | None = None
    has_own_key: bool = False
    """True if the ledger's metadata names the same range as the property, as a broker writes both."""
    problems: list[Problem] = field(default_factory=list)

    def add(self, fault: Fault, text: str) -> None:
        """Add a problem; those above :data:`PROBLEMS_PER_BUCKET_MAX` are dropped."""
        if len(self.problems) < PROBLEMS_PER_BUCKET_MAX:
            self.problems.append(Problem(fault, text))

    def has(self, *faults: Fault) -> bool:
        """Return True if it has a problem of one of these kinds."""
        return any(problem.fault in faults for problem in self.problems)


@dataclass(slots=True)
class InspectedSubscription:
    """A subscription with buckets."""

    topic: TopicName
    subscription: str
    buckets: list[InspectedBucket]
    """Ascending by range."""
    damage: str = ""
    """Reason why the cursor's node does not decode; empty if it does."""

    @classmethod
    def of(cls, node: SubscriptionNode) -> "InspectedSubscription":
        """Return a subscription whose snapshots are to be read."""
        buckets = [InspectedBucket(found) for found in node.properties]
        return cls(node.topic, node.subscription, buckets, node.damage)

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong."""
        return not self.damage and not any(bucket.problems for bucket in self.buckets)


@dataclass(frozen=True, slots=True)
class Inspection:
    """Findings about a cluster, or the chosen part of it."""

    subscriptions: list[InspectedSubscription]
    orphans: list[BucketLedger]
    """Ledgers of buckets without a property, ascending."""
    ledger_count: int
    """Ledgers whose metadata was read to find orphans; 0 if none was looked for."""
    damaged_ledger_count: int
    """Ledgers whose metadata does not decode, so that they may be anything. They are not counted as a problem of buckets."""

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong."""
        return not self.orphans and all(subscription.is_sound for subscription in self.subscriptions)

    def problems(self) -> Iterator[tuple[InspectedSubscription, InspectedBucket | None, Problem]]:
        """Yield the problems of subscriptions and their buckets; orphans are apart."""
        for subscription in self.subscriptions:
            if subscription.damage:
                yield subscription, None, Problem(Fault.CURSOR_DAMAGED, subscription.damage)
            for bucket in subscription.buckets:
                for problem in bucket.problems:
                    yield subscription, bucket, problem


class BucketInspector:
    """Inspects buckets of one cluster.

    Args:
        cluster: is connected.
        now_ms: time by which messages are due, in milliseconds since 1970.
    """

    def __init__(self, cluster: Cluster, *, now_ms: int) -> None:
        self._client = cluster.client
        self._throttle = cluster.throttle
        self._listing = ClusterListing(cluster)
        self._now_ms = now_ms

    async def inspect(
        self,
        topic: str | None = None,
        subscription: str | None = None,
        *,
        orphans: bool = True,
        listed: Progress,
        read: Progress,
        scanned: Progress,
    ) -> Inspection:
        """Read all buckets of the chosen subscriptions, and look for ledgers of theirs without a property.

        Args:
            topic: full name, of a partitioned topic as well; None for all topics.
            subscription: as users write it; None for all.
            orphans: True to read the metadata of every ledger of the cluster for ledgers without a property.
            listed: called with topics.
            read: called with buckets.
            scanned: called with ledgers.
        Raises:
            TopicNotFound, SubscriptionNotFound, InvalidInput: of the names.
            TooManyBucketLedgers: choose one topic.
            ZooKeeperUnavailable: try again.
        """
        # Ledgers first: one whose property is set meanwhile is no orphan, and what is made later is not looked at.
        scan = None
        if orphans:
            topics = None if topic is None else await self._listing.chosen_topics(topic)
            scan = await self._listing.scan_ledgers(topics, subscription, progress=scanned)
        nodes = await self._listing.subscriptions(topic, subscription, progress=listed)
        inspected = [InspectedSubscription.of(node) for node in nodes]
        await self._read_all(inspected, read)
        inspected = [seen for each in inspected if (seen := await self._seen_again(each)) is not None]
        if scan is None:
            return Inspection(inspected, [], 0, 0)
        found = await self._orphans(scan.buckets, inspected)
        return Inspection(inspected, found, scan.ledger_count, scan.damaged_count)

    async def _read_all(self, inspected: Sequence[InspectedSubscription], read: Progress) -> None:
        todo = [(each, bucket) for each in inspected for bucket in each.buckets]
        done = 0

        async def look(one: tuple[InspectedSubscription, InspectedBucket]) -> None:
            nonlocal done
            await self._read(*one)
            done += 1
            read(done, len(todo))

        await for_each(todo, look, at_once=BUCKETS_AT_ONCE)

    async def _read(self, owner: InspectedSubscription, bucket: InspectedBucket) -> None:
        """Read one snapshot, and note the numbers and the problems."""
        named = bucket.property
        if named.ledgers is None or named.bucket_id is None:
            bucket.add(Fault.PROPERTY_INVALID, f"{named.name!r} = {named.value!r} names no range and ledger.")
            return
        try:
            reader = await self._client.open(named.bucket_id)
            ledger = BucketLedger.of(reader.metadata)
            if not _is_own(bucket, owner, ledger):
                return
            bucket.has_own_key = ledger is not None and ledger.bucket_key == named.name
            if not reader.metadata.closed:
                bucket.add(Fault.NOT_CLOSED, "Its writer has not closed the ledger.")
            await self._verify(
                bucket, named.ledgers, SnapshotLedger(reader, now_ms=self._now_ms, throttle=self._throttle)
            )
        except LedgerNotFound:
            bucket.add(Fault.LEDGER_MISSING, f"There is no ledger {named.bucket_id}.")
        except (SnapshotCorrupt, SnapshotNotFound, EntryMissing, DigestMismatch, LedgerMetadataInvalid) as error:
            bucket.add(Fault.SNAPSHOT_DAMAGED, f"{error.message}.")
        except Unauthorized:
            bucket.add(Fault.SNAPSHOT_DAMAGED, "The ledger has a password, and a broker opens it without one.")
        except (LedgerUnreadable, BookieUnavailable, TooManyInFlight) as error:
            bucket.add(Fault.UNREADABLE, f"{error.message}.")

    async def _verify(self, bucket: InspectedBucket, ledgers: tuple[int, int], snapshot: SnapshotLedger) -> None:
        """Read all segments, and compare them with the metadata and the range of the property."""
        entry = await snapshot.metadata_entry()
        metadata = await snapshot.metadata()
        bounds = metadata.bounds
        if len(bounds):
            bucket.first_deadline_ms = int(bounds.min_deliver_at_ms.min())
            bucket.last_deadline_ms = int(bounds.max_deliver_at_ms.max())
        verdict = Verdict(snapshot.reader.ledger_id)
        try:
            held = await verify_segments(snapshot, metadata, verdict)
        finally:
            bucket.message_count, bucket.segment_count = verdict.index_count, verdict.segment_count
            bucket.due_count, bucket.byte_count = snapshot.due_count, verdict.byte_count + len(entry)
        lowest, highest = held.first(), held.last()
        first, last = ledgers
        inside = lowest is None or highest is None or first <= lowest.ledger_id <= highest.ledger_id <= last
        verdict.expect(
            inside, f"Its positions {lowest} to {highest} leave the ledgers {first} to {last} of its property."
        )
        count = snapshot.reader.last_confirmed
        verdict.expect(count == len(bounds), f"The ledger has {count} segments where the metadata has {len(bounds)}.")
        for problem in verdict.problems:
            bucket.add(Fault.SNAPSHOT_DAMAGED, problem)

    async def _seen_again(self, inspected: InspectedSubscription) -> InspectedSubscription | None:
        """Return a subscription without what is gone meanwhile; None if it is gone itself."""
        _note_overlaps(inspected.buckets)
        if inspected.is_sound:
            return inspected
        node = await self._listing.subscription(inspected.topic, inspected.subscription, newest=True)
        if node is None:
            return None
        inspected.damage = node.damage
        if not node.damage:
            present = frozenset(node.properties)
            inspected.buckets = [bucket for bucket in inspected.buckets if bucket.property in present]
        _note_overlaps(inspected.buckets)
        return inspected

    async def _orphans(
        self, scanned: Iterable[BucketLedger], inspected: Iterable[InspectedSubscription]
    ) -> list[BucketLedger]:
        """Return the ledgers that exist and to which no property points, neither before nor now."""
        named = {bucket.property.bucket_id for each in inspected for bucket in each.buckets}
        found: list[BucketLedger] = []

        async def look(ledger: BucketLedger) -> None:
            if ledger.ledger_id not in named and await self.is_orphan(ledger):
                found.append(ledger)

        await for_each(scanned, look, at_once=BUCKETS_AT_ONCE)
        return sorted(found, key=lambda ledger: ledger.ledger_id)

    async def is_orphan(self, ledger: BucketLedger) -> bool:
        """Return True if the ledger still exists, and its subscription has no property for it. Raises ZooKeeperUnavailable."""
        owner = ledger.owner
        if owner is not None:
            node = await self._listing.subscription(*owner, newest=True)
            # A node that does not decode may have any property.
            if node is not None and (node.damage or ledger.ledger_id in {each.bucket_id for each in node.properties}):
                return False
        try:
            await self._client.metadata(ledger.ledger_id)
        except LedgerNotFound:
            return False
        return True


def _is_own(bucket: InspectedBucket, owner: InspectedSubscription, ledger: BucketLedger | None) -> bool:
    """Return True if a ledger is a bucket's of this subscription; else note what it is."""
    if ledger is None:
        bucket.add(Fault.NOT_A_BUCKET, "The metadata of the ledger does not say that it is a bucket's.")
    elif not ledger.belongs_to(owner.topic, owner.subscription):
        bucket.add(Fault.ANOTHER_OWNER, f"The ledger belongs to {ledger.subscription!r} of {ledger.topic!r}.")
    else:
        return True
    return False


def _note_overlaps(buckets: Iterable[InspectedBucket]) -> None:
    """Note which buckets share a message ledger with another one, in the place of what was noted before.

    O(n log n): of ranges in ascending order, one that overlaps any earlier one overlaps the one that reaches furthest.
    """
    furthest: tuple[int, InspectedBucket] | None = None
    for bucket in buckets:
        bucket.problems = [problem for problem in bucket.problems if problem.fault is not Fault.RANGES_OVERLAP]
    for bucket in buckets:
        ledgers = bucket.property.ledgers
        if ledgers is None:
            continue
        if furthest is not None and ledgers[0] <= furthest[0]:
            for one, other in ((bucket, furthest[1]), (furthest[1], bucket)):
                if not one.has(Fault.RANGES_OVERLAP):
                    one.add(Fault.RANGES_OVERLAP, f"It shares message ledgers with {other.property.name!r}.")
        if furthest is None or ledgers[1] > furthest[0]:
            furthest = ledgers[1], bucket
