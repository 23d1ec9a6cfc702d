"""Requests of version 3 of the protocol, encoded. Payloads are never copied: they follow the encoded rest.

A protobuf message may be put together from its fields, so that a request is encoded once for all bookies that get it,
and each connection puts the header with its transaction id before it. Bookies repeat that header in their reply, and encode
a good reply in one way only: so its bytes are known beforehand, as far as they are not an entry's.
"""

from collections.abc import Iterable
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
_GOOD: Final = b"\x10\x00"
"""Status of a reply."""
GOOD_READ: Final = _GOOD + _READ_TAG
"""Bytes of a good reply to a read between its header and the length of its read response."""
_UNSIGNED: Final = 2**64 - 1


class Operation(IntEnum):
    """Kind of a request, which its reply repeats."""

    READ_ENTRY = 1
    ADD_ENTRY = 2
    WRITE_LAC = 6
    READ_LAC = 7
    START_TLS = 9
    READ_BATCH = 100
    """No operation of version 3: see ``batch_reads``."""


_READ, _ADD = Operation.READ_ENTRY, Operation.ADD_ENTRY
OPERATION_NAMES: Final = {operation: operation.name for operation in Operation}
"""Names by operation: the attribute of an enumeration takes ten times as long."""
_pack_length: Final = LENGTH.pack
_HEADERS: Final = {
    operation: [bytes((0x0A, 5 + size, 0x08, _VERSION, 0x10, operation, 0x18)) for size in range(11)]
    for operation in Operation
}
"""All before the transaction id, by the bytes of that."""


class Request:
    """One request, for any number of bookies. It does not change.

    Args:
        operation: its kind.
        ledger_id: None if the request is about no ledger.
        entry_id: None if the request or its reply names no entry in particular.
        content: all of the encoded request but its header and its payload.
        payload: what follows; not copied.
        is_urgent: True for recovery, which a read-only bookie may serve, too.
        good_reply: what a good reply has behind its header: to an add all of it, to a read the fields of the read response
            up to its body. Empty if that is not known.
    """

    __slots__ = (
        "content", "entry_id", "frame_bytes", "good_reply", "is_read", "is_urgent", "ledger_id", "operation", "payload",
    )  # fmt: skip

    def __init__(
        self,
        operation: Operation,
        ledger_id: int | None,
        entry_id: int | None,
        content: bytes,
        payload: bytes = b"",
        *,
        is_urgent: bool = False,
        good_reply: bytes = b"",
    ) -> None:
        self.operation = operation
        self.ledger_id = ledger_id
        self.entry_id = entry_id
        self.content = content
        self.payload = payload
        self.is_urgent = is_urgent
        self.good_reply = good_reply
        self.is_read = operation is _READ
        """True if a good reply has a body: that of an entry, or of several."""
        self.frame_bytes = HEAD_BYTES_MAX + len(content) + len(payload)
        """Bytes of the whole frame, or up to 10 more."""

    def __str__(self) -> str:
        ids = "" if self.ledger_id is None else f" of {self.ledger_id}"
        return f"{self.operation.name}{ids}{'' if self.entry_id is None else f':{self.entry_id}'}"

    def head(self, header: bytes) -> tuple[bytes, bytes, bytes]:
        """Return all of the frame before the payload, in pieces; ``header`` is that of the reply."""
        if self.is_urgent:
            header = b"".join((header[:1], bytes((header[1] + len(_HIGH_PRIORITY),)), header[2:], _HIGH_PRIORITY))
        content = self.content
        return _pack_length(len(header) + len(content) + len(self.payload)), header, content


def reply_header(operation: Operation, txn_id: int) -> bytes:
    """Return the encoded header of a reply, its tag and length included. ``txn_id`` is 0 to 2^63-1."""
    (header,) = reply_headers(operation, range(txn_id, txn_id + 1))
    return header


