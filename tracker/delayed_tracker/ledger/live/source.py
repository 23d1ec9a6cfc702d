"""A running cluster as a source of ledgers, which changes nothing there: no ledger is fenced, recovered or written."""

from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Final, Self

from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.live.address import ClusterAddress
from delayed_tracker.ledger.live.client import ClusterClient
from delayed_tracker.ledger.live.ledger import LiveLedger
from delayed_tracker.ledger.live.snapshot import ClusterSnapshot
from delayed_tracker.ledger.metadata.managed_ledger import TopicLedger
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.queries.compaction import read_compacted_span
from delayed_tracker.ledger.queries.pending import PendingReport, pending_indexes
from delayed_tracker.ledger.queries.stored_snapshots import PulsarSnapshot, read_stored_snapshots
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, TopicLog, TopicParts
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan, TopicReader
from delayed_tracker.ledger.topic_name import TopicName

_GONE: Final = (
    "there are no BookKeeper metadata of it: it was deleted, because the topic was trimmed or the ledger offloaded"
)
_TIERED: Final = "give tiered storage as a further source"


class LiveCluster:
    """Topics of a running cluster: a :class:`~delayed_tracker.ledger.topic.topic_log.LedgerSource`.

    Each query reads the metadata that it needs once, and sees the topic as of that moment. A ledger that is deleted
    afterwards reads as bad entries.

    Args:
        client: connection to the cluster, which the source closes.
        pinned: True if all queries shall see a topic as of the first of them: for a job that looks at it several times.
    """

    def __init__(self, client: ClusterClient, *, pinned: bool = False) -> None:
        self._client = client
        self._pinned = ClusterSnapshot(client) if pinned else None

    @classmethod
    def open(cls, address: ClusterAddress, *, pinned: bool = False) -> Self:
        """Connect to a cluster.

        Raises:
            InvalidInput: there is no BookKeeper cluster below the root.
            MetadataUnavailable: ZooKeeper does not answer.
        """
        client = ClusterClient(address)
        try:
            client.connect()
        except BaseException:
            client.close()
            raise
        return cls(client, pinned=pinned)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connections. Results stay valid."""
        self._client.close()

    def topics(self, beside: TopicName | None = None) -> list[str]:
        """Return the full names of topics that have ledgers, including Pulsar's own, ascending: all, or of a namespace."""
        return [str(topic) for topic in self._snapshot().catalogue.topics(beside)]

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic and its ledgers; an :class:`AbsentLedger` for one that is not in BookKeeper.

        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            MetadataInvalid: metadata of the topic or of a ledger is damaged.
            MetadataUnavailable: ZooKeeper does not answer.
            InvalidInput: not a topic name.
        Cost: one request for each ledger, and one to each bookie of the ledger that is still written.
        """
        parts = self.topic_parts(topic)
        assert parts.listed is not None
        return TopicLog(
            parts.name,
            tuple(parts.whole[listed]() if listed in parts.whole else parts.absent[listed] for listed in parts.listed),
            properties=parts.properties,
            terminated_at=parts.terminated_at,
        )

    def topic_parts(self, topic: str) -> TopicParts:
        """Return a topic, with the ledgers that BookKeeper has separate from the others.

        Raises: as :meth:`topic_log`; those of a ledger are raised when it is opened.
        """
        snapshot = self._snapshot()
        name = snapshot.catalogue.topic(topic)
        stored = snapshot.catalogue.managed_ledger(name)
        absent = {
            ledger.ledger_id: AbsentLedger(ledger.ledger_id, ledger.entry_count, _GONE, _TIERED)
            for ledger in stored.ledgers
            if not snapshot.catalogue.has(ledger.ledger_id)
        }
        whole: dict[int, Callable[[], Ledger]] = {
            ledger.ledger_id: partial(_ledger, self._client, snapshot, ledger)
            for ledger in stored.ledgers
            if ledger.ledger_id not in absent
        }
        return TopicParts(
            name,
            tuple(ledger.ledger_id for ledger in stored.ledgers),
            whole,
            absent=absent,
            properties=stored.properties,
            terminated_at=stored.terminated_at,
        )

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """Return the result of a topic's compaction; None if it was never compacted.

        Raises:
            EntriesUnreadable: the state of the compaction cursor cannot be read, or the compacted ledger is gone.
            TopicNotFound, MetadataInvalid, MetadataUnavailable, InvalidInput: as :meth:`topic_log`.
        """
        snapshot = self._snapshot()
        found = read_compacted_span(snapshot.reader(), snapshot.catalogue.topic(topic))
        if found is None:
            return None
        span, horizon = found
        return CompactedLog(_opened(self._client, snapshot, span), horizon=horizon)

    def subscriptions(self, topic: str) -> list[str]:
        """Return the names of a topic's subscriptions, including Pulsar's own cursors, ascending.

        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            MetadataUnavailable: ZooKeeper does not answer.
            InvalidInput: not a topic name.
        """
        catalogue = self._snapshot().catalogue
        return catalogue.subscriptions(catalogue.topic(topic))

    def pending(
        self,
        topic: str,
        subscription: str,
        *,
        ignore_acks: bool = False,
        on_error: ErrorPolicy = ErrorPolicy.FAIL,
        progress: Progress | None = None,
    ) -> PendingReport:
        """Return the delayed entries of a topic that a subscription has not acknowledged.

        Args and errors are those of :meth:`~delayed_tracker.ledger.source.BookieDisk.pending`; also MetadataUnavailable.
        """
        snapshot = self._snapshot()
        return pending_indexes(
            snapshot.reader(),
            snapshot.catalogue.topic(topic),
            subscription,
            ignore_acks=ignore_acks,
            on_error=on_error,
            progress=progress,
        )

    def stored_snapshots(self, topic: str, subscription: str) -> list[PulsarSnapshot]:
        """Return the bucket snapshots that Pulsar stores for a subscription, ascending by the ledgers that they cover.

        Errors are those of :meth:`~delayed_tracker.ledger.source.BookieDisk.stored_snapshots`; also MetadataUnavailable.
        """
        snapshot = self._snapshot()
        return read_stored_snapshots(snapshot.reader(), snapshot.catalogue.topic(topic), subscription)

    def topic_reader(self) -> TopicReader:
        """Return a reader of topics and cursors, as of one moment."""
        return self._snapshot().reader()

    def _snapshot(self) -> ClusterSnapshot:
        return self._pinned or ClusterSnapshot(self._client)


def _ledger(client: ClusterClient, snapshot: ClusterSnapshot, ledger: TopicLedger) -> Ledger:
    """Open a ledger of a topic. If the bookies do not say where an open one ends, all that it has is listed as bad."""
    try:
        return _opened(client, snapshot, snapshot.reader().span(ledger.ledger_id, entry_count=ledger.entry_count))
    except EntriesUnreadable as error:
        found = error.bad_entries[0]
        return AbsentLedger(ledger.ledger_id, ledger.entry_count, found.reason, found.remedy)


def _opened(client: ClusterClient, snapshot: ClusterSnapshot, span: LedgerSpan) -> Ledger:
    stored = snapshot.catalogue.versioned(span.ledger_id)
    if stored is None:
        return AbsentLedger(span.ledger_id, None, _GONE)
    return LiveLedger(client, stored, span.last_entry_id)
