"""Requests of version 3 of the protocol, encoded. Payloads are never copied: they follow the encoded rest.

A protobuf message may be put together from its fields, so that a request is encoded once for all bookies that get it,
and each connection puts the header with its transaction id before it.
"""

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from delayed_tracker.bookkeeper.wire.frames import LENGTH
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from delayed_tracker.wire.column_fields import varint

LAST_ENTRY: Final = -1
"""Entry id that reads the last entry that the bookie has."""
HEAD_BYTES_MAX: Final = LENGTH.size + 18
"""Most bytes before the content of a request: the frame's length, version, operation, a large transaction id, priority.
"""
_VERSION: Final = 3
_HIGH_PRIORITY: Final = b"\x20\x64"
_ADD_TAG: Final = b"\xaa\x06"
_READ_TAG: Final = b"\xa2\x06"
_FLAG: Final = b"\xa0\x06\x01"
"""The only flag of an add and of a read: RECOVERY_ADD and FENCE_LEDGER."""
_UNSIGNED: Final = 2**64 - 1


class Operation(IntEnum):
    """Kind of a request, which its reply repeats."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    WRITE_LAC = 6
    READ_LAC = 7
    START_TLS = 9


OPERATION_NAMES: Final = {operation: operation.name for operation in Operation}
"""Names by operation: the attribute of an enumeration takes ten times as long."""
_HEADERS: Final = {operation: bytes((0x08, _VERSION, 0x10, operation, 0x18)) for operation in Operation}
_LENGTH_AND_TAG: Final = struct.Struct(LENGTH.format + "BB")


@dataclass(slots=True)
class Request:
    """One request, for any number of bookies. It does not change; to be frozen would cost each entry a microsecond."""

    operation: Operation
    ledger_id: int | None
    """None if the request is about no ledger."""
    entry_id: int | None
    """None if the request or its reply names no entry in particular."""
    content: bytes = field(repr=False)
    """All of the encoded request but its header and its payload."""
    payload: bytes = field(default=b"", repr=False)
    is_urgent: bool = False
    """True for recovery, which a read-only bookie may serve, too."""
    frame_bytes: int = field(init=False, repr=False)
    """Bytes of the whole frame, or up to 10 more."""

    def __post_init__(self) -> None:
        self.frame_bytes = HEAD_BYTES_MAX + len(self.content) + len(self.payload)

    def __str__(self) -> str:
        ids = "" if self.ledger_id is None else f" of {self.ledger_id}"
        return f"{self.operation.name}{ids}{'' if self.entry_id is None else f':{self.entry_id}'}"

    def head(self, txn_id: int) -> bytes:
        """Return all bytes of the frame before the payload. ``txn_id`` is 0 to 2^63-1."""
        header = _HEADERS[self.operation] + varint(txn_id)
        if self.is_urgent:
            header += _HIGH_PRIORITY
        length = 2 + len(header) + len(self.content) + len(self.payload)
        return b"".join((_LENGTH_AND_TAG.pack(length, 0x0A, len(header)), header, self.content))


class AddRequests:
    """Requests to add entries to one ledger; what they have in common is encoded once.

    Args:
        ledger_id: 0 to 2^63-1.
        key: master key of the ledger, 20 bytes.
        is_recovery: whether the ledger is being recovered, so that its being fenced is no reason to refuse.
    """

    def __init__(self, ledger_id: int, key: bytes, *, is_recovery: bool = False) -> None:
        self._ledger_id = ledger_id
        self._is_recovery = is_recovery
        self._before_entry_id = b"".join((_FLAG if is_recovery else b"", b"\x08", varint(ledger_id), b"\x10"))
        self._after_entry_id = b"".join((b"\x1a", varint(len(key)), key, b"\x22"))

    def of(self, entry_id: int, sealed: bytes, payload: bytes) -> Request:
        """Return the request to add an entry.

        Args:
            entry_id: 0 to 2^63-1.
            sealed: header and digest of the payload, by ``Digest.seal``.
            payload: not copied.
        """
        before, after = self._before_entry_id, self._after_entry_id
        entry, body_bytes = varint(entry_id), len(sealed) + len(payload)
        body = varint(body_bytes)
        size = varint(len(before) + len(entry) + len(after) + len(body) + body_bytes)
        content = b"".join((_ADD_TAG, size, before, entry, after, body, sealed))
        return Request(Operation.ADD_ENTRY, self._ledger_id, entry_id, content, payload, self._is_recovery)


def read_request(ledger_id: int, entry_id: int, *, fence_key: bytes | None = None) -> Request:
    """Return the request to read an entry.

    Args:
        ledger_id: 0 to 2^63-1.
        entry_id: 0 to 2^63-1, or ``LAST_ENTRY``.
        fence_key: master key of the ledger, to fence it before reading: no writer may add to it any more. Reads of a
            recovery have it, too, or a bookie could say that an entry is missing and take it after that.
    """
    entry = varint(entry_id & _UNSIGNED)  # as protobuf's int64
    fields = b"".join((b"\x08", varint(ledger_id), b"\x10", entry))
    if fence_key is not None:
        fields = b"".join((fields, b"\x1a", varint(len(fence_key)), fence_key, _FLAG))
    content = b"".join((_READ_TAG, varint(len(fields)), fields))
    named = None if entry_id == LAST_ENTRY else entry_id
    return Request(Operation.READ_ENTRY, ledger_id, named, content, is_urgent=fence_key is not None)


def write_lac_request(ledger_id: int, last_confirmed: int, key: bytes, sealed: bytes) -> Request:
    """Return the request to store the ledger's last add confirmed. ``sealed`` is made by ``Digest.seal_lac``."""
    write = pb.WriteLacRequest(ledgerId=ledger_id, lac=last_confirmed, masterKey=key, body=sealed)
    return Request(Operation.WRITE_LAC, ledger_id, None, _content(writeLacRequest=write))


def read_lac_request(ledger_id: int) -> Request:
    """Return the request to read what the bookie knows about the ledger's last add confirmed."""
    return Request(Operation.READ_LAC, ledger_id, None, _content(readLacRequest=pb.ReadLacRequest(ledgerId=ledger_id)))


def start_tls_request() -> Request:
    """Return the request after whose reply the client begins the TLS handshake."""
    return Request(Operation.START_TLS, None, None, _content(startTLSRequest=pb.StartTLSRequest()))


def _content(
    *,
    writeLacRequest: pb.WriteLacRequest | None = None,  # noqa: N803  # fields of the message
    readLacRequest: pb.ReadLacRequest | None = None,  # noqa: N803
    startTLSRequest: pb.StartTLSRequest | None = None,  # noqa: N803
) -> bytes:
    request = pb.Request(
        writeLacRequest=writeLacRequest,
        readLacRequest=readLacRequest,
        startTLSRequest=startTLSRequest,
    )
    return request.SerializePartialToString()
