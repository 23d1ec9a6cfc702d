"""Finds the compacted ledger of a topic by the state of its compaction cursor."""

from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan, TopicReader
from delayed_tracker.ledger.topic_name import TopicName

COMPACTION_CURSOR: Final = "__compaction"
COMPACTED_LEDGER_PROPERTY: Final = "CompactedTopicLedger"


def read_compacted_span(reader: TopicReader, topic: TopicName) -> tuple[LedgerSpan, Position] | None:
    """Return the compacted ledger and the last position that compaction processed; None if it never ran.

    Raises:
        EntriesUnreadable: the state of the compaction cursor cannot be read.
        TopicNotFound, MetadataInvalid: as :class:`TopicReader` raises them.
    """
    if COMPACTION_CURSOR not in reader.catalogue.subscriptions(topic):
        return None
    state = reader.cursor(topic, COMPACTION_CURSOR, reader.topic_spans(topic), on_error=ErrorPolicy.FAIL).state
    ledger_id = state.properties.get(COMPACTED_LEDGER_PROPERTY)
    return None if ledger_id is None else (reader.span(ledger_id), state.mark_delete)
