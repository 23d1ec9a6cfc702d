"""Tests of the parsing of replies: the cut of large ones equals protobuf's reading, and nonsense is refused."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.frames import FrameInvalid
from delayed_tracker.bookkeeper.wire.replies import _CUT_BYTES_MIN, Reply, Status, _cut_body, parse_reply
from delayed_tracker.bookkeeper.wire.requests import Operation
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb

BODY = b"b" * _CUT_BYTES_MIN


def header(operation: int, txn_id: int = 5) -> pb.BKPacketHeader:
    return pb.BKPacketHeader(version=3, operation=operation, txnId=txn_id)


def read_reply(body: bytes | None = b"x", *, status: int = 0, inner: int = 0) -> pb.Response:
    found = pb.ReadResponse(status=inner, ledgerId=77, entryId=3, body=body, maxLAC=9)
    return pb.Response(header=header(pb.READ_ENTRY), status=status, readResponse=found)


def parsed(response: pb.Response) -> Reply:
    return parse_reply(response.SerializePartialToString())


@pytest.mark.parametrize("body", [b"", b"x", BODY])
def test_a_read_has_its_body(body):
    """Small and large bodies, and the empty one, come back with the ids."""
    assert parsed(read_reply(body)) == Reply(5, Operation.READ_ENTRY, Status.OK, 77, 3, body)


def test_large_replies_are_cut():
    """The body of a large reply as bookies encode it does not go through protobuf."""
    response = read_reply(BODY)
    cut = _cut_body(response.SerializeToString())

    assert cut is not None
    rest, read, body = cut
    assert body == BODY
    assert len(rest) + len(read) < 40


@given(data=st.data())
def test_a_cut_reply_is_what_protobuf_reads(data):
    """A large reply in any order of fields, with repeated, unknown and missing ones, is read as protobuf reads it."""
    inner_fields = [
        pb.ReadResponse(status=0), pb.ReadResponse(ledgerId=77), pb.ReadResponse(entryId=3), pb.ReadResponse(maxLAC=9),
        pb.ReadResponse(body=BODY), pb.ReadResponse(body=b"short"), pb.ReadResponse(status=403),
    ]  # fmt: skip
    unknown = [b"\xf2\x3f\x03abc", b"\xf1\x3f12345678", b"\xf8\x3f\x05", b"\xa2\x06"]
    pieces = [piece.SerializePartialToString() for piece in inner_fields] + unknown
    inner = b"".join(pieces[place] for place in data.draw(st.lists(st.integers(0, len(pieces) - 1), max_size=8)))
    outer = [
        pb.Response(header=header(pb.READ_ENTRY)).SerializePartialToString(),
        pb.Response(status=0).SerializePartialToString(),
        pb.Response(status=501).SerializePartialToString(),
        b"\xa2\x06" + varint(len(inner)) + inner,
        b"\xf2\x3f" + varint(len(BODY)) + BODY,
        *unknown,
    ]
    message = b"".join(outer[place] for place in data.draw(st.lists(st.integers(0, len(outer) - 1), max_size=7)))

    reply, expected = outcome(parse_reply, message), outcome(parsed_by_protobuf, message)
    # By themselves, or an error would show the large bodies.
    assert (reply and reply.body) == (expected and expected.body)
    assert reply == expected


@pytest.mark.parametrize("missing", [1, 2, 3, 100, _CUT_BYTES_MIN // 2])
def test_a_reply_without_its_end_is_refused(missing):
    """A large reply whose last bytes are missing is refused, be its body whole or not."""
    message = read_reply(BODY + BODY).SerializeToString()

    with pytest.raises(FrameInvalid, match="bytes that are no reply"):
        parse_reply(message[:-missing])


def varint(value: int) -> bytes:
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))


def outcome(parse, message: bytes) -> Reply | None:
    """Return the reply, or None if there is none."""
    try:
        return parse(message)
    except FrameInvalid:
        return None


def parsed_by_protobuf(message: bytes) -> Reply:
    try:
        response = pb.Response.FromString(message)
    except DecodeError as error:
        raise FrameInvalid from error
    if (
        not response.IsInitialized()
        or response.header.version != 3
        or (response.status == 0 and not response.HasField("readResponse"))
    ):
        raise FrameInvalid
    if not response.HasField("readResponse"):
        return Reply(5, Operation.READ_ENTRY, response.status)
    read = response.readResponse
    status = response.status or read.status
    if status == 0 and not read.HasField("body"):
        raise FrameInvalid
    body = read.body if read.HasField("body") else None
    return Reply(5, Operation.READ_ENTRY, status, read.ledgerId, read.entryId, body)


@pytest.mark.parametrize(
    ("response", "reply"),
    [
        (
            pb.Response(
                header=header(2), status=0, addResponse=pb.AddResponse(status=504, ledgerId=7, entryId=2**63 - 1)
            ),
            Reply(5, Operation.ADD_ENTRY, Status.FENCED, 7, 2**63 - 1),
        ),
        (
            pb.Response(header=header(6), status=0, writeLacResponse=pb.WriteLacResponse(status=0, ledgerId=7)),
            Reply(5, Operation.WRITE_LAC, Status.OK, 7),
        ),
        (
            pb.Response(
                header=header(7), status=0, readLacResponse=pb.ReadLacResponse(status=0, ledgerId=7, lacBody=b"l")
            ),
            Reply(5, Operation.READ_LAC, Status.OK, 7, lac_body=b"l"),
        ),
        (
            pb.Response(
                header=header(7), status=0, readLacResponse=pb.ReadLacResponse(status=0, ledgerId=7, lastEntryBody=b"e")
            ),
            Reply(5, Operation.READ_LAC, Status.OK, 7, body=b"e"),
        ),
        (pb.Response(header=header(9), status=0), Reply(5, Operation.START_TLS, Status.OK)),
        (pb.Response(header=header(2), status=502), Reply(5, Operation.ADD_ENTRY, Status.UNAUTHORIZED)),
        (read_reply(None, inner=403), Reply(5, Operation.READ_ENTRY, Status.NO_ENTRY, 77, 3)),
        (read_reply(None, status=501), Reply(5, Operation.READ_ENTRY, Status.IO_ERROR, 77, 3)),
        (read_reply(None, status=599), Reply(5, Operation.READ_ENTRY, 599, 77, 3)),
    ],
)
def test_replies(response, reply):
    """Each reply has the ids, and the status that is not success, be it outside or inside."""
    assert parsed(response) == reply


def test_statuses_have_names():
    """Errors show a status by name; one of a later version by number."""
    assert parsed(read_reply(None, status=504)).status_name == "FENCED"
    assert parsed(read_reply(None, status=599)).status_name == "599"


@pytest.mark.parametrize(
    "response",
    [
        read_reply(None),
        pb.Response(header=header(2), status=0),
        pb.Response(
            header=header(2), status=0, readResponse=pb.ReadResponse(status=0, ledgerId=1, entryId=1, body=b"")
        ),
        pb.Response(header=pb.BKPacketHeader(version=2, operation=pb.ADD_ENTRY, txnId=1), status=501),
        pb.Response(header=header(2)),
        pb.Response(status=0),
        pb.Response(header=header(1), status=0, readResponse=pb.ReadResponse(status=0, ledgerId=1, body=BODY)),
    ],
)
def test_a_reply_that_contradicts_itself_is_refused(response):
    """A reply without what its status promises, of another version or without required fields is refused."""
    with pytest.raises(FrameInvalid):
        parsed(response)


@given(octets=st.binary(max_size=200), padding=st.sampled_from([0, _CUT_BYTES_MIN]))
@example(b"\xa2\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", _CUT_BYTES_MIN)
def test_arbitrary_bytes_are_a_reply_or_refused(octets, padding):
    """No bytes raise anything but FrameInvalid."""
    outcome(parse_reply, octets + b"\xff" * padding)
