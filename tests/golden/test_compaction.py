"""Golden tests of the compacted ledgers of a real Pulsar, read and made again."""

import hashlib
from collections import defaultdict

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction import Compaction, TopicCompactionService
from delayed_tracker.ledger.compaction.compacted_entry import unwrap_compacted
from delayed_tracker.ledger.compaction.compacted_ledger import scan_compacted
from delayed_tracker.ledger.compaction.rebatch import batch_slots
from delayed_tracker.ledger.compression import Codec
from delayed_tracker.ledger.entry.frame import parse_broker_metadata, parse_message_metadata, split_frame
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.messages import MessageOptions, MessageReader
from tests.golden.pulsar_pack import expected
from tests.golden.test_messages import KEYS, as_recorded

TOPICS = ["persistent://lab/main/compacted", "persistent://lab/main/compacted-enc"]


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(scope="module")
def recorded():
    rows = defaultdict(list)
    for row in expected("compacted_entries"):
        rows[row["compacted_topic"]].append(row)
    return rows


@pytest.mark.parametrize("topic", TOPICS)
def test_every_entry_of_a_compacted_ledger(disk, recorded, topic):
    """Every compacted entry has the recorded position and bytes, and the recorded slots if its batch is decodable."""
    ours = []
    for piece in scan_compacted(disk.compacted_log(topic).ledger):
        assert piece.bad_entries == ()
        for row, position in enumerate(piece.entries.positions):
            entry = piece.entries.payload(row)
            frame = split_frame(entry)
            metadata = parse_message_metadata(entry, frame)
            slots = []
            if metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys:
                slots = [
                    {
                        "compacted_out": slot.metadata.compacted_out,
                        "key": slot.metadata.partition_key if slot.metadata.HasField("partition_key") else None,
                        "payload_size": len(slot.body),
                        "null_value": slot.metadata.null_value,
                        "sha256": sha256(slot.body),
                    }
                    for slot in batch_slots(metadata, entry[frame.metadata_end :])
                ]
            ours.append((*position, sha256(entry), list(metadata.compacted_batch_indexes), slots))

    assert ours == [
        (row["ledger"], row["entry"], row["sha256"], row["compacted_batch_indexes"], row["slots"])
        for row in recorded[topic]
    ]


def test_what_a_compacted_consumer_saw(disk):
    """A consumer gets the compacted ledger up to the horizon and the topic behind it, as recorded."""
    seen = defaultdict(list)
    for row in expected("messages_compacted"):
        seen[row["topic"]].append(row)
    assert sorted(seen) == TOPICS
    for topic, rows in seen.items():
        reader = MessageReader(disk.topic_log(topic), MessageOptions(keys=KEYS))
        messages = TopicCompactionService(disk.compacted_log(topic)).read_compacted(reader)
        assert [as_recorded(topic, number, message) for number, message in enumerate(messages)] == rows
        assert reader.incomplete == []


@pytest.mark.parametrize("topic", TOPICS)
def test_the_last_message_position(disk, recorded, topic):
    """The last message is the last kept slot of the last entry, or the last slot if the batch is encrypted."""
    last = recorded[topic][-1]
    kept = last["compacted_batch_indexes"] or [(last["num_messages_in_batch"] or 0) - 1]

    position = TopicCompactionService(disk.compacted_log(topic)).get_last_message_position()

    assert position == (last["ledger"], last["entry"], kept[-1], last["publish_time"])


@pytest.mark.parametrize("topic", TOPICS)
def test_where_a_time_begins(disk, topic):
    """A search by time in the compacted ledger gives the broker's answer up to the horizon."""
    compacted = disk.compacted_log(topic)
    service = TopicCompactionService(compacted)
    compared = 0
    for row in expected("by_timestamp"):
        if row["topic"] == topic:
            answer = Position(row["admin_message_id"]["ledger"], row["admin_message_id"]["entry"])
            ours = service.find_entry_by_publish_time(row["timestamp"])
            assert ours == (answer if answer <= compacted.horizon else None)
            compared += ours is not None
    assert compared >= 11


class ListWriter(list[bytes]):
    """Writer of a compacted ledger in memory."""


@pytest.mark.parametrize("topic", TOPICS)
def test_our_compaction_is_pulsars(disk, recorded, topic):
    """Our compaction gives Pulsar's bytes, except for LZ4, where metadata and slots are the same.

    The batches of both topics are uncompressed, ZLIB or LZ4. test_compression compares the bytes of each compressor.
    """
    compacted = disk.compacted_log(topic)
    theirs = compacted.ledger.read(0, compacted.ledger.last_entry_id).entries
    compaction = Compaction(log=disk.topic_log(topic), through=compacted.horizon)
    ours = ListWriter()

    plan = compaction.choose()
    summary = compaction.write(plan, ours)

    assert plan.horizon == compacted.horizon
    assert dict(plan.custom_metadata) == dict(disk.catalogue.ledger(compacted.ledger.ledger_id).custom)
    assert summary.entry_count == len(ours) == len(theirs) == len(recorded[topic])
    assert summary.payload_bytes == sum(map(len, ours))
    assert {row["compression"] for row in recorded[topic]} == {None, Codec.ZLIB.name, Codec.LZ4.name}
    for row, compacted_entry in enumerate(ours):
        if recorded[topic][row]["compression"] == Codec.LZ4.name:
            assert decompressed(compacted_entry) == decompressed(theirs.payload(row))
        else:
            assert compacted_entry == theirs.payload(row)


def decompressed(compacted_entry: bytes) -> tuple[object, ...]:
    """Return the content of an entry of a compacted ledger, independent of the compressor."""
    unwrapped = unwrap_compacted(LedgerEntries(StoredEntries.of(1, [0], [compacted_entry]))).entries
    entry = unwrapped.payload(0)
    frame = split_frame(entry)
    metadata = parse_message_metadata(entry, frame)
    slots = batch_slots(metadata, entry[frame.metadata_end :])
    return list(unwrapped.positions), parse_broker_metadata(entry, frame), metadata, slots
