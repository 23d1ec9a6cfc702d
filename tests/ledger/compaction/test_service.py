"""Tests of a broker's queries about a compacted topic (PIP-429)."""

import math

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import EARLIEST, TopicCompactionService
from delayed_tracker.ledger.compaction.compacted_entry import encode_compacted
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.messages import MessageOptions, MessageReader
from delayed_tracker.ledger.messages.batch import Slot, join_batch
from delayed_tracker.ledger.topic.topic_log import CompactedLog
from delayed_tracker.pulsar.v1.entry_pb2 import SingleMessageMetadata
from tests.ledger.compaction.compacting import COMPACTED_LEDGER_ID, compacted, messages
from tests.ledger.harness.list_ledger import ListLedger, topic_of
from tests.ledger.messages.producer import PUBLISHED_AT_MS, batch, entry, marker, metadata_of, single, slot

DROPPED = SingleMessageMetadata(payload_size=0, compacted_out=True)


def left(*entries: tuple[tuple[int, int], bytes]) -> CompactedLog:
    rows = [encode_compacted(Position(*position), -1, content) for position, content in entries]
    return CompactedLog(ListLedger(COMPACTED_LEDGER_ID, rows), Position(9, 9))


def last_of(content: bytes) -> int:
    position = TopicCompactionService(left(((5, 3), content))).get_last_message_position()
    assert position[:2] == (5, 3)
    assert position.publish_time_ms == PUBLISHED_AT_MS
    return position.batch_index


def test_without_compaction_there_is_no_last_message():
    """A topic that was never compacted, or of which nothing was kept, has no last compacted message."""
    assert EARLIEST == (-1, -1, 0, 0)
    assert TopicCompactionService(None).get_last_message_position() == EARLIEST
    assert TopicCompactionService(left()).get_last_message_position() == EARLIEST
    assert TopicCompactionService(None).last_compacted_position is None
    assert TopicCompactionService(left()).last_compacted_position == (9, 9)


def test_a_message_that_is_no_batch():
    """A message that is not a batch has batch index -1."""
    assert last_of(single(b"x", partition_key="k")) == -1


@pytest.mark.parametrize("codec", Codec)
def test_no_payload_is_touched_where_the_metadata_says_it(codec):
    """A query that the metadata can answer does not read the payload, which is invalid here."""
    metadata = metadata_of(num_messages_in_batch=9, compacted_batch_indexes=[2, 6], uncompressed_size=1 << 30)
    metadata.compression = codec
    assert last_of(entry(metadata, b"\xff" * 50)) == 6


def test_one_entry_is_read_however_many_there_are():
    """Only the last entry is read, once, however many entries there are."""
    log = left(*(((1, number), single(b"x", partition_key="k")) for number in range(50)))

    assert TopicCompactionService(log).get_last_message_position()[:3] == (1, 49, -1)
    assert log.ledger.entries_read == 1


@pytest.mark.parametrize("codec", Codec)
def test_entries_of_old_compactors_say_it_in_their_slots(codec):
    """In an entry of an old compactor, the last slot that was not dropped is the last message."""
    slots = [Slot(0, DROPPED, b""), slot(1, b"x", partition_key="k"), Slot(2, DROPPED, b"")]
    assert last_of(batch(slots, codec=codec)) == 1
    assert last_of(batch(slots[1:], codec=codec)) == 0
    assert last_of(batch([slot(0, b"x", partition_key="k")], codec=codec)) == 0


def test_of_an_encrypted_batch_it_is_the_last_slot():
    """In an encrypted batch, the last slot is the last message, unless the metadata lists the kept slots."""
    keys = [{"key": "k", "value": b""}]
    assert last_of(entry(metadata_of(num_messages_in_batch=4, encryption_keys=keys), b"??")) == 3
    assert last_of(entry(metadata_of(encryption_keys=keys), b"??")) == -1
    metadata = metadata_of(num_messages_in_batch=4, encryption_keys=keys, compacted_batch_indexes=[1])
    assert last_of(entry(metadata, b"??")) == 1


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cut short"),
        (entry(metadata_of(num_messages_in_batch=2), b"??"), "cut short: message 0"),
        (entry(metadata_of(num_messages_in_batch=1, compression=Codec.LZ4, uncompressed_size=9), b"?"), "LZ4"),
        (batch([Slot(0, DROPPED, b"")]), "all messages of the batch were dropped"),
    ],
)
def test_a_damaged_last_entry_is_an_error(content, why):
    """A damaged last entry raises an error with the id of the entry in the compacted ledger."""
    with pytest.raises(EntriesUnreadable, match=rf"entry 1000:0: .*{why}"):
        TopicCompactionService(left(((5, 3), content))).get_last_message_position()


def test_a_missing_last_entry_is_an_error():
    """A missing last entry is an error and is not replaced by the entry before it."""
    log = CompactedLog(ListLedger(COMPACTED_LEDGER_ID, [None]), Position(9, 9))
    with pytest.raises(EntriesUnreadable, match="entry 1000:0: missing"):
        TopicCompactionService(log).get_last_message_position()


