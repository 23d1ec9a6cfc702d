"""Tests of ids and keys of messages."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.ledger.messages import Message, MessageReader
from delayed_tracker.ledger.messages.batch import join_batch
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import batch, entry, metadata_of, single, slot


def only(entry: bytes, *, topic: str = "persistent://lab/main/orders") -> Message:
    (message,) = MessageReader(topic_of({4: [entry]}, topic=topic)).read()
    return message


def test_keys_are_text_or_any_bytes():
    """A key that is not text is stored as base64, and a message without a key has no key bytes."""
    assert only(single(b"", partition_key="käse")).key_bytes == "käse".encode()
    assert only(single(b"", partition_key="AP8=", partition_key_b64_encoded=True)).key_bytes == b"\0\xff"
    assert only(single(b"")).key_bytes is None


def test_keys_and_properties_that_are_not_text_are_escaped():
    """Bytes that are not UTF-8, which other clients may send, are escaped in text; the key is there as bytes, too."""
    fields = {"partition_key": "k?", "properties": [{"key": "a?", "value": "v?"}]}
    # Protobuf refuses such text when it is set, and returns bytes for it when it is read.
    metadata = MessageMetadata.FromString(metadata_of(**fields).SerializeToString().replace(b"?", b"\xff"))
    alone = only(entry(metadata, b"x"))
    slots = join_batch([slot(0, b"x", **fields)]).replace(b"?", b"\xff")
    in_batch = only(entry(metadata_of(num_messages_in_batch=1), slots))
    for found in (alone, in_batch):
        assert (found.key, found.properties) == (r"k\xff", {r"a\xff": r"v\xff"})
        assert found.key_bytes == b"k\xff"


def test_a_key_that_only_claims_to_be_base64_is_an_error():
    """A key that is marked as base64 and is not raises, and the stored key can still be read."""
    message = only(single(b"x", partition_key="A", partition_key_b64_encoded=True))

    assert (message.key, message.payload) == ("A", b"x")
    with pytest.raises(PayloadInvalid, match="message 4:0:-1: key 'A' is no base64"):
        _ = message.key_bytes


def test_ids_print_as_pulsar_prints_them():
    """Ids print as in Pulsar, with the batch index only inside a batch, and with the partition, if any."""
    assert str(only(single(b"")).id) == "4:0:-1"
    assert str(only(batch([slot(0, b"")]), topic="lab/main/orders-partition-12").id) == "4:0:12:0"
    assert only(single(b"")).id.position == Position(4, 0)


@pytest.mark.parametrize("name", ["orders", "orders-partition-", "orders-partition-x", "orders-partition-01"])
def test_other_topics_are_no_partitions(name):
    """A topic is a partition only if a plain number follows the word."""
    assert only(single(b""), topic=f"lab/main/{name}").id.partition == -1
