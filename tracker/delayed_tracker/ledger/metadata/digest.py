"""Digests of stored entries whose type is known, or one of several; many entries at once."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType
from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.checksum_kernels import fitting_digests
from delayed_tracker.ledger.metadata.ledger_metadata import LedgerMetadata

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
        for digest_type in self.types:
            payload = Digest(digest_type, self.password).payload_of(body)
            if payload is not None:
                return digest_type, payload
        return None

    def fitting(self, octets: NDArray[np.uint8], start: Int64Array, end: Int64Array) -> NDArray[np.uint8]:
        """Return the digest type that fits each body ``octets[start:end]``; 0 if no type fits. O(bytes)."""
        if _COMPILED.issuperset(self.types):
            return fitting_digests(octets, start, end, np.array(self.types, np.int64))
        bodies = (octets[first:last].tobytes() for first, last in zip(start.tolist(), end.tolist(), strict=True))
        opened = (self.open(body) for body in bodies)
        return np.fromiter((0 if found is None else found[0] for found in opened), np.uint8, len(start))
