"""Tests of the parsing of replies: expected ones are told as protobuf would, and nonsense is refused."""

import pytest
from google.protobuf.message import DecodeError
from hypothesis import example, given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.frames import FrameInvalid
from delayed_tracker.bookkeeper.wire.replies import Reply, Status, good_body, parse_reply
from delayed_tracker.bookkeeper.wire.requests import Operation, ReadRequests, Request, reply_header
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import add_of

BODY = b"b" * 16_384
ADD, READ = add_of(3), ReadRequests(77).of(3)


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


def body_in(message: bytes, request: Request) -> bytes | None:
    """Return what a good reply to this request has, as a connection reads it whose transaction ids are at 5."""
    header = reply_header(request.operation, 5)
    return good_body(message, len(header), len(message), request) if message.startswith(header) else None


@pytest.mark.parametrize("body", [b"", b"x", bytes(127), bytes(128), BODY])
@pytest.mark.parametrize("as_sent", [bytes, memoryview])
def test_a_good_reply_is_expected(body, as_sent):
    """A good reply as bookies encode it does not go through protobuf, be it small or large."""
    read = pb.ReadResponse(status=0, ledgerId=77, entryId=3, body=body)
    for last_confirmed in ({}, {"maxLAC": 2**63 - 1}, {"maxLAC": -1}):
        read.MergeFrom(pb.ReadResponse(**last_confirmed))
        message = pb.Response(header=header(pb.READ_ENTRY), status=0, readResponse=read).SerializeToString()
        octets = as_sent(b"before" + message + b"behind")
        start = 6 + len(reply_header(Operation.READ_ENTRY, 5))
        assert good_body(octets, start, 6 + len(message), READ) == body
    add = pb.AddResponse(status=0, ledgerId=77, entryId=3)
    message = pb.Response(header=header(pb.ADD_ENTRY), status=0, addResponse=add).SerializeToString()
    assert body_in(message, ADD) == b""
    assert body_in(message, READ) is None
    assert body_in(message, add_of(4)) is None


@given(data=st.data())
def test_a_reply_is_what_protobuf_reads(data):
    """A reply in any order of fields, with repeated, unknown and missing ones, is read as protobuf reads it."""
    inner_fields = [
        pb.ReadResponse(status=0), pb.ReadResponse(ledgerId=77), pb.ReadResponse(entryId=3), pb.ReadResponse(maxLAC=9),
        pb.ReadResponse(body=BODY), pb.ReadResponse(body=b"short"), pb.ReadResponse(status=403),
        pb.ReadResponse(status=0, ledgerId=77, entryId=3), pb.ReadResponse(entryId=4),
    ]  # fmt: skip
    unknown = [b"\xf2\x3f\x03abc", b"\xf1\x3f12345678", b"\xf8\x3f\x05", b"\xa2\x06", b"\x28", b"\xff"]
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
    places = data.draw(st.just([0, 1, 3]) | st.lists(st.integers(0, len(outer) - 1), max_size=7))
    message = b"".join(outer[place] for place in places)

    reply, expected = outcome(parse_reply, message), outcome(parsed_by_protobuf, message)
    # By themselves, or an error would show the large bodies.
    assert (reply and reply.body) == (expected and expected.body)
    assert reply == expected
    body = body_in(message, READ)
    assert body is None or expected == Reply(5, Operation.READ_ENTRY, Status.OK, 77, 3, body)


@given(cut=st.integers(1, 60), end=st.binary(max_size=40), body=st.binary(max_size=300))
def test_a_damaged_reply_is_not_expected(cut, end, body):
    """A good reply whose end is another one is either what protobuf reads, or left to protobuf."""
    message = read_reply(body).SerializeToString()
    message = message[: max(len(message) - cut, 0)] + end

    found, expected = body_in(message, READ), outcome(parsed_by_protobuf, message)

    assert found is None or expected == Reply(5, Operation.READ_ENTRY, Status.OK, 77, 3, found)


@pytest.mark.parametrize("missing", [1, 2, 3, 100, 8_192])
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


@given(octets=st.binary(max_size=200), padding=st.sampled_from([0, 16_384]))
@example(b"\xa2\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 16_384)
def test_arbitrary_bytes_are_a_reply_or_refused(octets, padding):
    """No bytes raise anything but FrameInvalid."""
    message = octets + b"\xff" * padding
    outcome(parse_reply, message)
    good_body(message, 0, len(message), READ)