def test_where_a_time_begins():
    """The first entry at or after a time is found in few reads; None if all are older or there is none."""
    log = left(*(((1, 2 * number), single(b"x", publish_time=100 + 10 * number)) for number in range(64)))
    service = TopicCompactionService(log)

    assert service.find_entry_by_publish_time(0) == (1, 0)
    assert service.find_entry_by_publish_time(110) == (1, 2)
    assert service.find_entry_by_publish_time(111) == (1, 4)
    assert service.find_entry_by_publish_time(730) == (1, 126)
    assert service.find_entry_by_publish_time(731) is None
    assert log.ledger.entries_read <= 5 * (math.log2(64) + 1)
    assert TopicCompactionService(None).find_entry_by_publish_time(0) is None
    assert TopicCompactionService(left()).find_entry_by_publish_time(0) is None


def test_entries_from_a_position_on():
    """A read starts at the position or the next entry behind it, and never exceeds the limit or the end."""
    log = left(*((position, single(b"%d:%d" % position)) for position in [(1, 3), (1, 7), (4, 0), (4, 1), (8, 2)]))
    service = TopicCompactionService(log)

    def positions(start: tuple[int, int], count: int) -> list[tuple[int, int]]:
        return list(service.read_compacted_entries(Position(*start), count).entries.positions)

    assert positions((-1, -1), 2) == [(1, 3), (1, 7)]
    assert positions((1, 3), 1) == [(1, 3)]
    assert positions((1, 4), 9) == [(1, 7), (4, 0), (4, 1), (8, 2)]
    assert positions((4, 1), 1) == [(4, 1)]
    assert positions((8, 3), 1) == []
    assert len(TopicCompactionService(None).read_compacted_entries(Position(0, 0), 1).entries) == 0


def test_a_consumer_changes_ledgers_at_the_horizon():
    """A consumer reads the compacted ledger up to the horizon and the topic behind it, from any start."""
    topic = {1: [single(b"%d" % n, partition_key="k") for n in range(4)], 2: [single(b"new", partition_key="k")]}
    log = topic_of(topic)
    kept = compacted(log, through=Position(1, 2))

    def ids(start: Position | None) -> list[tuple[int, int]]:
        return [message.id.position for message in messages(log, kept, start=start)]

    assert kept.horizon == (1, 2)
    assert ids(None) == ids(Position(1, 1)) == [(1, 2), (1, 3), (2, 0)]
    assert ids(Position(1, 3)) == [(1, 3), (2, 0)]
    assert ids(Position(2, 0)) == [(2, 0)]
    assert [message.id.position for message in messages(log, None)] == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0)]


def test_a_consumer_that_begins_at_the_horizon_does_not_see_what_was_dropped_there():
    """A consumer that starts at the horizon receives no dropped message there, because the horizon is compacted."""
    log = topic_of({1: [single(b"a", partition_key="a"), single(b"", partition_key="a", null_value=True)]})
    kept = compacted(log)
    assert kept.horizon == (1, 1)
    assert messages(log, kept, start=Position(1, 1)) == messages(log, kept) == []


def test_a_trimmed_marker_is_not_missed():
    """A kept message of a transaction counts as committed, although its marker was trimmed."""
    in_txn = single(b"x", partition_key="k", txnid_most_bits=0, txnid_least_bits=1)
    log = topic_of({1: [in_txn, marker(21, (0, 1))], 2: [single(b"y", partition_key="l")]})
    kept = compacted(log)

    trimmed = topic_of({2: [single(b"y", partition_key="l")]})

    assert [message.payload for message in messages(trimmed, kept)] == [b"x", b"y"]


def test_only_the_retained_messages_are_there():
    """A batch with only its retained messages, as the proposal describes it, is read."""
    metadata = metadata_of(num_messages_in_batch=4, compacted_batch_indexes=[1, 3])
    content = entry(metadata, join_batch([slot(0, b"b", partition_key="k"), slot(0, b"d", partition_key="l")]), index=9)

    ours = messages(topic_of({}), left(((5, 3), content)))

    assert [(str(message.id), message.payload, message.index) for message in ours] == [
        ("5:3:-1:1", b"b", 7),
        ("5:3:-1:3", b"d", 9),
    ]


def test_batches_that_the_strategic_compactor_made():
    """The strategic compactor renumbers kept messages under the position of the last; a single one is not a batch."""
    two = batch([slot(0, b"a", partition_key="k"), slot(1, b"b", partition_key="l")])
    one = single(b"c", partition_key="m")

    ours = messages(topic_of({}), left(((5, 3), two), ((5, 9), one)))

    assert [(str(message.id), message.key, message.payload) for message in ours] == [
        ("5:3:-1:0", "k", b"a"),
        ("5:3:-1:1", "l", b"b"),
        ("5:9:-1", "m", b"c"),
    ]


def test_damage_in_a_compacted_ledger_fails_or_is_listed():
    """Damage in a compacted ledger raises or is listed, as the reader's policy says."""
    log = left(((5, 3), single(b"a")))
    log.ledger.payloads.append(b"no compacted entry")

    with pytest.raises(EntriesUnreadable, match="entry 1000:1: cut short"):
        messages(topic_of({}), log)

    reader = MessageReader(topic_of({}), MessageOptions(on_error=ErrorPolicy.SKIP))
    assert [message.payload for message in TopicCompactionService(log).read_compacted(reader)] == [b"a"]
    assert [bad.entry_id for bad in reader.bad_entries] == [1]
