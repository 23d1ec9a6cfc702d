"""Tests that requests are the bytes that bookies read: worked examples, and protobuf's own reading of them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.requests import (
    LAST_ENTRY,
    AddRequests,
    Operation,
    ReadRequests,
    Request,
    read_lac_request,
    reply_header,
    start_tls_request,
    write_lac_request,
)
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import KEY, add_of

BODY = "000000000000004d0000000000000000ffffffffffffffff0000000000000005641f145468656c6c6f"
ADD = f"000000500a06080310021801aa0645084d10001a14850bf1071c5e3d8c24235676f8816ae0cbe2f14f2229{BODY}"
READ_LAST = "000000180a06080310011801a2060d084d10ffffffffffffffffff01"

ids = st.integers(0, 2**63 - 1)


def parsed(request: Request, txn_id: int) -> pb.Request:
    """Return the request as protobuf reads its frame, whose length has to be right."""
    frame = b"".join(request.head(reply_header(request.operation, txn_id))) + request.payload
    assert struct.unpack_from(">i", frame) == (len(frame) - 4,)
    assert request.frame_bytes - 10 <= len(frame) <= request.frame_bytes
    return pb.Request.FromString(frame[4:])


def test_worked_example_of_an_add():
    """An add of worked example J (ledger 77, entry 0, payload hello) has the 84 bytes of example K."""
    request = add_of()

    assert b"".join((*request.head(reply_header(Operation.ADD_ENTRY, 1)), request.payload)).hex() == ADD


def test_worked_example_of_a_read():
    """A read of the last entry has the bytes of example K."""
    assert b"".join(ReadRequests(77).of(LAST_ENTRY).head(reply_header(Operation.READ_ENTRY, 1))).hex() == READ_LAST


def test_worked_example_of_a_key():
    """The master key of an empty password is the one that bookies expect."""
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"
    assert master_key(b"secret") != master_key(b"")


@given(ledger_id=ids, entry_id=ids, txn_id=ids, payload=st.binary(max_size=300), is_recovery=st.booleans())
def test_adds_are_what_protobuf_reads(ledger_id, entry_id, txn_id, payload, is_recovery):
    """An add that is encoded by hand has all fields of the message and no others."""
    sealed = Digest(DigestType.HMAC, b"p").seal(ledger_id, entry_id, entry_id - 1, 2**40, payload)
    request = AddRequests(ledger_id, KEY, is_recovery=is_recovery).of(entry_id, sealed, payload)

    expected = pb.Request(
        header=pb.BKPacketHeader(version=3, operation=pb.ADD_ENTRY, txnId=txn_id),
        addRequest=pb.AddRequest(ledgerId=ledger_id, entryId=entry_id, masterKey=KEY, body=sealed + payload),
    )
    if is_recovery:
        expected.header.priority = 100
        expected.addRequest.flag = pb.AddRequest.RECOVERY_ADD
    assert parsed(request, txn_id) == expected
    assert request.payload is payload


def test_a_payload_is_never_copied():
    """The request refers to the caller's payload, whatever its size."""
    payload = bytes(1_000_000)

    assert add_of(0, payload).payload is payload


@pytest.mark.parametrize("entry_id", [0, 7, LAST_ENTRY])
def test_a_fencing_read_is_urgent_and_has_the_key(entry_id):
    """A read that fences carries flag, key and priority; a plain read none of them."""
    fencing, plain = parsed(ReadRequests(5, fence_key=KEY).of(entry_id), 9), parsed(ReadRequests(5).of(entry_id), 9)

    assert fencing.readRequest.HasField("flag")
    assert (fencing.readRequest.flag, fencing.readRequest.masterKey) == (pb.ReadRequest.FENCE_LEDGER, KEY)
    assert fencing.header.priority == 100
    assert not plain.readRequest.HasField("flag")
    assert not plain.readRequest.HasField("masterKey")
    assert not plain.header.HasField("priority")
    assert fencing.readRequest.entryId == plain.readRequest.entryId == entry_id


def test_other_requests_are_what_protobuf_reads():
    """Reads and writes of the last add confirmed, and START_TLS, have their fields."""
    sealed = Digest(DigestType.CRC32C).seal_lac(77, 0)
    write = parsed(write_lac_request(77, 0, KEY, sealed), 1)
    assert write.writeLacRequest == pb.WriteLacRequest(ledgerId=77, lac=0, masterKey=KEY, body=sealed)
    assert write.header.operation == pb.WRITE_LAC
    read = parsed(read_lac_request(77), 2)
    assert (read.header.operation, read.readLacRequest.ledgerId) == (pb.READ_LAC, 77)
    tls = parsed(start_tls_request(), 3)
    assert tls.header.operation == pb.START_TLS
    assert tls.HasField("startTLSRequest")


def test_errors_name_the_request_without_its_bytes():
    """The text of a request has operation, ledger and entry, and neither key nor payload."""
    assert str(add_of(3)) == "ADD_ENTRY of 77:3"
    assert str(ReadRequests(77).of(LAST_ENTRY)) == "READ_ENTRY of 77"
    assert "hello" not in repr(add_of(3))
