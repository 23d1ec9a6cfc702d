"""Computes the digest by which a snapshot is known to read back as it was written."""

import hashlib
from collections.abc import Sequence


class EntryDigest:
    """Digest over entries and the places at which they end."""

    def __init__(self) -> None:
        self._digest = hashlib.blake2b(digest_size=32)
        self.byte_count = 0
        """Bytes of all entries."""

    def add(self, entries: Sequence[bytes]) -> None:
        """Add entries, in order."""
        for entry in entries:
            self._digest.update(len(entry).to_bytes(8, "little"))
            self._digest.update(entry)
            self.byte_count += len(entry)

    def digest(self) -> bytes:
        """Return 32 bytes."""
        return self._digest.digest()
