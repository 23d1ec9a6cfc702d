"""Reads the ledgers of the service, without a broker."""

from collections.abc import AsyncIterator

from delayed_tracker.client.aio.calls import Calls
from delayed_tracker.client.model.answers import Position
from delayed_tracker.client.model.ledger_answers import EntryPage, IndexLookupMode, MessageId, TimeSeek
from delayed_tracker.client.rules.ledgers import PAGE_BYTES, PAGE_ENTRIES, LedgerRules


class LedgerClient:
    """Client that reads the ledgers of a topic and changes nothing. See ``DelayedTrackerClient.ledgers``.

    Topics are named ``persistent://tenant/namespace/name``, and each partition by its own name. Every method raises
    TrackerCallError: NotFound if the topic does not exist, QueryNotSupported if the service has no ledgers or the topic is
    partitioned, DataLoss if an entry that must be read is missing or damaged, Unavailable while ledgers are being
    opened. The tasks of one event loop may share it.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._rules = LedgerRules()

    async def get_message_id_by_index(
        self, topic: str, index: int, *, mode: IndexLookupMode | None = None
    ) -> MessageId:
        """Return the id of the entry that contains the message with an index (PIP-415).

        Args:
            topic: its full name.
            index: index of any message, also inside a batch; counted from 0.
            mode: rules of the lookup; None is the service's configuration.
        Returns: the entry's id; position -1:-1 if the message has expired and was deleted.
        Raises:
            NotFound: also if the index is above the topic's last.
            QueryNotSupported: also if the entries have no index.
        """
        return await self._calls.perform(self._rules.get_message_id_by_index(topic, index, mode=mode))

    async def seek_by_time(self, topic: str, timestamp_ms: int, *, read_compacted: bool = False) -> TimeSeek:
        """Return the position at which to continue reading for a time: the first entry that was written at or after it.

        Args:
            topic: its full name.
            timestamp_ms: milliseconds since 1970-01-01 UTC, 0 or more.
            read_compacted: True for a reader of the compacted topic.
        """
        return await self._calls.perform(self._rules.seek_by_time(topic, timestamp_ms, read_compacted=read_compacted))

    async def get_last_message_position(self, topic: str, *, read_compacted: bool = False) -> MessageId:
        """Return the id of a topic's last message.

        Args:
            topic: its full name.
            read_compacted: True for a reader of the compacted topic.
        Returns: entry -1 of the last ledger if there are no entries; -1:-1 without ledgers, or if compaction kept
        nothing.
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
        """Yield entries as they are stored, page by page; each page is read when it is needed.

        Args:
            topic: its full name.
            start: position to begin at. If it does not exist, the next entry comes first. None is the topic's first.
            page_entries: entries of a page at most, 1 or more; the service may return fewer.
            page_bytes: payload bytes of a page at most; a larger single entry is a page of its own.
            protocol_version: protocol version of the reader. From 18 on, entries begin with their broker frames, if the
                service exposes them (PIP-90).
        Raises:
            BatchTooLarge: also if one entry alone is larger than the limit of an answer.
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
