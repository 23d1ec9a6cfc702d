"""Tests that columns are cut out of messages, and appended to them, as protobuf does it, in every encoding."""

import random

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire import message_columns as wire_columns
from delayed_tracker.wire.calls import ACKS_MAX
from delayed_tracker.wire.column_fields import Columned, ColumnFields, varint
from delayed_tracker.wire.message_columns import (
    ACK_COLUMNS,
    ADD_COLUMNS,
    CANCEL_COLUMNS,
    CONTAINS_COLUMNS,
    EXTEND_COLUMNS,
    NACK_COLUMNS,
    PEEKED_COLUMNS,
    POLLED_COLUMNS,
    RESCHEDULE_COLUMNS,
    StreamedAdds,
    streamed_add,
)

TRACKER = pb.TrackerRef(topic="persistent://shop/orders/events", subscription="billing")
KINDS: dict[type, tuple[ColumnFields, dict[str, object]]] = {
    pb.AddMessagesRequest: (ADD_COLUMNS, {"tracker": TRACKER, "epoch": 2**63}),
    pb.AckMessagesRequest: (ACK_COLUMNS, {"tracker": TRACKER, "epoch": 1, "lease_id": 300}),
    pb.NackMessagesRequest: (NACK_COLUMNS, {"tracker": TRACKER, "lease_id": 1, "deliver_at_ms": -1}),
    pb.ExtendLeaseRequest: (EXTEND_COLUMNS, {"tracker": TRACKER, "epoch": 9, "lease_ms": 2**32 - 1}),
    pb.CancelMessagesRequest: (CANCEL_COLUMNS, {"tracker": TRACKER, "epoch": 128}),
    pb.RescheduleMessagesRequest: (RESCHEDULE_COLUMNS, {"tracker": TRACKER, "epoch": 129}),
    pb.ContainsMessagesRequest: (CONTAINS_COLUMNS, {"tracker": TRACKER}),
    pb.PollScheduledMessagesResponse: (
        POLLED_COLUMNS,
        {
            "lease_id": 7,
            "lease_expires_at_ms": -1,
            "next_delivery_at_ms": 0,
            "server_time_ms": 5,
            "pause_reading": True,
        },
    ),
    pb.PeekMessagesResponse: (PEEKED_COLUMNS, {"leased_offsets": [0, 3, 200], "truncated": True}),
}

values = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40)


def little_endian(column):
    return b"".join(value.to_bytes(8, "little", signed=True) for value in column)


def columns_of(kind):
    return [field for field in kind.DESCRIPTOR.fields if field.is_repeated and field.type == field.TYPE_SFIXED64]


def as_protobuf(kind, encoded):
    """Return the result of the generated class: the message without columns, and the packed columns."""
    message = kind.FromString(encoded)
    packed = tuple(little_endian(getattr(message, field.name)) for field in columns_of(kind))
    for field in columns_of(kind):
        message.ClearField(field.name)
    return Columned(message, packed)


def pieces_of(kind, head, columns, draw):
    """Return a message's fields in one of the encodings that every parser must accept."""
    pieces = []
    for field, column in zip(columns_of(kind), columns, strict=True):
        rest = list(column)
        while rest:
            packed = draw(st.booleans())
            count = draw(st.integers(1, len(rest))) if packed else 1
            taken, rest = rest[:count], rest[count:]
            body = little_endian(taken)
            pieces.append(
                varint(field.number << 3 | 2) + varint(len(body)) + body
                if packed
                else varint(field.number << 3 | 1) + body
            )
    pieces.append(head.SerializeToString())
    unknown = (b"", b"\xf8\x7f\x05", b"\x7d\1\2\3\4", b"\x7a\x03abc", b"\x79" + b"12345678", b"\x7b\x08\x01\x7c")
    pieces.append(draw(st.sampled_from(unknown)))
    return pieces


@given(st.data())
def test_every_legal_encoding_gives_the_same_message_and_columns(data):
    """Columns are read as protobuf reads them: packed or not, in pieces, out of order, beside unknown fields."""
    kind = data.draw(st.sampled_from(list(KINDS)))
    fields, head = KINDS[kind]
    columns = [data.draw(values) for _ in columns_of(kind)]
    pieces = pieces_of(kind, kind(**head), columns, data.draw)
    if data.draw(st.booleans()):
        data.draw(st.randoms(use_true_random=False)).shuffle(pieces)
    encoded = b"".join(pieces)
    assert fields.FromString(encoded) == as_protobuf(kind, encoded)


