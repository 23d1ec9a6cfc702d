"""Header and digest that BookKeeper stores with an entry's payload, and their verification.

    body = ledger id i64 || entry id i64 || last add confirmed i64 || length i64 || digest || payload

The digest covers the 32 bytes before it and the payload. Only the ledger's metadata gives its type, and so its size.
An explicit last-add-confirmed (LAC) is stored as ledger id i64 || LAC i64 || digest of these 16 bytes.
"""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

import google_crc32c

from delayed_tracker.bookkeeper.errors import DigestMismatch

BODY_HEADER: Final = struct.Struct(">qqqq")
"""Ledger id, entry id, last add confirmed when the entry was sent, payload bytes of the ledger up to this entry."""

_HEADER_BYTES: Final = BODY_HEADER.size
_unpack_header: Final = BODY_HEADER.unpack
_LAC_HEADER: Final = struct.Struct(">qq")
_CRC32: Final = struct.Struct(">Q")
_CRC32C: Final = struct.Struct(">I")


class DigestType(IntEnum):
    """Kind of digest that protects each stored entry."""

    CRC32 = 1
    HMAC = 2
    CRC32C = 3
    DUMMY = 4


DIGEST_BYTES: Final = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}
"""Bytes of each digest type."""


def master_key(password: bytes) -> bytes:
    """Return the 20 bytes by which bookies know the writers of a ledger (Java: ``MacDigestManager.genDigest``)."""
    return hashlib.sha1(b"ledger" + password, usedforsecurity=False).digest()


def _hmac_sha1(header: bytes, payload: bytes, password: bytes) -> bytes:
    key = hashlib.sha1(b"mac" + password, usedforsecurity=False).digest()
    return hmac.digest(key, header + payload, "sha1")


_COMPUTE: Final[dict[DigestType, Callable[[bytes, bytes, bytes], bytes]]] = {
    DigestType.CRC32: lambda header, payload, _: _CRC32.pack(zlib.crc32(payload, zlib.crc32(header))),
    DigestType.HMAC: _hmac_sha1,
    DigestType.CRC32C: lambda header, payload, _: _CRC32C.pack(
        google_crc32c.extend(google_crc32c.value(header), payload)
    ),
    DigestType.DUMMY: lambda _header, _payload, _password: b"",
}


@dataclass(slots=True)
class Entry:
    """One entry, verified. It does not change; to be frozen would cost each entry a microsecond."""

    entry_id: int
    last_confirmed: int
    """Last add confirmed that the writer knew when it sent the entry; -1 for none."""
    length: int
    """Payload bytes of the ledger up to this entry, its own included."""
    payload: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Digest:
    """Digest of the entries of one ledger: type and password."""

    type: DigestType
    password: bytes = field(default=b"", repr=False)
    # Looked up once: the hash of an enumeration's member takes longer than a small digest.
    _compute: Callable[[bytes, bytes, bytes], bytes] = field(init=False, repr=False, compare=False)
    _payload_start: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compute", _COMPUTE[self.type])
        object.__setattr__(self, "_payload_start", _HEADER_BYTES + DIGEST_BYTES[self.type])

    def seal(self, ledger_id: int, entry_id: int, last_confirmed: int, length: int, payload: bytes) -> bytes:
        """Return the bytes that go before a payload. ``length`` counts this payload and all before it in the ledger."""
        header = BODY_HEADER.pack(ledger_id, entry_id, last_confirmed, length)
        return header + self._compute(header, payload, self.password)

    def payload_of(self, body: bytes) -> bytes | None:
        """Return the payload of a stored body; None if it does not fit its digest, or has no room for one."""
        start = self._payload_start
        if len(body) < start:
            return None
        header, payload = body[:_HEADER_BYTES], body[start:]
        return payload if self._compute(header, payload, self.password) == body[_HEADER_BYTES:start] else None

    def open(self, ledger_id: int, entry_id: int | None, body: bytes) -> Entry:
        """Return the entry that a bookie stored.

        Args:
            ledger_id: the ledger that was asked for.
            entry_id: the entry that was asked for; None for the last one of the bookie, whichever that is.
            body: all that the bookie stored.
        Raises:
            DigestMismatch: the body does not fit its digest, or is another entry.
        """
        start = self._payload_start
        header, payload = body[:_HEADER_BYTES], body[start:]
        # A body that is too short has a digest of another length.
        if self._compute(header, payload, self.password) != body[_HEADER_BYTES:start] or len(body) < start:
            asked = _asked(ledger_id, entry_id)
            raise DigestMismatch(
                f"{asked}: its {len(body)} bytes do not fit their {self.type.name} digest; read another replica, or"
                " give the ledger's password and digest type"
            )
        found_ledger, found_entry, last_confirmed, length = _unpack_header(header)
        if (
            found_ledger != ledger_id
            or found_entry < 0
            or found_entry != (found_entry if entry_id is None else entry_id)
        ):
            asked = _asked(ledger_id, entry_id)
            raise DigestMismatch(f"{asked}: the bookie has {found_ledger}:{found_entry} there; read another replica")
        return Entry(found_entry, last_confirmed, length, payload)

    def seal_lac(self, ledger_id: int, last_confirmed: int) -> bytes:
        """Return an explicit last-add-confirmed as bookies store it."""
        header = _LAC_HEADER.pack(ledger_id, last_confirmed)
        return header + self._compute(header, b"", self.password)

    def open_lac(self, ledger_id: int, body: bytes) -> int:
        """Return the last add confirmed of :meth:`seal_lac`.

        Raises:
            DigestMismatch: the body does not fit its digest, or is of another ledger.
        """
        header = body[: _LAC_HEADER.size]
        fits = len(body) == _LAC_HEADER.size + DIGEST_BYTES[self.type]
        if not fits or self._compute(header, b"", self.password) != body[_LAC_HEADER.size :]:
            raise DigestMismatch(
                f"last add confirmed of ledger {ledger_id}: {body[:40].hex()} does not fit its {self.type.name} digest;"
                " ask another bookie, or give the ledger's password and digest type"
            )
        found, last_confirmed = _LAC_HEADER.unpack(header)
        if found != ledger_id:
            raise DigestMismatch(
                f"last add confirmed of ledger {ledger_id}: it is of ledger {found}; ask another bookie"
            )
        return int(last_confirmed)


def _asked(ledger_id: int, entry_id: int | None) -> str:
    return f"entry {ledger_id}:{'last' if entry_id is None else entry_id}"


def encode_body(
    ledger_id: int,
    entry_id: int,
    payload: bytes,
    *,
    last_add_confirmed: int,
    length: int,
    digest_type: DigestType = DigestType.CRC32C,
    password: bytes = b"",
) -> bytes:
    """Encode an entry as a bookie stores it. ``length`` counts this payload and all before it in the ledger."""
    return Digest(digest_type, password).seal(ledger_id, entry_id, last_add_confirmed, length, payload) + payload
