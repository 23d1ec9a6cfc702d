"""Tests of reading a topic's messages as a consumer receives them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compression import Codec, compress
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.errors import EntriesUnreadable, ErrorPolicy
from delayed_tracker.ledger.messages import Message, MessageOptions, MessageReader, OpenTransactions
from tests.ledger.harness.list_ledger import topic_of
from tests.ledger.harness.log_files import flipped
from tests.ledger.messages.producer import PUBLISHED_AT_MS, batch, entry, marker, metadata_of, single, slot

ONE, TWO = (0, 1), (0, 2)
SKIP = MessageOptions(on_error=ErrorPolicy.SKIP)


def in_txn(payload: bytes, txn: tuple[int, int]) -> bytes:
    return single(payload, txnid_most_bits=txn[0], txnid_least_bits=txn[1])


def payloads(log, options: MessageOptions | None = None, start: Position | None = None) -> list[bytes]:
    return [message.payload for message in MessageReader(log, options).read(start)]


def test_everything_a_producer_says_about_one_message():
    """A message that is not a batch has times, names, key and properties from its metadata."""
    (message,) = MessageReader(
        topic_of(
            {
                3: [
                    single(
                        b"hello",
                        index=9,
                        partition_key="k",
                        ordering_key=b"o",
                        event_time=5,
                        deliver_at_time=-6,
                        schema_version=b"\0\1",
                        properties=[{"key": "a", "value": "b"}],
                    )
                ]
            }
        )
    ).read()

    assert (message.payload, message.key, message.ordering_key, dict(message.properties)) == (
        b"hello",
        "k",
        b"o",
        {"a": "b"},
    )
    assert (message.publish_time_ms, message.event_time_ms, message.deliver_at_ms) == (PUBLISHED_AT_MS, 5, -6)
    assert (message.producer, message.sequence_id, message.schema_version) == ("p1", 7, b"\0\1")
    assert (message.broker_publish_time_ms, message.index) == (PUBLISHED_AT_MS + 5, 9)
    assert not message.null_value


def test_each_message_of_a_batch_speaks_for_itself():
    """Each message of a batch has its own key, properties and sequence id, and inherits nothing from its neighbours."""
    own = {"partition_key": "k", "sequence_id": 40, "event_time": 5, "null_value": True}
    one = slot(0, b"", **own, properties=[{"key": "a", "value": "b"}])
    log = topic_of({1: [batch([one, slot(1, b"x")], index=11, partition_key="first", event_time=3, deliver_at_time=8)]})

    first, second = MessageReader(log).read()

    assert (first.key, first.sequence_id, first.event_time_ms, first.null_value) == ("k", 40, 5, True)
    assert (second.key, second.sequence_id, second.event_time_ms, second.null_value) == (None, 7, 3, False)
    assert (dict(first.properties), dict(second.properties)) == ({"a": "b"}, {})
    assert [message.index for message in (first, second)] == [10, 11]
    assert {message.deliver_at_ms for message in (first, second)} == {8}
    assert [(m.id.batch_index, m.id.batch_size) for m in (first, second)] == [(0, 2), (1, 2)]


def test_a_batch_of_one_is_a_batch():
    """A batch of one message is a batch, because the field is present."""
    (message,) = MessageReader(topic_of({1: [batch([slot(0, b"x")])]})).read()
    assert (message.payload, message.id.batch_index, message.id.batch_size) == (b"x", 0, 1)


def test_compacted_slots_are_no_messages():
    """Compacted slots are left out, and the other messages keep their batch indexes."""
    slots = [slot(0, b"", compacted_out=True), slot(1, b"x"), slot(2, b"", compacted_out=True)]
    (message,) = MessageReader(topic_of({1: [batch(slots, index=8)]})).read()
    assert (message.payload, message.id.batch_index, message.index) == (b"x", 1, 7)


def test_markers_are_no_messages():
    """Markers of any kind are not messages."""
    log = topic_of({1: [single(b"a"), single(b"", marker_type=10), single(b"", marker_type=0), single(b"b")]})
    assert payloads(log) == [b"a", b"b"]


def test_aborted_messages_are_left_out():
    """Aborted messages are left out by the markers in a later ledger, entry by entry."""
    log = topic_of(
        {
            1: [single(b"a"), in_txn(b"no", ONE), in_txn(b"yes", TWO), single(b"b")],
            2: [in_txn(b"no", ONE), marker(22, ONE), single(b"c"), marker(21, TWO)],
        }
    )
    assert payloads(log) == [b"a", b"yes", b"b", b"c"]
    assert payloads(log, start=Position(1, 2)) == [b"yes", b"b", b"c"]


def test_consumers_wait_for_an_open_transaction():
    """No message behind the first of an open transaction is returned, unless the reader ignores open transactions."""
    ended = [single(b"a"), in_txn(b"yes", TWO), marker(21, TWO)]
    log = topic_of({1: ended, 2: [in_txn(b"open", ONE), single(b"b")], 3: [single(b"c")]})

    assert payloads(log) == [b"a", b"yes"]
    assert payloads(log, MessageOptions(open_transactions=OpenTransactions.SKIP)) == [b"a", b"yes", b"b", b"c"]


def test_looking_ahead_reads_the_topic_once():
    """With many transactions that end at the end of the topic, no entry is read more than twice."""
    ids = [(0, number) for number in range(20)]
    log = topic_of({1: [in_txn(b"%d" % n, txn) for n, txn in enumerate(ids)] + [marker(21, txn) for txn in ids]})

    assert len(payloads(log)) == 20
    assert log.ledgers[0].entries_read == 2 * 40


def test_markers_that_are_known_are_not_sorted_for_each_piece(monkeypatch):
    """A topic of many transactions costs as much for each entry as one of few, however many markers are known."""
    count, sorted_rows = 90, []
    unique = np.unique

    def counted(array, **options):
        sorted_rows.append(len(array))
        return unique(array, **options)

    monkeypatch.setattr(np, "unique", counted)
    ids = [(1, number) for number in range(count)]
    rows = [in_txn(b"%d" % number, (1, number)) for number in range(count)] + [marker(21, one) for one in ids]
    assert len(list(MessageReader(topic_of({1: rows})).read())) == count
    assert sum(sorted_rows) <= len(rows)


def test_topics_without_transactions_are_read_once():
    """A topic without transactions is read once."""
    log = topic_of({1: [single(b"a")] * 10})
    payloads(log)
    assert log.ledgers[0].entries_read == 10


def test_damage_fails_or_is_listed():
    """A missing entry, a wrong checksum, or bytes that do not decompress raise or are listed."""
    broken = entry(metadata_of(uncompressed_size=100, compression=Codec.LZ4), b"no lz4 block")
    log = topic_of({1: [single(b"a"), None, flipped(single(b"b"), -1), broken, single(b"c")]})

    with pytest.raises(EntriesUnreadable, match="entry 1:1: missing"):
        payloads(log)

    reader = MessageReader(log, SKIP)
    assert [message.payload for message in reader.read()] == [b"a", b"c"]
    assert [bad.entry_id for bad in reader.bad_entries] == [1, 2, 3]
    assert "12 bytes of LZ4 do not decompress" in reader.bad_entries[2].reason


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZLIB, Codec.ZSTD, Codec.SNAPPY])
def test_a_promise_of_gigabytes_allocates_nothing(codec):
    """A claim of gigabytes allocates nothing: no format expands that much, and no message may exceed the limit."""
    few = entry(metadata_of(uncompressed_size=1 << 30, compression=codec), b"abc")
    large = single(bytes(1000), codec=codec)
    for log, options, why in [
        (topic_of({1: [few]}), MessageOptions(message_bytes_max=1 << 30), "can never give 1073741824 bytes"),
        (topic_of({1: [few]}), MessageOptions(), "more than the limit of 67108864; if such messages were sent, give"),
        (
            topic_of({1: [large]}),
            MessageOptions(message_bytes_max=999),
            "1000 bytes uncompressed are more than the limit",
        ),
    ]:
        with pytest.raises(EntriesUnreadable, match=why):
            payloads(log, options)


def test_the_size_of_what_is_not_compressed_is_its_own():
    """The stated size of an uncompressed payload, correct or missing, is ignored."""
    assert payloads(topic_of({1: [encode_entry(metadata_of(), b"hello"), single(b"there")]})) == [b"hello", b"there"]


messages_of_a_batch = st.lists(
    st.tuples(st.binary(max_size=30), st.none() | st.text(max_size=4)), min_size=1, max_size=5
)


@given(
    entries=st.lists(
        st.tuples(messages_of_a_batch, st.sampled_from(Codec), st.booleans(), st.booleans()), min_size=1, max_size=6
    )
)
def test_what_producers_put_in_comes_out(entries):
    """Any mixture of single messages, batches, codecs and frames is read back as it was produced."""
    stored, wanted, index = [], [], -1
    for messages, codec, as_batch, framed in entries:
        if as_batch:
            index += len(messages)
            slots = [
                slot(number, body) if key is None else slot(number, body, partition_key=key)
                for number, (body, key) in enumerate(messages)
            ]
            stored.append(batch(slots, codec=codec, index=index if framed else None))
            first = index - len(messages) + 1
            wanted += [(body, key, first + number if framed else None) for number, (body, key) in enumerate(messages)]
        else:
            index += 1
            body, key = messages[0]
            fields = {} if key is None else {"partition_key": key}
            stored.append(single(body, codec=codec, index=index if framed else None, **fields))
            wanted.append((body, key, index if framed else None))

    ours = list(MessageReader(topic_of({7: stored})).read())

    assert [(message.payload, message.key, message.index) for message in ours] == wanted
    assert [message.id.position for message in ours] == sorted(message.id.position for message in ours)


SMALL = batch([slot(0, b"one", partition_key="a"), slot(1, b"two")], codec=Codec.ZLIB)


@pytest.mark.parametrize("mask", [0x01, 0x10, 0x80, 0xFF])
def test_a_damaged_batch_is_an_error_or_right(mask):
    """A batch entry with any changed byte is an error or gives the right messages."""
    right = list(MessageReader(topic_of({1: [SMALL]})).read())
    for at in range(len(SMALL)):
        assert of_damaged(flipped(SMALL, at, mask)) in ([], right), at


def test_a_damaged_batch_without_a_checksum_never_breaks_the_reader():
    """A damaged batch without checksum, from an old protocol, may give wrong values but no other error."""
    plain = join_without_checksum()
    for mask in range(1, 256, 7):
        for at in range(len(plain)):
            of_damaged(flipped(plain, at, mask))


def join_without_checksum() -> bytes:
    payload = bytes.fromhex("00000007120161180140004100000007120162180240014242")
    metadata = metadata_of(num_messages_in_batch=2, uncompressed_size=len(payload), compression=Codec.LZ4)
    return encode_entry(metadata, compress(Codec.LZ4, payload), checksum=False)


def of_damaged(damaged: bytes) -> list[Message]:
    return list(MessageReader(topic_of({1: [damaged]}), SKIP).read())