@given(st.data())
def test_damaged_bytes_are_refused_or_read_as_protobuf_does(data):
    """A byte that is changed, dropped or added anywhere gives the same result as the generated class."""
    kind = data.draw(st.sampled_from(list(KINDS)))
    fields, head = KINDS[kind]
    columns = [data.draw(values) for _ in columns_of(kind)]
    encoded = bytearray(b"".join(pieces_of(kind, kind(**head), columns, data.draw)))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        expected = as_protobuf(kind, bytes(encoded))
    except DecodeError:
        with pytest.raises(DecodeError):
            fields.FromString(bytes(encoded))
    else:
        assert fields.FromString(bytes(encoded)) == expected


VALUE = b"12345678"


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x22\x08" + VALUE[:7],  # ends inside a column
        b"\x22\x09" + VALUE + b"9",  # a column of a value and a byte
        b"\x22\x08" + VALUE + b"\x22\x08",  # ends after a length
        b"\x22\x88\x80\x80\x80\x80",  # a length without end
        b"\x22",
        b"\x10",
        b"\x02\x00",  # field 0
        b"\x0a\x03\x0a\x01\xff",  # a topic that is not text
    ],
)
def test_bytes_that_are_no_message_are_refused(encoded):
    """Bytes that protobuf refuses are refused at every place where the walk over the fields can end."""
    for parse in (pb.AddMessagesRequest.FromString, ADD_COLUMNS.FromString):
        with pytest.raises(DecodeError):
            parse(encoded)


@pytest.mark.parametrize(
    "encoded",
    [
        b"\x82\x01\x0a\x22\x08" + VALUE,  # field 16 contains bytes that look like a column
        b"\x7b\x22\x08" + VALUE + b"\x7c",  # so does a group
        b"\x22\x88\x00" + VALUE,  # a length in two bytes, where one would do
        b"\x22\x88\x80\x80\x80\x00" + VALUE,  # in five
        b"\x22\x00\x22\x08" + VALUE + b"\x22\x00",  # pieces of nothing around it
        b"\x25" + VALUE[:4] + b"\x20\x05",  # a column's number with types that no column has
    ],
)
def test_unusual_encodings_are_read_as_protobuf_reads_them(encoded):
    """Unusual encodings give the same columns as protobuf."""
    assert ADD_COLUMNS.FromString(encoded) == as_protobuf(pb.AddMessagesRequest, encoded)


@given(st.data())
def test_what_is_put_together_is_the_message_that_protobuf_would_write(data):
    """A joined message is read by every client of the public API; with the columns last, it is protobuf's own form."""
    kind = data.draw(st.sampled_from(list(KINDS)))
    fields, head = KINDS[kind]
    columns = [data.draw(values) for _ in columns_of(kind)]
    encoded = fields.encoded(kind(**head), list(map(little_endian, columns)))
    whole = kind(**head, **{field.name: column for field, column in zip(columns_of(kind), columns, strict=True)})
    assert kind.FromString(encoded) == whole
    assert len(encoded) == whole.ByteSize()
    if kind in {
        pb.AddMessagesRequest,
        pb.AckMessagesRequest,
        pb.CancelMessagesRequest,
        pb.RescheduleMessagesRequest,
        pb.ContainsMessagesRequest,
    }:
        assert encoded == whole.SerializeToString()


@pytest.mark.parametrize("count", [0, 1, 15, 16, 1_000, 10_000, 300_000])
def test_what_everybody_sends_is_not_parsed_value_by_value(count, monkeypatch):
    """Packed columns in one piece, of any length, alone and in a stream, are never converted to integers."""
    monkeypatch.setattr(ColumnFields, "_parsed", None)
    column = random.Random(count).randbytes(8 * count)  # fixed seed
    head = pb.AddMessagesRequest(tracker=TRACKER, epoch=3)
    expected = Columned(head, (column, column, column))
    encoded = ADD_COLUMNS.encoded(head, (column, column, column))
    assert encoded == pb.AddMessagesRequest.FromString(encoded).SerializeToString()
    assert ADD_COLUMNS.FromString(encoded) == expected
    monkeypatch.setattr(wire_columns.pb, "AddMessagesStreamRequest", None)
    assert StreamedAdds.FromString(streamed_add(encoded)) == expected


