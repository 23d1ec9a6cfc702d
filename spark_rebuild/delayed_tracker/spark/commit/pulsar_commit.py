"""Commit target for the brokers of a live cluster: tasks write the ledgers, the driver switches the cursors.

The buckets are ranges of whole ledgers (``RebuildSettings.whole_ledgers``), so that a broker recovers them as its own. Topics
may be loaded while the job reads and writes; at the switch no broker may have them. A task that is killed or runs twice
leaves a ledger that no property names: ``pulsar inspect`` finds it, ``pulsar repair`` deletes it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from delayed_tracker.bookkeeper.errors import BookKeeperError
from delayed_tracker.bookkeeper.metadata.errors import RequestTooLarge
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.bucket_ledger import (
    LedgerForm,
    bucket_metadata,
    create_bucket_ledger,
    delete_bucket_ledger,
    ledger_form,
)
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.cluster.errors import ClusterError
from delayed_tracker.cluster.publication.bucket_switch import (
    CursorSwitches,
    PublicationOptions,
    PublishedSubscription,
    delete_old_ledgers,
)
from delayed_tracker.cluster.publication.publishing import topic_ledgers
from delayed_tracker.cluster.switch import require_not_loaded
from delayed_tracker.ledger.errors import LedgerError
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.spark.commit.commit import Committed, RebuiltTracker
from delayed_tracker.spark.commit.rebuilt_bucket import StagedBucket, metadata_of, segments_of
from delayed_tracker.spark.commit.shared_commit import (
    OpenWriter,
    SnapshotToWrite,
    WriteSnapshots,
    WrittenSnapshot,
    tracker_groups,
)
from delayed_tracker.storage.errors import SnapshotTooLarge

T = TypeVar("T")

SCHEME = "pulsar:"
_FIELD = "--commit"


class ClusterConnection:
    """Access to a cluster for synchronous code; a context manager, which can be entered again later.

    Args:
        url: ``pulsar:zk://HOST:PORT[,HOST:PORT][/ROOT][?option=value]``.
    Raises:
        InvalidInput: it is no such URL.
    """

    def __init__(self, url: str) -> None:
        self._address = ClusterAddress.parse(url, _FIELD)
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._connected: Cluster | None = None

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            InvalidInput: there is no Pulsar.
            ZooKeeperUnavailable: ZooKeeper does not answer.
        """
        try:
            self._connected = self._run(self._stack.enter_async_context(connected(self._address, _FIELD)))
        except BaseException:
            self._renew()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self._connected = None
        try:
            self._run(self._stack.aclose())
        finally:
            self._renew()

    @property
    def _cluster(self) -> Cluster:
        assert self._connected is not None, "used outside of its block"
        return self._connected

    def _renew(self) -> None:
        self._runner.close()
        self._runner, self._stack = asyncio.Runner(), AsyncExitStack()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


