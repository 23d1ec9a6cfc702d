"""The last message of a topic for a reader of the compacted topic."""

from tracker.ledger.compaction.service import EARLIEST, TopicCompactionService
from tracker.ledger.entry_lookup import EntryLookup
from tracker.ledger.last_message import last_message
from tracker.ledger.messages.message import MessageId
from tracker.ledger.topic_log import CompactedLog, TopicLog


def last_message_read_compacted(log: TopicLog, compacted: CompactedLog | None) -> MessageId:
    """The topic's own last message if compaction has not seen it yet; else the last that compaction kept.

    Args:
        log: the topic; its oldest ledgers, or all, may be gone.
        compacted: what compaction left of it; None when it was never compacted.
    Returns: entry -1 when there is no message.
    Raises:
        EntriesUnreadable: the last entry is missing or damaged.
    Cost: one entry.
    Source: ServerCnx.java (getLargestBatchIndexWhenPossible, handleLastMessageIdFromCompactionService).
    """
    partition = log.name.partition
    if compacted is not None and (log.last is None or log.last <= compacted.horizon):
        kept = TopicCompactionService(compacted).get_last_message_position()
        if kept != EARLIEST:
            return MessageId(kept.ledger_id, kept.entry_id, partition=partition, batch_index=kept.batch_index)
    last = last_message(EntryLookup(log))
    return MessageId(*last.position, partition=partition, batch_index=last.batch_index)
