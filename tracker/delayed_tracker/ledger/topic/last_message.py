"""Finds the last message of a topic from the end of its ledgers, as a broker does without compaction."""

from dataclasses import dataclass

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup


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