class BucketLedgerWriter(ClusterConnection):
    """Writes ledgers of buckets, in a task."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._forms: dict[TopicName, LedgerForm] = {}

    def write(self, snapshot: SnapshotToWrite) -> WrittenSnapshot:
        """Write one ledger, whole or not at all; the bucket id is its id.

        Raises:
            StagedWorkInvalid, StagingUnavailable: its parts cannot be read.
            TopicNotFound: the topic was deleted meanwhile.
            SnapshotTooLarge: an entry is larger than bookies take.
            BookKeeperError: try again.
        """
        topic = TopicName.parse(snapshot.topic)
        return WrittenSnapshot(self._run(self._write(topic, snapshot.subscription, snapshot.bucket)), b"")

    async def _write(self, topic: TopicName, subscription: str, bucket: StagedBucket) -> int:
        if topic not in self._forms:
            self._forms[topic] = await ledger_form(self._cluster, await topic_ledgers(self._cluster, topic))
        custom = bucket_metadata(topic, subscription, bucket.first.ledger_id, bucket.last.ledger_id)
        entry_bytes_max = self._cluster.client.payload_bytes_max
        return await create_bucket_ledger(self._cluster, self._forms[topic], custom, _entries(bucket, entry_bytes_max))


class PulsarCommit(ClusterConnection):
    """``CommitTarget`` for ``pulsar:zk://…``.

    Args:
        url: of the cluster. Its option ``backup`` names a new file for what is changed; ``waitSeconds`` is how long the job
            waits for its topics to be unloaded.
        report: called with a sentence about each write of a node.
    """

    def __init__(self, url: str, *, report: Callable[[str], None] = lambda _: None) -> None:
        super().__init__(url)
        self._url = url
        self._report = report
        self._record: ChangeRecord | None = None
        self._has_switched = False
        """True if the record may have facts."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the backup, or remove it if nothing came to be changed; close the connection."""
        record, self._record = self._record, None
        has_switched, self._has_switched = self._has_switched, False
        try:
            if record is not None and has_switched:
                record.close()
            elif record is not None:
                record.discard()  # the same job can run again with this name
        finally:
            super().__exit__(kind, error, trace)

    @property
    def open_writer(self) -> OpenWriter:
        """Opens the writer of a task; can be pickled."""
        return partial(BucketLedgerWriter, self._url)

    @property
    def entry_bytes_max(self) -> int | None:
        """Bytes of the largest entry that bookies take."""
        return self._cluster.client.payload_bytes_max

    def begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        """Make sure that the cluster has the subscriptions, and that their brokers answer; create the backup.

        Raises:
            TopicNotFound, SubscriptionNotFound: one of them does not exist.
            TopicTerminated: a topic is terminated.
            BrokerUnavailable: a broker does not say which topics it has; the switch needs it.
            InvalidInput: the file of the backup exists.
            BackupUnusable: it cannot be written.
        """
        self._run(self._begin(trackers))

    async def _begin(self, trackers: Sequence[tuple[str, str]]) -> None:
        for topic, subscription in trackers:
            name = TopicName.parse(topic)
            await topic_ledgers(self._cluster, name)
            await self._cluster.cursor_node(name, subscription)
        # Asked for no topic: they may be loaded as long as the job reads.
        await require_not_loaded(self._cluster, [])
        # Now, while a refusal costs nothing: at the switch all work is done.
        await self._opened_record()

    def commit(self, tracker: RebuiltTracker) -> Committed:
        """See :class:`CommitTarget`: the ledgers are written by the driver."""

        def write(snapshots: Sequence[SnapshotToWrite]) -> Sequence[WrittenSnapshot]:
            with BucketLedgerWriter(self._url) as writer:
                return [writer.write(snapshot) for snapshot in snapshots]

        return self.commit_all([tracker], write, buckets_at_once=1)[0]

    def commit_all(
        self, trackers: Sequence[RebuiltTracker], write: WriteSnapshots, *, buckets_at_once: int
    ) -> list[Committed]:
        """Commit trackers, some at a time. A tracker without buckets is left as it is.

        Args:
            trackers: those of :meth:`begin`.
            write: runs tasks.
            buckets_at_once: so many buckets are written together, and all of the last tracker among them.
        Returns: for each tracker, with the version of its cursor's node as its epoch.
        Raises:
            TopicLoaded, BrokerUnavailable, CursorChanged: nothing of that subscription was changed, and its new ledgers are
                deleted; subscriptions before it stay committed.
            SnapshotTooLarge: the metadata of a bucket fit no entry; nothing was changed.
            StagedWorkInvalid, BookKeeperError: ledgers may be left, which ``pulsar repair`` finds.
            BackupUnusable: the backup cannot be written; likewise.
            InvalidInput: it exists, and :meth:`begin` was not called; likewise.
        """
        limit = self._cluster.client.payload_bytes_max
        for bucket in (bucket for tracker in trackers for bucket in tracker.buckets):
            if bucket.metadata_bytes > limit:
                raise SnapshotTooLarge(
                    f"the {bucket.index_count} delayed messages from {bucket.first} to {bucket.last} need metadata of "
                    f"{bucket.metadata_bytes} bytes, and bookies take {limit}; lower delayedDeliveryMinIndexCountPerBucket, or "
                    "raise delayedDeliveryMaxIndexesPerBucketSnapshotSegment"
                )
        committed: list[Committed] = []
        for some in tracker_groups(trackers, buckets_at_once):
            committed += self._commit_together(some, write)
        return committed

    def _commit_together(self, trackers: Sequence[RebuiltTracker], write: WriteSnapshots) -> list[Committed]:
        snapshots = [
            SnapshotToWrite(tracker.topic, tracker.subscription, 0, bucket.staged)
            for tracker in trackers
            for bucket in tracker.buckets
        ]
        written = iter(write(snapshots) if snapshots else ())
        properties = [
            [
                BucketProperty.of(bucket.first.ledger_id, bucket.last.ledger_id, next(written).bucket_id)
                for bucket in tracker.buckets
            ]
            for tracker in trackers
        ]
        return self._run(self._switch_all(trackers, properties))

    async def _switch_all(
        self, trackers: Sequence[RebuiltTracker], properties: Sequence[Sequence[BucketProperty]]
    ) -> list[Committed]:
        waiting = {number for number, buckets in enumerate(properties) if buckets}
        topics = [TopicName.parse(tracker.topic) for tracker in trackers]
        committed: list[Committed] = []
        try:
            record = await self._opened_record()
            self._has_switched = True
            options = PublicationOptions(record, wait_s=self._address.wait_s, report=self._report)
            switches = CursorSwitches(self._cluster, [topics[number] for number in sorted(waiting)], options)
            if options.record is not None:
                for number in sorted(waiting):
                    for bucket in properties[number]:
                        assert bucket.bucket_id is not None
                        options.record.created(topics[number], trackers[number].subscription, bucket.bucket_id)
            for number, (tracker, buckets) in enumerate(zip(trackers, properties, strict=True)):
                if not buckets:
                    committed.append(Committed(0, 0, unchanged=True))
                    continue
                waiting.discard(number)
                try:
                    committed.append(await self._switch(topics[number], tracker, buckets, switches, options))
                except (ClusterError, LedgerError, RequestTooLarge):
                    # Certainly not written. After any other failure the properties may name the ledgers, and they stay.
                    waiting.add(number)
                    raise
        finally:
            await self._discard([bucket for number in sorted(waiting) for bucket in properties[number]])
        return committed

    async def _switch(
        self,
        topic: TopicName,
        tracker: RebuiltTracker,
        buckets: Sequence[BucketProperty],
        switches: CursorSwitches,
        options: PublicationOptions,
    ) -> Committed:
        count = sum(bucket.index_count for bucket in tracker.buckets)
        write, old = await switches.switch(topic, tracker.subscription, buckets)
        assert write is not None, "new ledgers have new ids"
        result = PublishedSubscription(topic, tracker.subscription, count, tuple(buckets), write.path, write.version)
        await delete_old_ledgers(self._cluster, result, old, options)
        return Committed(write.version + 1, len(old), unchanged=False)

    async def _discard(self, buckets: Sequence[BucketProperty]) -> None:
        """Delete ledgers that no property names. What cannot be deleted now is found by ``pulsar repair``."""
        for bucket in buckets:
            assert bucket.bucket_id is not None
            try:
                await delete_bucket_ledger(self._cluster, bucket.bucket_id)
            except BookKeeperError as error:
                self._report(f"ledger {bucket.bucket_id}: not deleted ({error.message})")

    async def _opened_record(self) -> ChangeRecord | None:
        if self._record is None and self._address.backup is not None:
            self._record = await ChangeRecord.create(Path(self._address.backup), self._cluster)
        return self._record


async def _entries(bucket: StagedBucket, entry_bytes_max: int) -> AsyncIterator[bytes]:
    """Yield the entries of a bucket's ledger, each small enough for a bookie."""
    parts = bucket.open()
    yield metadata_of(parts)
    for segment in segments_of(parts):
        if len(segment) > entry_bytes_max:
            raise SnapshotTooLarge(
                f"a segment has {len(segment)} bytes, and bookies take {entry_bytes_max}; lower "
                "delayedDeliveryMaxIndexesPerBucketSnapshotSegment"
            )
        yield segment