def test_an_ack_of_as_many_leases_as_a_call_may_have_is_not_parsed_value_by_value(monkeypatch):
    """The leases may be in front of the columns, as our client sends them, or behind, as protobuf does."""
    monkeypatch.setattr(ColumnFields, "_parsed", None)
    head = pb.AckMessagesRequest(tracker=TRACKER, epoch=3)
    for number in range(ACKS_MAX):
        head.leases.add(lease_id=2**63 + number, position_count=2)
    column = random.Random(1).randbytes(8 * 2 * ACKS_MAX)  # fixed seed
    encoded = ACK_COLUMNS.encoded(head, (column, column))
    for given_bytes in (encoded, pb.AckMessagesRequest.FromString(encoded).SerializeToString()):
        assert ACK_COLUMNS.FromString(given_bytes) == Columned(head, (column, column))


class Counted(bytes):
    """Bytes that count how many of them Python code reads or copies."""

    read_count = 0

    def __getitem__(self, at):
        found = super().__getitem__(at)
        self.read_count += 1 if isinstance(at, int) else len(found)
        return found


@pytest.mark.parametrize(
    "repeated",
    [
        b"\x22\x00\x78\x00",  # an empty column in front of an unknown field
        b"\x22\x00",  # an empty column
        b"\x22\x08" + VALUE,  # a column in pieces
        b"\x32\x00",  # an empty lease of an ack
        b"\x78\x00",  # an unknown field
        b"\x7d\1\2\3\4\x79" + VALUE,  # unknown fields of fixed length
        b"\x80",  # a number without end
    ],
)
def test_many_small_fields_are_not_walked_over_in_python(repeated):
    """A request of 64 KiB takes some thousand steps at most, and copies nothing again for each field."""
    encoded = (b"\x10" if repeated == b"\x80" else b"") + repeated * (2**16 // len(repeated))
    counted = Counted(encoded)
    assert ACK_COLUMNS._cut(counted) is None
    assert counted.read_count < 10_000
    try:
        expected = as_protobuf(pb.AckMessagesRequest, encoded)
    except DecodeError:
        with pytest.raises(DecodeError):
            ACK_COLUMNS.FromString(encoded)
    else:
        assert ACK_COLUMNS.FromString(encoded) == expected


def test_a_streams_request_is_read_as_protobuf_reads_it():
    """A stream's request is read as by protobuf if its add is absent, empty, repeated or beside unknown fields."""
    first = pb.AddMessagesRequest(tracker=TRACKER, ledger_ids=[1, 2])
    second = pb.AddMessagesRequest(epoch=5, ledger_ids=[3], entry_ids=[4])
    for parts in ([], [b""], [first.SerializeToString()], [first.SerializeToString(), second.SerializeToString()]):
        for unknown in (b"", b"\x10\x01"):
            encoded = b"".join(map(streamed_add, parts)) + unknown
            merged = pb.AddMessagesStreamRequest.FromString(encoded).add.SerializeToString()
            assert StreamedAdds.FromString(encoded) == as_protobuf(pb.AddMessagesRequest, merged)
    with pytest.raises(DecodeError):
        StreamedAdds.FromString(streamed_add(first.SerializeToString())[:-1])


def test_every_message_with_columns_has_its_fields_listed():
    """Every message with columns has its columns listed; an unlisted column would be read value by value."""
    listed = {fields._kind.DESCRIPTOR.name: set(fields._fields) for fields, _ in KINDS.values()}
    found = {
        message.name: {field.name for field in columns_of(kind)}
        for message in pb.DESCRIPTOR.message_types_by_name.values()
        if columns_of(kind := getattr(pb, message.name))
    }
    assert listed == found


def test_varints_are_protobufs():
    """A varint has seven bits a byte, the lowest first."""
    assert [varint(number) for number in (0, 127, 128, 300, 2**32)] == [
        b"\x00",
        b"\x7f",
        b"\x80\x01",
        b"\xac\x02",
        b"\x80\x80\x80\x80\x10",
    ]
