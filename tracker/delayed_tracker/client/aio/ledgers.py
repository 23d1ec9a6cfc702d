"""The ledgers that a service can read, asked without a broker."""

from collections.abc import AsyncIterator

from delayed_tracker.client.aio.calls import Calls
from delayed_tracker.client.model.answers import Position
from delayed_tracker.client.model.ledger_answers import EntryPage, IndexLookupMode, MessageId, TimeSeek
from delayed_tracker.client.rules.ledgers import PAGE_BYTES, PAGE_ENTRIES, LedgerRules


class LedgerClient:
    """Asks what the ledgers of a topic hold; nothing is changed. See ``DelayedTrackerClient.ledgers``.

    Topics are named ``persistent://tenant/namespace/name``, partitions each by its own name. Every method raises
    TrackerCallError: NotFound for a topic that is not there, Unanswerable where the service has no ledgers or the topic
    is partitioned, DataLoss where an entry on the way is missing or damaged, Unavailable while ledgers are being opened.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._rules = LedgerRules()

    async def get_message_id_by_index(
        self, topic: str, index: int, *, mode: IndexLookupMode | None = None
    ) -> MessageId:
        """The entry that holds the message with an index (PIP-415).

        Args:
            topic: its full name.
            index: of any message, also one inside a batch; counted from 0.
            mode: whose rules decide; None is what the service is configured for.
        Returns: the entry's id; position -1:-1 if the message has expired and was deleted.
        Raises:
            NotFound: the index is above the topic's last, too.
            Unanswerable: the entries carry no index, too.
        """
        return await self._calls.perform(self._rules.get_message_id_by_index(topic, index, mode=mode))

    async def seek_by_time(self, topic: str, timestamp_ms: int, *, read_compacted: bool = False) -> TimeSeek:
        """Where to read on for a time: the first entry that was written at or after it.

        Args:
            topic: its full name.
            timestamp_ms: milliseconds since 1970-01-01 UTC, 0 or more.
            read_compacted: for a reader of the compacted topic.
        """
        return await self._calls.perform(self._rules.seek_by_time(topic, timestamp_ms, read_compacted=read_compacted))

    async def get_last_message_position(self, topic: str, *, read_compacted: bool = False) -> MessageId:
        """The last message of a topic.

        Args:
            topic: its full name.
            read_compacted: for a reader of the compacted topic.
        Returns: entry -1 of the last ledger if there are no entries; -1:-1 without ledgers, or if compaction kept nothing.
        """
        return await self._calls.perform(self._rules.get_last_message_position(topic, read_compacted=read_compacted))

    async def read_entries(
        self,
        topic: str,
        start: Position | None = None,
        *,
        page_entries: int = PAGE_ENTRIES,
        page_bytes: int = PAGE_BYTES,
        protocol_version: int = 0,
    ) -> AsyncIterator[EntryPage]:
        """Entries as they are stored, page by page as they are asked for.

        Args:
            topic: its full name.
            start: where to begin; need not exist: the next entry there is comes first. None is the topic's first.
            page_entries: entries of a page at most, 1 or more; the service may give less.
            page_bytes: payload bytes of a page at most, but for a single entry that is larger.
            protocol_version: what the reader speaks. From 18 on, entries begin with their broker frames, if the service
                exposes them (PIP-90).
        Raises:
            BatchTooLarge: one entry alone is larger than an answer may be, too.
        """
        following: Position | None = start
        while True:
            page = await self._calls.perform(
                self._rules.read_entries(
                    topic,
                    following,
                    page_entries=page_entries,
                    page_bytes=page_bytes,
                    protocol_version=protocol_version,
                )
            )
            yield page
            following = page.next
            if following is None:
                return
