"""Reads the messages of one entry, at any place in its topic.

If the entry is a piece of a message, the reader searches for the first piece before it and for the last one behind it.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, scan_entries
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy, MessageNotVisible
from delayed_tracker.ledger.messages.message import Message
from delayed_tracker.ledger.messages.reader import MessageOptions, MessageReader
from delayed_tracker.ledger.messages.visibility import TransactionView, position_of
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import TopicLog
from delayed_tracker.ledger.topic.transactions import TransactionOutcome
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

LOOK_BACK_ENTRIES_MAX: Final = 10_000
"""Number of entries before a piece of a message in which its first piece is searched for."""


def messages_of_entry(log: TopicLog, position: Position, options: MessageOptions | None = None) -> list[Message]:
    """Return the messages of one entry: a message, those of a batch, or the whole message that the entry is a piece of.

    Args:
        log: the topic.
        position: the position of an existing entry.
        options: how to read; any problem with the entry is an error.
    Raises:
        LedgerNotFound: the topic has no such ledger.
        InvalidInput: the ledger has no such entry.
        MessageNotVisible: consumers receive nothing of the entry; the message gives the reason.
        EntriesUnreadable: the entry is missing or damaged, or cannot be decrypted; or it is in a transaction whose marker
            may be an entry that is.
    Cost: one entry; for an entry of a transaction also the search for its marker; for a piece, all entries from the
        first piece to the last.
    """
    options = replace(options or MessageOptions(), on_error=ErrorPolicy.FAIL)
    ledger = log.ledger(position.ledger_id)
    if isinstance(ledger, AbsentLedger) and ledger.entry_count is None:
        raise EntriesUnreadable(ledger.read(position.entry_id, position.entry_id).bad_entries)
    if not 0 <= position.entry_id <= ledger.last_entry_id:
        held = f"entries 0 to {ledger.last_entry_id}" if ledger.last_entry_id >= 0 else "no entries"
        raise InvalidInput("position", str(position), f"ledger {position.ledger_id} has {held}")
    lookup = EntryLookup(log)
    number = lookup.number(position)
    metadata = lookup.metadata(number)
    if metadata.num_chunks_from_msg > 1:
        return [_whole(log, _first_piece(lookup, number, metadata), position, options)]
    piece = ledger.read(position.entry_id, position.entry_id)
    messages = list(MessageReader(log, options).read_pieces([piece]))
    if not messages:
        raise MessageNotVisible(str(position), _why_hidden(log, scan_entries(piece.entries)))
    return messages


def _first_piece(lookup: EntryLookup, number: int, metadata: MessageMetadata) -> Position:
    for earlier in range(number, max(number - LOOK_BACK_ENTRIES_MAX, -1), -1):
        try:
            found = lookup.metadata(earlier)
        except EntriesUnreadable:
            continue  # a damaged entry before the piece may belong to another message
        if found.uuid == metadata.uuid and found.num_chunks_from_msg > 1 and found.chunk_id == 0:
            return lookup.position(earlier)
    raise MessageNotVisible(
        str(lookup.position(number)),
        f"it is piece {metadata.chunk_id + 1} of {metadata.num_chunks_from_msg} of a message, whose first piece is not "
        f"among the readable ones of the {LOOK_BACK_ENTRIES_MAX} entries before it",
    )


def _whole(log: TopicLog, first: Position, position: Position, options: MessageOptions) -> Message:
    """Return the message that begins at ``first``; damaged entries between its pieces are skipped."""
    reader = MessageReader(log, replace(options, on_error=ErrorPolicy.SKIP))
    for message in _until_given_up(reader, first):
        if message.id.first_chunk == first:
            return message
    given_up = next((str(lost) for lost in reader.incomplete if lost.first == first), None)
    raise MessageNotVisible(
        str(position), given_up or f"it is a piece of a message that begins at {first} and is hidden"
    )


def _until_given_up(reader: MessageReader, first: Position) -> Iterator[Message]:
    for message in reader.read(first):
        if any(lost.first == first for lost in reader.incomplete):
            return
        yield message


def _why_hidden(log: TopicLog, columns: EntryColumns) -> str:
    if columns.has(EntryFlag.MARKER).any():
        return "it is a marker of the broker's"
    transactions = TransactionView(log)
    outcome = int(transactions.outcomes(columns)[0])
    if outcome == TransactionOutcome.ABORTED:
        return "its transaction was aborted"
    if outcome == TransactionOutcome.OPEN:
        unreadable = transactions.unreadable_behind(position_of(columns, 0))
        if unreadable:
            raise EntriesUnreadable(unreadable)
        return "its transaction is neither committed nor aborted"
    return "compaction dropped all of its messages"
