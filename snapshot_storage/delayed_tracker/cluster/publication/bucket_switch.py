"""Replaces the bucket properties of cursors by those of new ledgers, and deletes the ledgers of the old ones.

A cursor is switched as ``switch.py`` says, once no broker has its topic loaded; the new ledgers must be there at that moment.
Old ledgers are deleted only after no property names them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing, LedgerUnreadable, Unauthorized
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.bucket_ledger import (
    close_bucket_ledger,
    delete_bucket_ledger,
    is_bucket_of,
    read_bucket_ledger,
)
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import CursorChanged, TopicLoaded
from delayed_tracker.cluster.switch import LOAD_S, NodeWrite, UnloadedTopic, wait_until_not_loaded, write_cursor
from delayed_tracker.ledger.topic_name import TopicName


@dataclass(slots=True)
class PublishedSubscription:
    """Result for one subscription."""

    topic: TopicName
    subscription: str
    index_count: int
    buckets: tuple[BucketProperty, ...]
    """The properties of the new ledgers."""
    path: str = ""
    """Node of the cursor."""
    version: int = 0
    """Version of the node that was replaced."""
    deleted_ledgers: list[int] = field(default_factory=list)
    """Ledgers of old properties that were deleted."""
    left_ledgers: list[int] = field(default_factory=list)
    """Ledgers of old properties that stay: they are of another subscription, or cannot be recorded whole."""


@dataclass(frozen=True, slots=True)
class PublicationOptions:
    """Ways of publishing."""

    record: ChangeRecord | None = None
    """Gets each change before it is made; None for no record."""
    load_s: float = LOAD_S
    """Longest time that a load of a topic takes."""
    wait_s: float = 0.0
    """Longest time to wait until no broker has the topics of a group loaded."""
    report: Callable[[str], None] = lambda _: None
    """Called with a sentence about each write of a node, and before a wait."""
    at_point: Callable[[str], None] = lambda _: None
    """Called with the name of a point that has been reached; tests stop there."""


class CursorSwitches:
    """Switches the cursors of some topics while no broker has them loaded; waits for that as long as the options say.

    Args:
        cluster: is connected.
        topics: of the cursors; brokers are asked once for all of them.
        options: ways of publishing.
    """

    def __init__(self, cluster: Cluster, topics: Sequence[TopicName], options: PublicationOptions) -> None:
        self._cluster = cluster
        self._topics = topics
        self._options = options
        self._until = time.monotonic() + options.wait_s
        self._unloaded: dict[TopicName, UnloadedTopic] = {}

    async def switch(
        self, topic: TopicName, subscription: str, buckets: Sequence[BucketProperty]
    ) -> tuple[NodeWrite | None, tuple[BucketProperty, ...]]:
        """Replace all bucket properties of a cursor; return the write, and the properties that it had.

        Raises:
            TopicLoaded, TopicTerminated, BrokerUnavailable: as ``require_not_loaded``.
            CursorChanged, SubscriptionNotFound, RequestTooLarge, ZooKeeperUnavailable: as ``write_cursor``.
            BackupUnusable: the record cannot be written.
        """
        while True:
            if topic not in self._unloaded:
                # All of them the first time; then those that a broker has loaded meanwhile.
                asked = [topic] if self._unloaded else self._topics
                self._unloaded |= await wait_until_not_loaded(
                    self._cluster,
                    asked,
                    until=self._until,
                    load_s=self._options.load_s,
                    report=self._options.report,
                )
                self._options.at_point("topics.checked")
            try:
                return await _switch_buckets(self._cluster, self._unloaded[topic], subscription, buckets, self._options)
            except TopicLoaded:
                del self._unloaded[topic]
                if time.monotonic() >= self._until:
                    raise


async def _switch_buckets(
    cluster: Cluster,
    unloaded: UnloadedTopic,
    subscription: str,
    buckets: Sequence[BucketProperty],
    options: PublicationOptions,
) -> tuple[NodeWrite | None, tuple[BucketProperty, ...]]:
    old: list[tuple[BucketProperty, ...]] = []

    def change(node: CursorNode) -> CursorNode:
        old[:] = [node.buckets]
        return node.with_buckets(buckets)

    def before(write: NodeWrite) -> None:
        if options.record is not None:
            options.record.cursor(write)
        options.at_point("cursor.recorded")

    def refused(write: NodeWrite) -> None:
        if options.record is not None:
            options.record.refused(write)

    # A repair that runs beside this takes new ledgers for orphans until the properties name them.
    try:
        also = [await cluster.client.unchanged(bucket.bucket_id) for bucket in buckets if bucket.bucket_id is not None]
    except LedgerNotFound as error:
        raise CursorChanged(
            f"a new bucket ledger of cursor {subscription!r} of {unloaded.topic} was deleted ({error.message}); end the repair "
            "that runs beside this, and run the command again"
        ) from error
    write = await write_cursor(cluster, unloaded, subscription, change, before=before, refused=refused, also=also)
    if write is not None:
        options.report(f"{write.path}: version {write.version} is now {write.version + 1}")
    options.at_point("cursor.switched")
    return write, old[0]


async def delete_old_ledgers(
    cluster: Cluster, result: PublishedSubscription, old: Sequence[BucketProperty], options: PublicationOptions
) -> None:
    """Delete the ledgers of properties that a cursor had, after they are recorded; note in the result which.

    Raises:
        BookKeeperError: what is left is found by ``pulsar repair``.
        BackupUnusable: the record cannot be written.
    """
    kept = {bucket.bucket_id for bucket in result.buckets}
    for ledger_id in dict.fromkeys(bucket.bucket_id for bucket in old):
        if ledger_id is None or ledger_id in kept:
            continue
        try:
            metadata = await cluster.client.metadata(ledger_id)
        except LedgerNotFound:
            continue
        except LedgerMetadataInvalid:
            result.left_ledgers.append(ledger_id)
            continue
        is_own = is_bucket_of(metadata, result.topic, result.subscription)
        if not is_own or not await _is_recorded(cluster, metadata, options.record):
            result.left_ledgers.append(ledger_id)
            continue
        options.at_point("old.recorded")
        await delete_bucket_ledger(cluster, ledger_id)
        options.report(f"ledger {ledger_id}: deleted")
        options.at_point("old.deleted")
        result.deleted_ledgers.append(ledger_id)


async def _is_recorded(cluster: Cluster, metadata: LedgerMetadata, record: ChangeRecord | None) -> bool:
    """Record an old ledger, if there is a record; return False if that needs what its bookies do not give now.

    Other subscriptions are to be switched meanwhile, so that bookies that are away are not waited for.
    """
    if record is None:
        return True
    if await close_bucket_ledger(cluster, metadata):
        return False
    try:
        await record.deleted(metadata, read_bucket_ledger(cluster, metadata.ledger_id))
    except (EntryMissing, DigestMismatch, LedgerUnreadable, Unauthorized):
        return False
    return True
