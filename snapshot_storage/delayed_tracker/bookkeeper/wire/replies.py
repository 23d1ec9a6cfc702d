"""Parses replies of version 3 of the protocol. Bodies of large entries are copied once.

Replies are parsed by protobuf, which copies bodies twice. So the body of a large reply is cut out before, unless the
reply is encoded in another way than bookies do.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from google.protobuf.message import DecodeError

from delayed_tracker.bookkeeper.wire.frames import FrameInvalid
from delayed_tracker.bookkeeper.wire.requests import Operation
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb

_VERSION: Final = 3
_CUT_BYTES_MIN: Final = 16 * 1024
"""Replies of fewer bytes are parsed sooner than cut."""
_READ_FIELD, _BODY_FIELD = 100, 4
_VARINT, _LENGTH = 0, 2


class Status(IntEnum):
    """Outcome that a bookie states. Later versions may have more."""

    OK = 0
    NO_LEDGER = 402
    NO_ENTRY = 403
    BAD_REQUEST = 404
    IO_ERROR = 501
    UNAUTHORIZED = 502
    BAD_VERSION = 503
    FENCED = 504
    READ_ONLY = 505
    TOO_MANY_REQUESTS = 506
    UNKNOWN_LEDGER_STATE = 507


# Looking up a member of an enumeration takes longer.
_OPERATIONS: Final = {operation.value: operation for operation in Operation}
_STATUS_NAMES: Final = {status.value: status.name for status in Status}


@dataclass(slots=True)
class Reply:
    """Reply of a bookie to one request. It does not change; to be frozen would cost each entry a microsecond."""

    txn_id: int
    operation: Operation
    status: int
    """A :class:`Status`, or a number of a later version."""
    ledger_id: int | None = None
    """None if the reply is about no ledger, or refuses the request without a look at it."""
    entry_id: int | None = None
    body: bytes | None = field(default=None, repr=False)
    """Stored body of the entry that was read; to READ_LAC, of the bookie's last entry."""
    lac_body: bytes | None = field(default=None, repr=False)
    """Explicit last add confirmed; None if the bookie has none."""

    @property
    def status_name(self) -> str:
        """Name of the status, or its number."""
        return _STATUS_NAMES.get(self.status, str(self.status))


def parse_reply(message: bytes | memoryview) -> Reply:
    """Return the reply in a frame.

    Raises:
        FrameInvalid: it is not a reply of version 3, or contradicts itself.
    """
    try:
        body = None
        cut = _cut_body(message) if len(message) >= _CUT_BYTES_MIN else None
        if cut is None:
            response = pb.Response.FromString(message)  # type: ignore[arg-type]  # it reads any buffer
        else:
            rest, read, body = cut
            response = pb.Response.FromString(rest)
            response.readResponse.MergeFromString(read)
    except DecodeError as error:
        raise FrameInvalid(f"{len(message)} bytes that are no reply ({bytes(message[:32]).hex()})") from error
    # Protobuf's FromString takes a message without them.
    if not response.IsInitialized():
        raise FrameInvalid("a reply without a required field")
    header = response.header
    if header.version != _VERSION:
        raise FrameInvalid(f"a reply of version {header.version}, where only {_VERSION} was asked for")
    return _reply(response, _OPERATIONS[header.operation], body)


def _reply(response: pb.Response, operation: Operation, body: bytes | None) -> Reply:
    txn_id, status = response.header.txnId, response.status
    if operation is Operation.ADD_ENTRY and response.HasField("addResponse"):
        add = response.addResponse
        return Reply(txn_id, operation, status or add.status, add.ledgerId, add.entryId)
    if operation is Operation.READ_ENTRY and response.HasField("readResponse"):
        read = response.readResponse
        if body is None and read.HasField("body"):
            body = read.body
        status = status or read.status
        if status == Status.OK and body is None:
            raise FrameInvalid("a successful reply to a read without an entry")
        return Reply(txn_id, operation, status, read.ledgerId, read.entryId, body)
    if operation is Operation.WRITE_LAC and response.HasField("writeLacResponse"):
        write = response.writeLacResponse
        return Reply(txn_id, operation, status or write.status, write.ledgerId)
    if operation is Operation.READ_LAC and response.HasField("readLacResponse"):
        lac = response.readLacResponse
        return Reply(
            txn_id,
            operation,
            status or lac.status,
            lac.ledgerId,
            body=lac.lastEntryBody if lac.HasField("lastEntryBody") else None,
            lac_body=lac.lacBody if lac.HasField("lacBody") else None,
        )
    if status == Status.OK and operation is not Operation.START_TLS:
        raise FrameInvalid(f"a successful reply to {operation.name} without a result")
    return Reply(txn_id, operation, status)


def _cut_body(message: bytes | memoryview) -> tuple[bytes, bytes, bytes] | None:
    """Return a reply without its read response, that without its body, and the body; None if protobuf has to parse."""
    octets = memoryview(message)
    read = _place_of(octets, _READ_FIELD)
    if read is None:
        return None
    inner = octets[read[1] : read[2]]
    body = _place_of(inner, _BODY_FIELD)
    if body is None:
        return None
    rest = bytes(octets[: read[0]]) + bytes(octets[read[2] :])
    return rest, bytes(inner[: body[0]]) + bytes(inner[body[2] :]), bytes(inner[body[1] : body[2]])


def _place_of(octets: memoryview, number: int) -> tuple[int, int, int] | None:
    """Return where a field of bytes is the last time: start, start of the value, end. None if protobuf has to parse."""
    found = None
    at, end = 0, len(octets)
    while at < end:
        start = at
        tag, at = _varint(octets, at)
        value, at = _varint(octets, at)
        if at < 0 or tag & 7 not in {_VARINT, _LENGTH}:
            return None
        if tag & 7 == _LENGTH:
            if value > end - at:
                return None
            if tag >> 3 == number:
                found = (start, at, at + value)
            at += value
    return found


def _varint(octets: memoryview, at: int) -> tuple[int, int]:
    """Return a varint and the offset behind it, which is negative if there is no varint of at most ten bytes."""
    value = shift = 0
    if at < 0:
        return 0, at
    for octet in octets[at : at + 10]:
        value |= (octet & 0x7F) << shift
        shift += 7
        at += 1
        if octet < 0x80:
            return value, at
    return 0, -1
