"""Queries about the messages of a topic, by the topic's name, to a source of ledgers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compaction.service import EARLIEST, TopicCompactionService
from delayed_tracker.ledger.errors import NamespaceNotFound, PartitionedTopic, TopicNotFound
from delayed_tracker.ledger.messages.message import MessageId
from delayed_tracker.ledger.queries.message_index import IndexLookupMode, get_message_id_by_index
from delayed_tracker.ledger.queries.seek import TimeSeek, oldest_message_expired, seek_by_time
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.entry_pages import EntryPage, read_page
from delayed_tracker.ledger.topic.topic_log import LedgerSource, TopicLog
from delayed_tracker.ledger.topic_name import TopicName

_PARTITION: Final = re.compile(r"-partition-[0-9]+")


class TopicQueries:
    """Queries that open the topic anew on each call. Not thread-safe, because the source is not.

    Every call raises, besides its own errors:
        TopicNotFound, NamespaceNotFound: there is no such topic; the message lists similar names.
        PartitionedTopic: only the partitions of the topic have messages; name one of them.
        InvalidInput: not a topic name, or one of Pulsar's own topics whose entries are not messages.
        MetadataInvalid: metadata of the topic or of a ledger is damaged.
    """

    def __init__(self, source: LedgerSource) -> None:
        self.source = source

    def topics(self) -> Sequence[str]:
        """Return the full names of all topics, ascending."""
        return self.source.topics()

    def get_message_id_by_index(
        self, topic: str, index: int, *, mode: IndexLookupMode = IndexLookupMode.PROPOSAL
    ) -> MessageId:
        """Call :func:`~delayed_tracker.ledger.queries.message_index.get_message_id_by_index` for a topic."""
        return get_message_id_by_index(self.topic_log(topic), index, mode=mode)

    def seek_by_time(self, topic: str, timestamp_ms: int, *, read_compacted: bool = False) -> TimeSeek:
        """Call :func:`~delayed_tracker.ledger.queries.seek.seek_by_time` for a topic.

        Args:
            topic: its name.
            timestamp_ms: milliseconds since 1970-01-01 UTC.
            read_compacted: for a reader of the compacted topic: search the messages that compaction kept first, by the
                producers' times. Brokers find the message id for a timestamp in this way.
        Raises:
            EntriesUnreadable: an entry that the search needs, or the state of the compaction cursor, is missing or
                damaged.
        """
        log = self.topic_log(topic)
        if read_compacted:
            kept = TopicCompactionService(self.source.compacted_log(str(log.name)))
            found = kept.find_entry_by_publish_time(timestamp_ms)
            if found is not None:
                return TimeSeek(found, behind_end=False)
        return seek_by_time(EntryLookup(log), timestamp_ms)

    def oldest_message_expired(
        self, topic: str, ttl_seconds: int, *, now_ms: int, mark_delete: Position | None = None
    ) -> bool:
        """Call :func:`~delayed_tracker.ledger.queries.seek.oldest_message_expired` for a topic."""
        lookup = EntryLookup(self.topic_log(topic))
        return oldest_message_expired(lookup, ttl_seconds, now_ms=now_ms, mark_delete=mark_delete)

    def get_last_message_id(self, topic: str, *, read_compacted: bool = False) -> MessageId:
        """Call :func:`~delayed_tracker.ledger.queries.topic_queries.last_message` for a topic.

        Args:
            topic: its name.
            read_compacted: for a reader of the compacted topic: if compaction processed all of the topic, return the
                last message that it kept; (-1, -1) if it kept none.
        Raises:
            EntriesUnreadable: the last entry, or the state of the compaction cursor, is missing or damaged.
        """
        log = self.topic_log(topic)
        compacted = self.source.compacted_log(str(log.name)) if read_compacted else None
        if compacted is not None and (log.last is None or log.last <= compacted.horizon):
            kept = TopicCompactionService(compacted).get_last_message_position()
            batch_index = -1 if kept == EARLIEST else kept.batch_index
            return MessageId(kept.ledger_id, kept.entry_id, log.name.partition, batch_index)
        last = last_message(EntryLookup(log))
        return MessageId(*last.position, partition=log.name.partition, batch_index=last.batch_index)

    def read_entries(self, topic: str, start: Position | None, *, entries_max: int, bytes_max: int) -> EntryPage:
        """Call :func:`~delayed_tracker.ledger.topic.entry_pages.read_page` for a topic."""
        return read_page(self.topic_log(topic), start, entries_max=entries_max, bytes_max=bytes_max)

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic of messages and its ledgers."""
        name = TopicName.parse(topic)
        if not name.holds_messages:
            raise InvalidInput("topic", topic, "its entries are a transaction's state; name a topic of messages")
        try:
            return self.source.topic_log(str(name))
        except TopicNotFound as error:
            beside = self.source.topics(name)
            partitions = [found for found in beside if _PARTITION.fullmatch(found.removeprefix(str(name)))]
            if partitions and name.partition < 0:
                raise PartitionedTopic(str(name), partitions) from error
            if not beside:
                raise NamespaceNotFound(error.message, metadata=error.metadata) from error
            raise


@dataclass(frozen=True, slots=True)
class LastMessage:
    """Position of the last message."""

    position: Position
    """Entry -1 of the last ledger if the topic has no entries; (-1, -1) if it has no ledgers."""
    batch_index: int
    """Index within the batch; -1 outside of a batch."""


def last_message(lookup: EntryLookup) -> LastMessage:
    """Return the last message of any kind, including system messages and messages of open or aborted transactions.

    Raises:
        EntriesUnreadable: the last entry is missing or damaged.
    Cost: one entry.
    Source: PersistentTopic.java (getLastMessageId).
    """
    if not lookup.entry_count:
        ledgers = lookup.log.ledgers
        return LastMessage(Position(ledgers[-1].ledger_id if ledgers else -1, -1), -1)
    number = lookup.entry_count - 1
    metadata = lookup.metadata(number)
    batched = metadata.HasField("num_messages_in_batch")
    return LastMessage(lookup.position(number), metadata.num_messages_in_batch - 1 if batched else -1)
