"""Reads the messages of a topic as a consumer receives them that starts at the topic's first entry.

Markers, aborted transactions and compacted slots are left out. Batches are split, messages in pieces are joined,
payloads are decrypted and decompressed.
Source: ConsumerImpl.java (messageReceived, receiveIndividualMessagesFromBatch), AbstractBaseDispatcher.java
(filterEntriesForConsumer). Pulsar drops damaged messages and logs a line; this reader reports each of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compression import MESSAGE_BYTES_MAX
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, scan_entries
from delayed_tracker.ledger.entry.frame import parse_message_metadata, split_frame
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import (
    BadEntry,
    CompressedDataInvalid,
    DecryptionFailed,
    EntriesUnreadable,
    ErrorPolicy,
    PayloadInvalid,
)
from delayed_tracker.ledger.messages.batch import split_batch
from delayed_tracker.ledger.messages.build import BrokerStamp, batched_message, single_message
from delayed_tracker.ledger.messages.chunks import ChunkAssembler, IncompleteMessage
from delayed_tracker.ledger.messages.keys import KeyLoader
from delayed_tracker.ledger.messages.message import Message, MessageId
from delayed_tracker.ledger.messages.payload import PayloadDecoder
from delayed_tracker.ledger.messages.visibility import (
    OpenTransactions,
    TransactionView,
    bad_entries_of,
    position_of,
    visible_entries,
)
from delayed_tracker.ledger.topic.entry_location import unreadable_at
from delayed_tracker.ledger.topic.topic_log import TopicLog
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

PENDING_CHUNK_BYTES_MAX: Final = 256 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOptions:
    """Options for reading messages."""

    keys: KeyLoader | None = None
    """Finds private keys. None: encrypted messages are errors."""
    expose_broker_frame: bool = True
    """True if messages get a broker publish time and an index; see :func:`~.exposure.frame_exposed`."""
    open_transactions: OpenTransactions = OpenTransactions.STOP
    on_error: ErrorPolicy = ErrorPolicy.FAIL
    message_bytes_max: int = MESSAGE_BYTES_MAX
    """Most bytes of a message, decompressed and joined. A message that claims more is an error: the claim
    may be a thousand times the stored size."""
    pending_chunk_bytes_max: int = PENDING_CHUNK_BYTES_MAX
    """Most bytes of unfinished messages in pieces that are held at once; above it, the oldest is given up."""


class MessageReader:
    """Reader of a topic's messages, once, from front to back. Not thread-safe.

    ``bad_entries`` and ``incomplete`` list what was skipped so far.
    """

    def __init__(self, log: TopicLog, options: MessageOptions | None = None) -> None:
        self.log = log
        self._options = options or MessageOptions()
        self._payloads = PayloadDecoder(self._options.keys, message_bytes_max=self._options.message_bytes_max)
        self._chunks = ChunkAssembler(
            pending_bytes_max=self._options.pending_chunk_bytes_max, message_bytes_max=self._options.message_bytes_max
        )
        self._transactions = TransactionView(log)
        self.bad_entries: list[BadEntry] = []
        """Entries that could not be read; stays empty under ErrorPolicy.FAIL."""

    @property
    def incomplete(self) -> list[IncompleteMessage]:
        """Messages with missing pieces: usually not damage, but the result of a failed producer."""
        return self._chunks.incomplete

    def read(self, start: Position | None = None) -> Iterator[Message]:
        """Yield all messages from a position on (None is the beginning), in topic order.

        Raises:
            EntriesUnreadable: entries are missing or damaged, or cannot be decrypted, and the policy is FAIL. Also those
                behind an open transaction at which reading stops, because one of them may be its end.
        Cost: O(bytes), plus one more pass over the rest of the topic if it has transactions; memory for a piece of a
            ledger, the largest message, and the unfinished messages.
        """
        yield from self.read_pieces(self.log.scan(start))
        self.finish()

    def read_pieces(
        self, pieces: Iterable[LedgerEntries], *, kept_bad: Callable[[Position, str], BadEntry] | None = None
    ) -> Iterator[Message]:
        """Yield the messages of some entries; call :meth:`finish` after the last.

        Args:
            pieces: entries of the topic, ascending over all calls.
            kept_bad: must be given for entries from a compacted ledger, as these are not in the topic's own ledgers. It
                returns the BadEntry for a position and a reason. All transactions of such entries were committed.
        Raises: as :meth:`read`.
        """
        for piece in pieces:
            columns = scan_entries(piece.entries)
            transactions = None if kept_bad is not None else self._transactions
            name_bad = kept_bad or partial(unreadable_at, self.log)
            visible = visible_entries(columns, transactions, self._options.open_transactions)
            self._report(bad_entries_of(piece, columns, visible, transactions, name_bad))
            for row in visible.rows.tolist():
                yield from self._messages(columns, row, name_bad)
            if visible.end < len(columns):
                return

    def finish(self) -> None:
        """Declare the end of the entries: messages whose pieces are not complete by now are incomplete."""
        self._chunks.finish()

    def _messages(
        self, columns: EntryColumns, row: int, name_bad: Callable[[Position, str], BadEntry]
    ) -> Iterator[Message]:
        stored = columns.stored
        entry = stored.payload(row)
        frame = split_frame(entry)
        metadata = parse_message_metadata(entry, frame)
        try:
            messages = self._decode(columns, row, metadata, entry[frame.metadata_end :])
        except DecryptionFailed as error:
            # Without its key, the entry is still intact: report it without file and offset.
            self._report((BadEntry(*position_of(columns, row), None, None, error.message),), cause=error)
            return
        except (PayloadInvalid, CompressedDataInvalid) as error:
            self._report((name_bad(position_of(columns, row), error.message),), cause=error)
            return
        yield from messages

    def _decode(self, columns: EntryColumns, row: int, metadata: MessageMetadata, body: bytes) -> list[Message]:
        position = position_of(columns, row)
        stamp = BrokerStamp.of(columns, row) if self._options.expose_broker_frame else BrokerStamp()
        partition = self.log.name.partition
        body = self._payloads.decrypt(metadata, body)
        first_chunk = None
        if metadata.num_chunks_from_msg > 1:
            whole = self._chunks.add(position, metadata, body)
            if whole is None:
                return []
            first_chunk, body = whole
        body = self._payloads.decompress(metadata, body)
        if not metadata.HasField("num_messages_in_batch"):
            message_id = MessageId(*position, partition, first_chunk=first_chunk)
            return [single_message(message_id, metadata, body, stamp)]
        size = metadata.num_messages_in_batch
        return [
            batched_message(MessageId(*position, partition, slot.batch_index, size), metadata, slot, stamp)
            for slot in split_batch(metadata, body)
            if not slot.metadata.compacted_out
        ]

    def _report(self, bad: Sequence[BadEntry], *, cause: Exception | None = None) -> None:
        if bad and self._options.on_error is ErrorPolicy.FAIL:
            raise EntriesUnreadable(bad) from cause
        self.bad_entries += bad
