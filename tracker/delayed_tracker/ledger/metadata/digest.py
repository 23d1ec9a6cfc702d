"""Header and digest that BookKeeper stores with an entry's payload, and their verification.

    body = ledger id i64 || entry id i64 || last add confirmed i64 || length i64 || digest || payload

The digest covers the 32 bytes before it and the payload. Only the ledger's metadata gives its type, and so its size.
"""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.checksum_kernels import fitting_digests
from delayed_tracker.ledger.metadata.ledger_metadata import DigestType, LedgerMetadata

BODY_HEADER: Final = struct.Struct(">qqqq")
"""Ledger id, entry id, last add confirmed when the entry was sent, payload bytes of the ledger up to this entry."""

_CRC32: Final = struct.Struct(">Q")
_CRC32C: Final = struct.Struct(">I")


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
DIGEST_BYTES: Final = {DigestType.CRC32: 8, DigestType.HMAC: 20, DigestType.CRC32C: 4, DigestType.DUMMY: 0}
"""Bytes of each digest type."""
_COMPILED: Final = frozenset({DigestType.CRC32, DigestType.CRC32C})
"""Digest types that are computed by compiled code, without a Python call per entry."""


@dataclass(frozen=True, slots=True)
class LedgerDigest:
    """Digest type and password of one ledger."""

    types: tuple[DigestType, ...] = (DigestType.CRC32C, DigestType.CRC32)
    """Types to try, in this order. Several if no metadata gives the type; HMAC, which needs the password, and DUMMY,
    which fits anything, are then not tried."""
    password: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, metadata: LedgerMetadata | None) -> "LedgerDigest":
        """Return the digest that a ledger's metadata names."""
        if metadata is None or metadata.digest_type is None:
            return cls()
        return cls((metadata.digest_type,), metadata.password)

    def open(self, body: bytes) -> tuple[DigestType, bytes] | None:
        """Return the digest type that fits and the payload; None if no type fits."""
        header = body[: BODY_HEADER.size]
        for digest_type in self.types:
            start = BODY_HEADER.size + DIGEST_BYTES[digest_type]
            if len(body) < start:
                continue
            payload = body[start:]
            if _COMPUTE[digest_type](header, payload, self.password) == body[BODY_HEADER.size : start]:
                return digest_type, payload
        return None

    def fitting(self, octets: NDArray[np.uint8], start: Int64Array, end: Int64Array) -> NDArray[np.uint8]:
        """Return the digest type that fits each body ``octets[start:end]``; 0 if no type fits. O(bytes)."""
        if _COMPILED.issuperset(self.types):
            return fitting_digests(octets, start, end, np.array(self.types, np.int64))
        bodies = (octets[first:last].tobytes() for first, last in zip(start.tolist(), end.tolist(), strict=True))
        opened = (self.open(body) for body in bodies)
        return np.fromiter((0 if found is None else found[0] for found in opened), np.uint8, len(start))


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
    header = BODY_HEADER.pack(ledger_id, entry_id, last_add_confirmed, length)
    return header + _COMPUTE[digest_type](header, payload, password) + payload
