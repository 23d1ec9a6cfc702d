"""Compacts topics in memory."""

from delayed_tracker.ledger.compaction import Compaction, CompactionSummary, TopicCompactionService
from delayed_tracker.ledger.compaction.compacted_entry import unwrap_compacted
from delayed_tracker.ledger.messages import Message, MessageOptions, MessageReader
from delayed_tracker.ledger.topic.topic_log import CompactedLog, TopicLog
from tests.ledger.harness.list_ledger import ListLedger

COMPACTED_LEDGER_ID = 1000


class EntryList(list[bytes]):
    """Writer of compacted ledgers into a list."""


def compacted(log: TopicLog, *, previous: CompactedLog | None = None, **options) -> CompactedLog:
    """Compact a topic; without new entries, return the previous result."""
    if previous is not None and Compaction(log=log, previous=previous, **options).choose() is None:
        return previous
    return compacted_with_summary(log, previous=previous, **options)[0]


def compacted_with_summary(log: TopicLog, **options) -> tuple[CompactedLog, CompactionSummary]:
    compaction = Compaction(log=log, **options)
    plan = compaction.choose()
    assert plan is not None
    entries = EntryList()
    summary = compaction.write(plan, entries)
    return CompactedLog(ListLedger(COMPACTED_LEDGER_ID, entries), plan.horizon), summary


def messages(
    log: TopicLog, left: CompactedLog | None, options: MessageOptions | None = None, start=None
) -> list[Message]:
    """Return the messages that a consumer of the compacted topic receives."""
    return list(TopicCompactionService(left).read_compacted(MessageReader(log, options), start))


def kept(log: TopicLog, left: CompactedLog) -> list[tuple[str | None, bytes]]:
    """Return keys and payloads of the messages that a consumer receives."""
    return [(message.key, message.payload) for message in messages(log, left)]


def entries_of(left: CompactedLog) -> list[bytes]:
    """Return the entries that compaction wrote, without the positions in front."""
    read = unwrap_compacted(left.ledger.read(0, left.ledger.last_entry_id)).entries
    return [read.payload(row) for row in range(len(read))]
