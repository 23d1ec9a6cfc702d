"""The last message of a topic, as its ledgers end: what a broker answers that knows of no compaction."""

from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup


@dataclass(frozen=True, slots=True)
class LastMessage:
    """Where the last message is."""

    position: Position
    """Entry -1 of the last ledger in a topic without entries, (-1, -1) in one without ledgers."""
    batch_index: int
    """Its place in the batch; -1 outside of a batch."""


def last_message(lookup: EntryLookup) -> LastMessage:
    """The last message, whatever it is: also a system message, or one of a transaction that is open or was aborted.

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
