"""Tests of the frame of a topic entry and the metadata in it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.ledger.entry.frame import (
    checksum_matches,
    encode_entry,
    parse_broker_metadata,
    parse_message_metadata,
    split_frame,
)
from delayed_tracker.ledger.errors import FrameInvalid
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata

PLAIN = bytes.fromhex("0e017cc828cb000000150a02703110071880d095ffbc319801e0a499ffbc3168656c6c6f")
STAMPED = bytes.fromhex("0e020000000908fbd095ffbc311029") + PLAIN
BATCH = bytes.fromhex(
    "0e0119336864000000120a02703110001880d095ffbc315802c0010100000007120161180140004100000007120162180240014242"
)

u64 = st.integers(0, 2**64 - 1)
i64 = st.integers(-(2**63), 2**63 - 1)


def optional(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


metadata_fields = st.fixed_dictionaries(
    {"producer_name": st.text(max_size=20), "sequence_id": u64, "publish_time": u64},
    optional={
        "partition_key": st.text(max_size=20),
        "compression": st.integers(0, 4),
        "uncompressed_size": st.integers(0, 2**32 - 1),
        "num_messages_in_batch": st.integers(-1, 2**31 - 1),
        "deliver_at_time": i64,
        "marker_type": st.integers(0, 30),
        "txnid_least_bits": u64,
        "txnid_most_bits": u64,
        "ordering_key": st.binary(max_size=20),
        "null_value": st.booleans(),
        "compacted_batch_indexes": st.lists(st.integers(0, 2**31 - 1), max_size=5),
    },
)
stamps = st.builds(BrokerEntryMetadata, broker_timestamp=optional(u64), index=optional(u64))


def test_entry_without_broker_frame():
    """Worked example A has checksum, metadata, deadline and payload."""
    frame = split_frame(PLAIN)
    metadata = parse_message_metadata(PLAIN, frame)

    assert parse_broker_metadata(PLAIN, frame) is None
    assert frame.crc == 0x7CC828CB
    assert checksum_matches(PLAIN, frame)
    assert (metadata.producer_name, metadata.sequence_id, metadata.publish_time) == ("p1", 7, 1_700_000_000_000)
    assert metadata.deliver_at_time == 1_700_000_060_000
    assert PLAIN[frame.metadata_end : frame.end] == b"hello"


def test_entry_with_broker_frame():
    """Worked example B is the same entry behind broker metadata, which the checksum does not cover."""
    frame = split_frame(STAMPED)
    broker = parse_broker_metadata(STAMPED, frame)

    assert broker is not None
    assert (broker.broker_timestamp, broker.index) == (1_700_000_000_123, 41)
    assert frame.crc == 0x7CC828CB
    assert checksum_matches(STAMPED, frame)
    assert STAMPED[frame.metadata_end : frame.end] == b"hello"


def test_batch_of_two():
    """Worked example C has the batch count in the metadata and a header for each message."""
    frame = split_frame(BATCH)
    metadata = parse_message_metadata(BATCH, frame)
    payload = BATCH[frame.metadata_end : frame.end]

    assert checksum_matches(BATCH, frame)
    assert metadata.HasField("num_messages_in_batch")
    assert (metadata.num_messages_in_batch, metadata.highest_sequence_id) == (2, 1)
    first = SingleMessageMetadata.FromString(payload[4:11])
    assert (first.partition_key, first.payload_size, first.sequence_id, payload[11:12]) == ("a", 1, 0, b"A")
    second = SingleMessageMetadata.FromString(payload[16:23])
    assert (second.partition_key, second.payload_size, second.sequence_id, payload[23:]) == ("b", 2, 1, b"BB")


def test_broker_frame_of_the_go_client():
    """Worked example D is a broker frame written by the Go client."""
    entry = bytes.fromhex("0e02000000090896f9dabef72f1005") + PLAIN
    broker = parse_broker_metadata(entry, split_frame(entry))

    assert broker is not None
    assert (broker.broker_timestamp, broker.index) == (1_646_983_036_054, 5)


def test_empty_broker_frame_is_a_frame():
    """A broker frame of zero bytes, written by a payload processor without interceptors, is a frame."""
    entry = bytes.fromhex("0e0200000000") + PLAIN
    frame = split_frame(entry)
    broker = parse_broker_metadata(entry, frame)

    assert broker is not None
    assert not broker.HasField("index")
    assert checksum_matches(entry, frame)


def test_entry_without_checksum():
    """An entry without checksum, sent by producers of old protocols, never mismatches."""
    entry = PLAIN[6:]
    frame = split_frame(entry)

    assert frame.crc == -1
    assert checksum_matches(entry, frame)
    assert parse_message_metadata(entry, frame).sequence_id == 7


def test_encoding_gives_the_worked_examples():
    """Encoding gives the worked examples byte for byte."""
    metadata = MessageMetadata(
        producer_name="p1", sequence_id=7, publish_time=1_700_000_000_000, deliver_at_time=1_700_000_060_000
    )
    stamp = BrokerEntryMetadata(broker_timestamp=1_700_000_000_123, index=41)

    assert encode_entry(metadata, b"hello") == PLAIN
    assert encode_entry(metadata, b"hello", broker_metadata=stamp) == STAMPED
    assert encode_entry(metadata, b"hello", checksum=False) == PLAIN[6:]


@given(fields=metadata_fields, stamp=optional(stamps), payload=st.binary(max_size=50), checksum=st.booleans())
def test_entries_round_trip(fields, stamp, payload, checksum):
    """Reading an encoded entry gives the fields that were written, also in the middle of a buffer."""
    metadata = MessageMetadata(**fields)
    entry = encode_entry(metadata, payload, broker_metadata=stamp, checksum=checksum)
    buffer = b"\x0e\x01before" + entry + b"\x0e\x02behind"

    frame = split_frame(buffer, 8, 8 + len(entry))

    assert parse_message_metadata(buffer, frame) == metadata
    assert parse_broker_metadata(buffer, frame) == stamp
    assert checksum_matches(buffer, frame)
    assert buffer[frame.metadata_end : frame.end] == payload


@pytest.mark.parametrize("entry", [PLAIN, STAMPED, BATCH], ids=["plain", "stamped", "batch"])
def test_a_cut_is_noticed_wherever_it_falls(entry):
    """A cut before the payload is an invalid frame, and a cut within the payload is a wrong checksum."""
    for length in range(len(entry)):
        cut = entry[:length]
        try:
            frame = split_frame(cut)
            parse_broker_metadata(cut, frame)
            parse_message_metadata(cut, frame)
        except FrameInvalid as error:
            assert error.message  # noqa: PT017  # both outcomes are right, at different places
            continue
        assert not checksum_matches(cut, frame)


def test_every_flipped_byte_behind_the_checksum_is_noticed():
    """Every changed byte of size, metadata or payload is detected."""
    for offset in range(2, len(PLAIN)):
        entry = PLAIN[:offset] + bytes([PLAIN[offset] ^ 0x40]) + PLAIN[offset + 1 :]
        try:
            frame = split_frame(entry)
        except FrameInvalid:
            continue
        assert not checksum_matches(entry, frame)


def test_cut_names_what_does_not_fit():
    """The error for a cut names the part, its offset, and the size of the entry."""
    with pytest.raises(FrameInvalid, match="21 bytes of metadata at byte 6 does not fit an entry of 20 bytes"):
        split_frame(PLAIN[:20])


@pytest.mark.parametrize("size", ["ffffffff", "7fffffff"])
def test_impossible_broker_frame_size(size):
    """A negative or huge size of the broker frame is damage and never reads other bytes."""
    with pytest.raises(FrameInvalid, match="broker metadata"):
        split_frame(bytes.fromhex("0e02" + size) + PLAIN)


def test_metadata_without_required_fields_is_refused():
    """Metadata without a required field is refused."""
    entry = bytes.fromhex("00000006 0a0270311007")

    with pytest.raises(FrameInvalid, match="lacks producer_name, sequence_id or publish_time"):
        parse_message_metadata(entry, split_frame(entry))


def test_properties_need_not_be_text():
    """Properties with arbitrary bytes, as C++ clients write them, do not make the entry unreadable."""
    header = bytes.fromhex("0a027031 1007 1801 3202ff31")
    entry = len(header).to_bytes(4, "big") + header

    assert parse_message_metadata(entry, split_frame(entry)).publish_time == 1
