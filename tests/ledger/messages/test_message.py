"""Tests of ids and keys of messages."""

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.ledger.messages import Message, MessageReader
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.messages.producer import batch, single, slot


def only(entry: bytes, *, topic: str = "persistent://lab/main/orders") -> Message:
    (message,) = MessageReader(topic_of({4: [entry]}, topic=topic)).read()
    return message


def test_keys_are_text_or_any_bytes():
    """A key that is not text is stored as base64, and a message without a key has no key bytes."""
    assert only(single(b"", partition_key="käse")).key_bytes == "käse".encode()
    assert only(single(b"", partition_key="AP8=", partition_key_b64_encoded=True)).key_bytes == b"\0\xff"
    assert only(single(b"")).key_bytes is None


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