def reply_headers(operation: Operation, txn_ids: Iterable[int]) -> list[bytes]:
    """Return the headers of several replies, as :func:`reply_header`."""
    before = _HEADERS[operation]
    return [before[len(txn)] + txn for txn in map(varint, txn_ids)]


def _before_entry_id_of_reply(ledger: bytes) -> bytes:
    """Return the first fields of a good reply to an add or a read: its status, and the ledger's encoded id."""
    return b"".join((b"\x08\x00\x10", ledger, b"\x18"))


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
        ledger = varint(ledger_id)
        self._before_entry_id = b"".join((_FLAG if is_recovery else b"", b"\x08", ledger, b"\x10"))
        self._after_entry_id = b"".join((b"\x1a", varint(len(key)), key, b"\x22"))
        self._reply_before_entry_id = _before_entry_id_of_reply(ledger)
        self._sizes = (0, 0)
        self._before = self._after = self._reply_before = b""

    def of(self, entry_id: int, sealed: bytes, payload: bytes) -> Request:
        """Return the request to add an entry.

        Args:
            entry_id: 0 to 2^63-1.
            sealed: header and digest of the payload, by ``Digest.seal``.
            payload: not copied.
        """
        entry = varint(entry_id)
        sizes = (len(entry), len(sealed) + len(payload))
        if sizes != self._sizes:
            self._encode_around(*sizes)
            self._sizes = sizes
        content = b"".join((self._before, entry, self._after, sealed))
        good = self._reply_before + entry
        return Request(_ADD, self._ledger_id, entry_id, content, payload, is_urgent=self._is_recovery, good_reply=good)

    def _encode_around(self, entry_id_bytes: int, body_bytes: int) -> None:
        """Encode what is before and behind an entry id; most entries of a ledger are as long as the one before."""
        self._after = self._after_entry_id + varint(body_bytes)
        size = len(self._before_entry_id) + entry_id_bytes + len(self._after) + body_bytes
        self._before = b"".join((_ADD_TAG, varint(size), self._before_entry_id))
        size = len(self._reply_before_entry_id) + entry_id_bytes
        self._reply_before = b"".join((_GOOD, _ADD_TAG, varint(size), self._reply_before_entry_id))


class ReadRequests:
    """Requests to read entries of one ledger; what they have in common is encoded once.

    Args:
        ledger_id: 0 to 2^63-1.
        fence_key: master key of the ledger, to fence it before reading: no writer may add to it any more. Reads of a
            recovery have it, too, or a bookie could say that an entry is missing and take it after that.
    """

    def __init__(self, ledger_id: int, *, fence_key: bytes | None = None) -> None:
        self._ledger_id = ledger_id
        self._is_recovery = fence_key is not None
        ledger = varint(ledger_id)
        self._before_entry_id = b"".join((b"\x08", ledger, b"\x10"))
        self._after = b"" if fence_key is None else b"".join((b"\x1a", varint(len(fence_key)), fence_key, _FLAG))
        self._reply_before = _before_entry_id_of_reply(ledger)
        self._entry_id_bytes = 0
        self._before = b""

    def of(self, entry_id: int) -> Request:
        """Return the request to read an entry. ``entry_id`` is 0 to 2^63-1, or ``LAST_ENTRY``."""
        entry = varint(entry_id & _UNSIGNED)  # as protobuf's int64
        if len(entry) != self._entry_id_bytes:
            size = len(self._before_entry_id) + len(entry) + len(self._after)
            self._before = b"".join((_READ_TAG, varint(size), self._before_entry_id))
            self._entry_id_bytes = len(entry)
        content = b"".join((self._before, entry, self._after))
        if entry_id == LAST_ENTRY:
            return Request(_READ, self._ledger_id, None, content, is_urgent=self._is_recovery)
        good = b"".join((self._reply_before, entry, b"\x22"))
        return Request(_READ, self._ledger_id, entry_id, content, is_urgent=self._is_recovery, good_reply=good)


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
