"""Reads of consecutive entries by one request and one reply (BP-62), which bookies know from version 4.17 on.

Only version 2 of the protocol has them, and a bookie takes one version on a connection. All numbers are big-endian.

    request = 2 u8 || 7 u8 || flags u16 || ledger id i64 || first entry i64 || request id i64 || entries i32 || bytes i64
    reply   = 2 u8 || 7 u8 || flags u16 || code i32 || ledger id i64 || first entry i64 || request id i64 || entries
    entries = (bytes i32 || stored body)...

A reply has at least one entry, however large, and ends before the first one that the bookie does not have, or that would
make the reply larger than was asked for (Java: ``BatchedReadEntryProcessor``).
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from delayed_tracker.bookkeeper.wire.frames import LENGTH, FrameInvalid
from delayed_tracker.bookkeeper.wire.replies import Reply, ReplyFormat, Status
from delayed_tracker.bookkeeper.wire.requests import Operation, Request

_VERSION: Final = 2
_OPCODE: Final = 7
_REQUEST: Final = struct.Struct(">BBHqq")
_REQUEST_ID: Final = struct.Struct(">q")
_BOUNDS: Final = struct.Struct(">iq")
_REPLY: Final = struct.Struct(">BBHiqqq")
_GOOD: Final = struct.Struct(">BBHiqq")
"""Fields of a reply before the request id."""
_unpack_length: Final = LENGTH.unpack_from
_STATUSES: Final = {
    0: Status.OK,
    1: Status.NO_LEDGER,
    2: Status.NO_ENTRY,
    100: Status.BAD_REQUEST,
    101: Status.IO_ERROR,
    102: Status.UNAUTHORIZED,
    103: Status.BAD_VERSION,
    104: Status.FENCED,
    105: Status.READ_ONLY,
    106: Status.TOO_MANY_REQUESTS,
    107: Status.UNKNOWN_LEDGER_STATE,
}
"""Statuses by the codes of version 2."""


class BatchReadRequest(Request):
    """Request to read consecutive entries of one ledger.

    Args:
        ledger_id: 0 to 2^63-1.
        first: the first entry, 0 to 2^63-1.
        count: most entries, from 1.
        bytes_max: most bytes of the reply, unless its first entry alone has more.
    """

    __slots__ = ()

    def __init__(self, ledger_id: int, first: int, count: int, bytes_max: int) -> None:
        super().__init__(
            Operation.READ_BATCH,
            ledger_id,
            first,
            _REQUEST.pack(_VERSION, _OPCODE, 0, ledger_id, first),
            _BOUNDS.pack(count, bytes_max),
            good_reply=_GOOD.pack(_VERSION, _OPCODE, 0, 0, ledger_id, first),
        )
        self.is_read = True

    def head(self, header: bytes) -> tuple[bytes, bytes, bytes]:
        """Return all of the frame before the bounds; ``header`` is the request id."""
        content = self.content
        return LENGTH.pack(len(content) + len(header) + len(self.payload)), content, header


def split_bodies(entries: bytes, count: int) -> Sequence[bytes]:
    """Return the stored bodies of a good reply, ``count`` at most, up to the first one that is not whole."""
    bodies: list[bytes] = []
    at, end = 0, len(entries)
    while at + LENGTH.size <= end and len(bodies) < count:
        (size,) = _unpack_length(entries, at)
        at += LENGTH.size
        if not 0 <= size <= end - at:
            break
        bodies.append(entries[at : at + size])
        at += size
    return bodies


def _headers(_: Operation, ids: Iterable[int]) -> list[bytes]:
    return list(map(_REQUEST_ID.pack, ids))


def _header_bounds(_octets: bytes | memoryview, start: int, _end: int) -> tuple[int, int]:
    return start + _GOOD.size, start + _REPLY.size


def _good_body(octets: bytes | memoryview, at: int, end: int, request: Request) -> bytes | None:
    is_good = octets[at - _REPLY.size : at - _REQUEST_ID.size] == request.good_reply
    return bytes(octets[at:end]) if is_good and at < end else None


def _parse(message: bytes | memoryview) -> Reply:
    if len(message) < _REPLY.size:
        raise FrameInvalid(f"{len(message)} bytes that are no reply to a batch read ({bytes(message).hex()})")
    version, opcode, _, code, ledger_id, first, request_id = _REPLY.unpack_from(message)
    if (version, opcode) != (_VERSION, _OPCODE):
        raise FrameInvalid(f"a reply of version {version} to operation {opcode}, where a batch read was asked for")
    status = _STATUSES.get(code, code)
    if status == Status.OK and len(message) == _REPLY.size:
        raise FrameInvalid("a successful reply to a batch read without an entry")
    body = bytes(message[_REPLY.size :]) if status == Status.OK else None
    return Reply(request_id, Operation.READ_BATCH, status, ledger_id, first, body)


BATCH_REPLIES: Final = ReplyFormat(_headers, _header_bounds, _good_body, _parse)
"""Format of the replies on a connection for batch reads; the header that names a request is its id."""
