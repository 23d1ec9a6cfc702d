"""Queries of a broker about a compacted topic: its last message, the first entry of a time, its entries (PIP-429).

Source: TopicCompactionService.java, PulsarTopicCompactionService.java, CompactedTopicUtils.java.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction.compacted_ledger import (
    first_at_or_after,
    read_one,
    scan_compacted,
    unreadable_kept,
    unwrapped,
)
from delayed_tracker.ledger.compaction.rebatch import decompressed_batch
from delayed_tracker.ledger.entry.frame import Frame, checksum_matches, parse_message_metadata, split_frame
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import (
    CompressedDataInvalid,
    EntriesUnreadable,
    FrameInvalid,
    PayloadInvalid,
)
from delayed_tracker.ledger.messages.batch import last_kept_index
from delayed_tracker.ledger.messages.build import signed
from delayed_tracker.ledger.messages.message import Message
from delayed_tracker.ledger.messages.reader import MessageReader
from delayed_tracker.ledger.topic.entry_location import unreadable_entry
from delayed_tracker.ledger.topic.topic_log import CompactedLog
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata


class MessagePosition(NamedTuple):
    """Place of a message, and the publish time of its entry."""

    ledger_id: int
    entry_id: int
    batch_index: int
    """Index in the batch; -1 for a message that is not in a batch."""
    publish_time_ms: int
    """Milliseconds since 1970-01-01 UTC, by the producer's clock."""


EARLIEST: Final = MessagePosition(-1, -1, 0, 0)
"""Result for "no message"."""


class TopicCompactionService:
    """Queries over the result of a topic's compaction. Not thread-safe.

    Args:
        compacted: the result; None if the topic was never compacted.
    """

    def __init__(self, compacted: CompactedLog | None) -> None:
        self._compacted = compacted

    @property
    def last_compacted_position(self) -> Position | None:
        """The horizon: up to it, the compacted ledger replaces the topic. None without compaction."""
        return None if self._compacted is None else self._compacted.horizon

    def get_last_message_position(self) -> MessagePosition:
        """Return the last message that compaction kept; :data:`EARLIEST` if there is none.

        The metadata contains the last kept slot of a batch. Old compactors did not write it; only for their entries the
        payload must be decompressed. An encrypted batch is kept whole, so the result is its last slot.
        Raises:
            EntriesUnreadable: the last entry is missing or damaged.
        Cost: one read of one entry.
        Source: PulsarTopicCompactionService.java (getLastMessagePosition). There a batch of one message does not count
            as a batch; here it does, as in the message's id.
        """
        if self._compacted is None or self._compacted.ledger.last_entry_id < 0:
            return EARLIEST
        entry_id = self._compacted.ledger.last_entry_id
        stored = read_one(self._compacted.ledger, entry_id)
        try:
            metadata, frame = _metadata(stored)
            batch_index = _last_batch_index(stored, metadata, frame)
        except (FrameInvalid, PayloadInvalid, CompressedDataInvalid) as error:
            raise EntriesUnreadable([unreadable_entry(self._compacted.ledger, entry_id, error.message)]) from error
        (position,) = stored.positions
        return MessagePosition(*position, batch_index, signed(metadata.publish_time))

    def find_entry_by_publish_time(self, publish_time_ms: int) -> Position | None:
        """Return the first kept entry that was published at this time or later; None if all are older.

        Raises:
            EntriesUnreadable: an entry that must be read is missing or damaged.
        Cost: O(log entries) reads of one entry. Assumes that publish times ascend, as Pulsar does.
        """
        if self._compacted is None:
            return None
        ledger = self._compacted.ledger
        low, high, found = 0, ledger.last_entry_id, None
        while low <= high:
            middle = (low + high) // 2
            stored = read_one(ledger, middle)
            try:
                metadata, _ = _metadata(stored)
            except FrameInvalid as error:
                raise EntriesUnreadable([unreadable_entry(ledger, middle, error.message)]) from error
            if signed(metadata.publish_time) >= publish_time_ms:
                (found,) = stored.positions
                high = middle - 1
            else:
                low = middle + 1
        return found

    def read_compacted_entries(self, start: Position, entry_count: int) -> LedgerEntries:
        """Return entries that compaction kept, from a position of the topic on, at their original positions.

        Args:
            start: the first entry is at this position or behind it.
            entry_count: the most entries to return; 1 or more.
        Raises:
            EntriesUnreadable: an entry that must be read to find the first one is missing or damaged.
        Cost: O(log entries) reads of one entry, and one read of the requested entries.
        """
        if self._compacted is None:
            return LedgerEntries(StoredEntries.of(0, [], []))
        ledger = self._compacted.ledger
        first = first_at_or_after(ledger, start)
        return unwrapped(ledger, ledger.read(first, min(first + entry_count - 1, ledger.last_entry_id)))

    def read_compacted(self, reader: MessageReader, start: Position | None = None) -> Iterator[Message]:
        """Yield the topic's messages as a consumer of the compacted topic receives them.

        Up to the horizon they come from the compacted ledger, behind it from the topic's own ledgers.
        Args:
            reader: a reader of the topic that was not used before; it lists what was skipped.
            start: a position of the topic; None is the beginning.
        Raises:
            EntriesUnreadable: entries are missing or damaged, and the reader's policy is FAIL.
        Cost: as :meth:`MessageReader.read`.
        """
        if self._compacted is not None and (start is None or start <= self._compacted.horizon):
            # All transactions of kept entries were committed; their markers may be gone by now.
            ledger = self._compacted.ledger
            yield from reader.read_pieces(scan_compacted(ledger, start), kept_bad=partial(unreadable_kept, ledger))
            horizon = self._compacted.horizon
            start = Position(horizon.ledger_id, horizon.entry_id + 1)
        yield from reader.read_pieces(reader.log.scan(start))
        reader.finish()


def _metadata(stored: StoredEntries) -> tuple[MessageMetadata, Frame]:
    """Return the metadata of the only row, and the frame with the place of its payload.

    Raises:
        FrameInvalid: the entry is not a message, or its checksum does not match.
    """
    frame = split_frame(stored.buffer, int(stored.start[0]), int(stored.end[0]))
    if not checksum_matches(stored.buffer, frame):
        raise FrameInvalid(f"CRC32C of the message is not the stored {frame.crc:08x}")
    return parse_message_metadata(stored.buffer, frame), frame


def _last_batch_index(stored: StoredEntries, metadata: MessageMetadata, frame: Frame) -> int:
    if not metadata.HasField("num_messages_in_batch"):
        return -1
    if metadata.compacted_batch_indexes:
        return metadata.compacted_batch_indexes[-1]
    if metadata.encryption_keys:
        return metadata.num_messages_in_batch - 1
    last = last_kept_index(metadata, decompressed_batch(metadata, stored.buffer[frame.metadata_end : frame.end]))
    if last is None:
        raise PayloadInvalid("all messages of the batch were dropped, but the entry was kept")
    return last
