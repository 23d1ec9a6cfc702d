"""Parses replies of version 3 of the protocol, and says what a channel needs to know of any version.

Good replies to adds and reads are nearly all of them, and are compared with what is expected instead. Protobuf takes ten
times as long for small ones, and copies bodies twice.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from google.protobuf.message import DecodeError

from delayed_tracker.bookkeeper.wire.frames import FrameInvalid
from delayed_tracker.bookkeeper.wire.requests import GOOD_READ, Operation, Request, reply_headers
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb

_VERSION: Final = 3
_MORE: Final = 0x80
"""Bit of a varint's byte that has another one behind it."""
_GOOD_READ_BYTES: Final = len(GOOD_READ)
_BEHIND_BODY: Final = re.compile(rb"\x28[\x80-\xff]{0,9}[\x00-\x7f]")
"""The last add confirmed that the bookie knows."""


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
        response = pb.Response.FromString(message)  # type: ignore[arg-type]  # it reads any buffer
    except DecodeError as error:
        raise FrameInvalid(f"{len(message)} bytes that are no reply ({bytes(message[:32]).hex()})") from error
    # Protobuf's FromString takes a message without them.
    if not response.IsInitialized():
        raise FrameInvalid("a reply without a required field")
    header = response.header
    if header.version != _VERSION:
        raise FrameInvalid(f"a reply of version {header.version}, where only {_VERSION} was asked for")
    return _reply(response, _OPERATIONS[header.operation])


def _reply(response: pb.Response, operation: Operation) -> Reply:
    txn_id, status = response.header.txnId, response.status
    if operation is Operation.ADD_ENTRY and response.HasField("addResponse"):
        add = response.addResponse
        return Reply(txn_id, operation, status or add.status, add.ledgerId, add.entryId)
    if operation is Operation.READ_ENTRY and response.HasField("readResponse"):
        read = response.readResponse
        body = read.body if read.HasField("body") else None
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


def good_body(octets: bytes | memoryview, at: int, end: int, request: Request) -> bytes | None:
    """Return what a good reply as bookies encode it has: the stored body to a read, nothing to an add.

    Args:
        octets: the reply ends at ``end``.
        at: end of its header, which is that of the reply to this request.
        end: at most the length of the octets.
        request: of any operation.
    Returns: None if the reply is not good, not to this request, or not of these two operations, or is encoded in another way:
        :func:`parse_reply` reads it.
    Cost: the body is copied once.
    """
    good = request.good_reply
    if not good:
        return None
    if not request.is_read:
        return b"" if octets[at:end] == good else None
    if octets[at : at + _GOOD_READ_BYTES] != GOOD_READ:
        return None
    try:
        size, at = _varint(octets, at + _GOOD_READ_BYTES)
        body_at = at + len(good)
        if size != end - at or octets[at:body_at] != good:
            return None
        size, at = _varint(octets, body_at)
    except IndexError:
        return None
    behind = at + size
    if behind != end and (behind > end or not _BEHIND_BODY.fullmatch(octets, behind, end)):
        return None
    return bytes(octets[at:behind])


def _varint(octets: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a varint and the offset behind it. One that is too long for a length gives a large number.

    Raises:
        IndexError: the octets end before.
    """
    value = octets[at]
    if value < _MORE:
        return value, at + 1
    # Nearly all lengths have two bytes; a loop takes longer.
    more = octets[at + 1]
    if more < _MORE:
        return value & (_MORE - 1) | more << 7, at + 2
    value &= _MORE - 1
    for shift in range(7, 70, 7):
        at += 1
        octet = octets[at]
        value |= (octet & (_MORE - 1)) << shift
        if octet < _MORE:
            break
    return value, at + 1


def _header_bounds(octets: bytes | memoryview, start: int, end: int) -> tuple[int, int]:
    return start, start + 2 + octets[start + 1] if end - start > 1 else start


@dataclass(frozen=True, eq=False, slots=True)
class ReplyFormat:
    """Replies of one version of the protocol. A header is the part of a reply that names its request."""

    headers: Callable[[Operation, Iterable[int]], list[bytes]]
    """Returns the headers of replies to requests with these ids, each 0 to 2^63-1."""
    header_bounds: Callable[[bytes | memoryview, int, int], tuple[int, int]]
    """Returns where the header is in a reply from one offset to another. It may be beyond the end of a wrong reply."""
    good_body: Callable[[bytes | memoryview, int, int, Request], bytes | None]
    """Returns what a good reply has that is encoded in the usual way, as :func:`good_body`; None to have it parsed."""
    parse: Callable[[bytes | memoryview], Reply]
    """Returns any reply. Raises FrameInvalid for one that is none of this version, or contradicts itself."""


REPLIES_OF_VERSION_3: Final = ReplyFormat(reply_headers, _header_bounds, good_body, parse_reply)
"""Format of the replies on a connection for all but batch reads."""
