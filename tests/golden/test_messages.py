"""Golden test of every message of every topic, which equals what a real reader received."""

import base64
import hashlib
from collections import defaultdict
from typing import Any

from delayed_tracker.ledger.messages import Message, MessageOptions, MessageReader, load_key_files
from tests.golden.pulsar_pack import PACK, expected

KEYS = load_key_files({"test-key": PACK / "keys" / "private.pem"})


def as_recorded(topic: str, number: int, message: Message) -> dict[str, Any]:
    """Return our message in the form of the pack."""
    row = {
        "topic": topic,
        "n": number,
        "id": _id(message),
        "length": -1 if message.null_value else len(message.payload),
        "sha256": hashlib.sha256(message.payload).hexdigest(),
        "null_value": message.null_value,
        "publish_time": message.publish_time_ms,
        "event_time": message.event_time_ms,
        "producer": message.producer,
        "sequence_id": message.sequence_id,
        "broker_publish_time": message.broker_publish_time_ms,
        "index": message.index,
        "properties": dict(message.properties),
    }
    if message.key is not None:
        row |= {"key": message.key, "key_b64": message.key_base64}
    if message.ordering_key is not None:
        row["ordering_key"] = base64.b64encode(message.ordering_key).decode()
    if message.schema_version is not None:
        row["schema_version"] = message.schema_version.hex()
    return row


def _id(message: Message) -> dict[str, Any]:
    ident = message.id
    row = {
        "ledger": ident.ledger_id,
        "entry": ident.entry_id,
        "partition": ident.partition,
        "batch_index": ident.batch_index,
        "batch_size": ident.batch_size,
    }
    if ident.first_chunk is not None:
        ledger, entry = ident.first_chunk
        row["first_chunk"] = {**row, "ledger": ledger, "entry": entry}
    return row


def test_every_message_of_every_topic(disk):
    """Ids, payloads, keys, properties, times and indexes of 13,961 messages are equal; none is bad or incomplete."""
    seen = defaultdict(list)
    for row in expected("messages"):
        seen[row["topic"]].append(row)
    # The internal topics of a namespace have no readers.
    assert set(seen) == {topic for topic in disk.topics() if "/__" not in topic}
    for topic, rows in seen.items():
        reader = MessageReader(disk.topic_log(topic), MessageOptions(keys=KEYS))

        ours = [as_recorded(topic, number, message) for number, message in enumerate(reader.read())]

        assert ours == rows, topic
        assert reader.incomplete == []
    assert sum(map(len, seen.values())) == 13_961
