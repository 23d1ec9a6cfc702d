"""Tests of the bytes of batch reads: requests, replies, and the entries in them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.batch_reads import BATCH_REPLIES, BatchReadRequest, split_bodies
from delayed_tracker.bookkeeper.wire.frames import FrameInvalid
from delayed_tracker.bookkeeper.wire.replies import Reply, Status
from delayed_tracker.bookkeeper.wire.requests import Operation

REPLY = struct.Struct(">BBHiqqq")
BODIES = st.lists(st.binary(max_size=40), max_size=8)


def joined(bodies: list[bytes]) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def test_a_request_is_what_bookies_take():
    """The bytes are those that Java's client sends: a length, and 40 bytes behind it."""
    request = BatchReadRequest(77, 3, 64, 1_000_000)
    (header,) = BATCH_REPLIES.headers(request.operation, [5])
    frame = b"".join((*request.head(header), request.payload))
    assert frame.hex() == "0000002802070000" + f"{77:016x}{3:016x}{5:016x}{64:08x}{1_000_000:016x}"
    assert len(frame) <= request.frame_bytes
    assert str(request) == "READ_BATCH of 77:3"


@given(BODIES, st.integers(0, 10), st.data())
def test_entries_are_split_up_to_the_first_that_is_not_whole(bodies: list[bytes], count: int, data: st.DataObject):
    """A reply of which the end is missing gives the whole entries before it, and never more than were asked for."""
    entries = joined(bodies)
    kept = entries[: data.draw(st.integers(0, len(entries)))]
    whole = next(n for n in range(len(bodies), -1, -1) if len(joined(bodies[:n])) <= len(kept))
    assert split_bodies(entries, count) == bodies[:count]
    assert split_bodies(kept, count) == bodies[: min(whole, count)]


def test_a_negative_size_ends_the_entries():
    assert split_bodies(joined([b"one"]) + b"\xff\xff\xff\xff" + joined([b"two"]), 9) == [b"one"]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (1, Status.NO_LEDGER),
        (2, Status.NO_ENTRY),
        (100, Status.BAD_REQUEST),
        (101, Status.IO_ERROR),
        (102, Status.UNAUTHORIZED),
        (103, Status.BAD_VERSION),
        (104, Status.FENCED),
        (105, Status.READ_ONLY),
        (106, Status.TOO_MANY_REQUESTS),
        (107, Status.UNKNOWN_LEDGER_STATE),
        (999, 999),
    ],
)
def test_codes_of_version_2_are_statuses(code: int, status: int):
    reply = BATCH_REPLIES.parse(REPLY.pack(2, 7, 0, code, 77, 3, 5))
    assert reply == Reply(5, Operation.READ_BATCH, status, 77, 3)


def test_a_good_reply_has_its_entries_both_ways():
    message = REPLY.pack(2, 7, 0, 0, 77, 3, 5) + joined([b"one", b""])
    assert BATCH_REPLIES.parse(message) == Reply(5, Operation.READ_BATCH, Status.OK, 77, 3, joined([b"one", b""]))
    start, end = BATCH_REPLIES.header_bounds(message, 0, len(message))
    assert message[start:end] == BATCH_REPLIES.headers(Operation.READ_BATCH, [5])[0]
    assert BATCH_REPLIES.good_body(message, end, len(message), BatchReadRequest(77, 3, 9, 1)) == joined([b"one", b""])
    assert BATCH_REPLIES.good_body(message, end, len(message), BatchReadRequest(77, 4, 9, 1)) is None


@pytest.mark.parametrize(
    ("message", "problem"),
    [
        (b"", "0 bytes"),
        (bytes(31), "31 bytes"),
        (REPLY.pack(3, 7, 0, 0, 77, 3, 5), "version 3"),
        (REPLY.pack(2, 2, 0, 0, 77, 3, 5), "operation 2"),
        (REPLY.pack(2, 7, 0, 0, 77, 3, 5), "without an entry"),
    ],
)
def test_other_bytes_are_refused(message: bytes, problem: str):
    with pytest.raises(FrameInvalid, match=problem):
        BATCH_REPLIES.parse(message)
