"""The disks of bookies as a source of delayed messages: entry logs and a metadata dump, opened together."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from delayed_tracker.ledger.bookkeeper.entry_log_ledger import EntryLogLedger
from delayed_tracker.ledger.bookkeeper.entry_logs import open_entry_logs
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.metadata.metadata_store import open_metadata
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.queries.compaction import read_compacted_span
from delayed_tracker.ledger.queries.pending import PendingReport, pending_indexes
from delayed_tracker.ledger.queries.stored_snapshots import PulsarSnapshot, read_stored_snapshots
from delayed_tracker.ledger.topic.ledger_logs import LedgerLogs
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, TopicLog, TopicParts
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan, OpenLedgers, TopicReader
from delayed_tracker.ledger.topic_name import TopicName

__all__ = ["BookieDisk", "PendingReport", "PulsarSnapshot", "open_bookie_disk"]


class BookieDisk:
    """Topics on the disks of one or more bookies: a :class:`~delayed_tracker.ledger.topic.topic_log.LedgerSource`.

    Topics are named ``persistent://tenant/namespace/name``, subscriptions by their plain names.
    """

    def __init__(
        self, catalogue: TopicCatalogue, logs: LedgerLogs, *, open_ledgers: OpenLedgers = OpenLedgers.RECOVERED
    ) -> None:
        self.catalogue = catalogue
        self.logs = logs
        self.open_ledgers = open_ledgers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the files. Results stay valid."""
        self.logs.close()

    def topics(self, beside: TopicName | None = None) -> list[str]:
        """Return the full names of topics that have ledgers, including Pulsar's own, ascending: all, or of a namespace."""
        return [str(topic) for topic in self.catalogue.topics(beside)]

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic and its ledgers.

        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            MetadataInvalid: metadata of the topic or of a ledger is damaged.
            InvalidInput: not a topic name.
        Cost: O(records of the ledgers that were never closed).
        """
        name = self.catalogue.topic(topic)
        stored = self.catalogue.managed_ledger(name)
        reader = self._reader()
        return TopicLog(
            name,
            tuple(
                self._ledger(reader.span(ledger.ledger_id, entry_count=ledger.entry_count)) for ledger in stored.ledgers
            ),
            properties=stored.properties,
            terminated_at=stored.terminated_at,
        )

    def topic_parts(self, topic: str) -> TopicParts:
        """Return a topic, with the ledgers that the logs have completely separate from the others.

        Raises: as :meth:`topic_log`.
        Cost: O(records of the topic's ledgers).
        """
        log = self.topic_log(topic)
        # The logs may still have some records of a ledger that was offloaded and deleted from the bookies.
        whole: dict[int, Callable[[], Ledger]] = {}
        cut_short: dict[int, Callable[[], Ledger]] = {}
        for ledger in log.ledgers:
            end = self.logs.last_contiguous_entry(ledger.ledger_id, -1)
            kept = whole if end >= ledger.last_entry_id else cut_short
            kept[ledger.ledger_id] = partial(_same, ledger)
        listed = tuple(ledger.ledger_id for ledger in log.ledgers)
        return TopicParts(
            log.name, listed, whole, cut_short, properties=log.properties, terminated_at=log.terminated_at
        )

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """Return the result of a topic's compaction; None if it was never compacted.

        Raises:
            EntriesUnreadable: the state of the compaction cursor cannot be read.
            TopicNotFound, MetadataInvalid, InvalidInput: as :meth:`topic_log`.
        """
        found = read_compacted_span(self._reader(), self.catalogue.topic(topic))
        if found is None:
            return None
        span, horizon = found
        return CompactedLog(self._ledger(span), horizon=horizon)

    def subscriptions(self, topic: str) -> list[str]:
        """Return the names of a topic's subscriptions, including Pulsar's own cursors, ascending.

        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            InvalidInput: not a topic name.
        """
        return self.catalogue.subscriptions(self.catalogue.topic(topic))

    def pending(
        self,
        topic: str,
        subscription: str,
        *,
        ignore_acks: bool = False,
        open_ledgers: OpenLedgers = OpenLedgers.RECOVERED,
        on_error: ErrorPolicy = ErrorPolicy.FAIL,
        progress: Progress | None = None,
    ) -> PendingReport:
        """Return the delayed entries of a topic that a subscription has not acknowledged.

        Args:
            topic: an existing topic.
            subscription: need not exist if acknowledgements are ignored.
            ignore_acks: include every delayed entry, as if nothing was acknowledged yet.
            open_ledgers: how to read ledgers that were never closed.
            on_error: FAIL raises for bad entries, SKIP leaves them out and lists them.
            progress: called with entries read and entries in all.
        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            SubscriptionNotFound: the topic has no such subscription; the message lists the existing ones.
            EntriesUnreadable: entries are missing or damaged and the policy is to fail.
            MetadataInvalid: metadata of the topic, the cursor or a ledger is damaged.
            InvalidInput: not a topic name.
        Cost: O(bytes of the topic's ledgers from the mark-delete position on).
        """
        return pending_indexes(
            self._reader(open_ledgers),
            self.catalogue.topic(topic),
            subscription,
            ignore_acks=ignore_acks,
            on_error=on_error,
            progress=progress,
        )

    def stored_snapshots(self, topic: str, subscription: str) -> list[PulsarSnapshot]:
        """Return the bucket snapshots that Pulsar stores for a subscription, ascending by the ledgers that they cover.

        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            SubscriptionNotFound: the topic has no such subscription; the message lists the existing ones.
            EntriesUnreadable: a snapshot is missing or damaged.
            MetadataInvalid: metadata of the cursor or of a snapshot's ledger is damaged.
        """
        reader = self._reader(OpenLedgers.RECOVERED)
        return read_stored_snapshots(reader, self.catalogue.topic(topic), subscription)

    def topic_reader(self) -> TopicReader:
        """Return a reader of topics and cursors."""
        return self._reader()

    def _reader(self, open_ledgers: OpenLedgers | None = None) -> TopicReader:
        return TopicReader(self.catalogue, self.logs, open_ledgers or self.open_ledgers)

    def _ledger(self, span: LedgerSpan) -> EntryLogLedger:
        metadata = self.catalogue.ledger(span.ledger_id)
        closed = metadata is not None and metadata.closed
        return EntryLogLedger(span, self.logs, metadata.payload_bytes if metadata is not None and closed else None)


def _same(ledger: Ledger) -> Ledger:
    return ledger


def open_bookie_disk(
    log_directories: Sequence[str | Path],
    metadata_dump: str | Path,
    *,
    topic: str | None = None,
    open_ledgers: OpenLedgers = OpenLedgers.RECOVERED,
    progress: Progress | None = None,
) -> BookieDisk:
    """Open the entry logs and the metadata dump of a cluster, which may be down.

    Args:
        log_directories: ledger directories of all bookies together.
        metadata_dump: JSON lines, plain or gzip; see :mod:`delayed_tracker.ledger.metadata.metadata_dump`.
        topic: a topic that must exist; checked before the logs are scanned.
        open_ledgers: how :meth:`BookieDisk.topic_log` reads ledgers that were never closed.
        progress: called with bytes of entry logs scanned, and bytes in all.
    Raises:
        TopicNotFound: there is no such topic; the message lists similar names.
        InvalidInput: not a topic name; a directory does not exist or has no logs.
        LedgerFileInvalid: a file is damaged, of another kind, or of a newer version.
        OSError: a file cannot be read.
    Cost: O(records in the logs).
    """
    catalogue = TopicCatalogue(open_metadata(metadata_dump))
    if topic is not None:
        catalogue.topic(topic)
    return BookieDisk(catalogue, open_entry_logs(log_directories, progress=progress), open_ledgers=open_ledgers)
