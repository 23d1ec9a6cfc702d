"""Tests of the last message of a topic."""

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.queries.topic_queries import LastMessage, last_message
from delayed_tracker.ledger.topic.entry_lookup import EntryLookup
from delayed_tracker.ledger.topic.topic_log import TopicLog
from tests.ledger.harness.memory_ledgers import entry, log_of


def test_the_last_entry_is_read_and_no_other():
    """Only the last entry is read; a batch gives its last message, and a single message has no batch index."""
    lookup = EntryLookup(log_of([entry(), entry(batch=3)], []))
    assert last_message(lookup) == LastMessage(Position(3, 1), 2)
    assert lookup.touched_count == 1
    assert last_message(EntryLookup(log_of([entry(batch=1)]))) == LastMessage(Position(3, 0), 0)
    assert last_message(EntryLookup(log_of([entry(batch=3), entry()]))) == LastMessage(Position(3, 1), -1)


def test_topics_without_messages():
    """In a topic without messages, the position is before the first entry of the last ledger, or before everything."""
    assert last_message(EntryLookup(log_of([], []))) == LastMessage(Position(5, -1), -1)
    assert last_message(EntryLookup(TopicLog(log_of().name, ()))) == LastMessage(Position(-1, -1), -1)
