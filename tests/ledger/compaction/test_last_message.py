"""The last message of a topic for a reader of the compacted topic."""

from tests.ledger.compaction.compacting import compacted
from tests.ledger.list_ledger import ListLedger, topic_of
from tests.ledger.messages.producer import batch, single, slot
from tracker.core.columns import Position
from tracker.ledger.compaction.last_message import last_message_read_compacted
from tracker.ledger.messages import MessageId
from tracker.ledger.topic_log import CompactedLog

PARTITION = "persistent://lab/main/parted-partition-2"
KEPT = batch([slot(0, b"a", partition_key="a"), slot(1, b"x", partition_key="x"), slot(2, b"", partition_key="x")])
DELETED = single(b"", partition_key="y")


def test_compaction_has_seen_everything():
    """Tombstones are no messages of the compacted topic: the last kept one is."""
    log = topic_of({3: [KEPT, DELETED]}, topic=PARTITION)
    assert last_message_read_compacted(log, None) == MessageId(3, 1, 2)
    assert last_message_read_compacted(log, compacted(log)) == MessageId(3, 0, 2, batch_index=0)


def test_compaction_has_not_seen_the_newest():
    """The topic's own last message it is, as one entry behind the horizon is enough."""
    left = compacted(topic_of({3: [KEPT, DELETED]}, topic=PARTITION))
    log = topic_of({3: [KEPT, DELETED], 4: [DELETED]}, topic=PARTITION)
    assert last_message_read_compacted(log, left) == MessageId(4, 0, 2)


def test_the_topic_is_gone():
    """What compaction kept is still there."""
    left = compacted(topic_of({3: [KEPT, DELETED]}, topic=PARTITION))
    assert last_message_read_compacted(topic_of({5: []}, topic=PARTITION), left) == MessageId(3, 0, 2, batch_index=0)


def test_nothing_was_kept():
    """The end of the topic is answered, as without compaction."""
    log = topic_of({3: [DELETED]}, topic=PARTITION)
    assert last_message_read_compacted(log, CompactedLog(ListLedger(9, []), Position(3, 0))) == MessageId(3, 0, 2)
    assert last_message_read_compacted(topic_of({5: []}, topic=PARTITION), None) == MessageId(5, -1, 2)
