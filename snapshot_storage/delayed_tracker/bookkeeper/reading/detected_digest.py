"""The digest of a ledger's entries, whose type is found at the first entry if the metadata do not have it."""

from collections.abc import Callable
from typing import Final, TypeVar

from delayed_tracker.bookkeeper.errors import DigestMismatch
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, Entry

_DETECTED: Final = (DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC)
"""Types to try, in this order. DUMMY would fit anything."""

T = TypeVar("T")


class DetectedDigest:
    """Digest of one ledger.

    Args:
        metadata: of the ledger.
        password: of the ledger.
    """

    def __init__(self, metadata: LedgerMetadata, password: bytes) -> None:
        types = _DETECTED if metadata.digest_type is None else (metadata.digest_type,)
        self._digests = tuple(Digest(digest_type, password) for digest_type in types)

    @property
    def found(self) -> Digest:
        """The digest that the metadata name, or that fitted an entry; before that, the likeliest."""
        return self._digests[0]

    def open(self, ledger_id: int, entry_id: int | None, body: bytes) -> Entry:
        """Return the entry that a bookie stored, as :meth:`Digest.open`.

        Raises:
            DigestMismatch: the body does not fit its digest, or is another entry.
        """
        if len(self._digests) == 1:
            return self._digests[0].open(ledger_id, entry_id, body)
        return self._first(lambda digest: digest.open(ledger_id, entry_id, body))

    def open_lac(self, ledger_id: int, body: bytes) -> int:
        """Return an explicit last add confirmed, as :meth:`Digest.open_lac`.

        Raises:
            DigestMismatch: the body does not fit its digest, or is of another ledger.
        """
        return self._first(lambda digest: digest.open_lac(ledger_id, body))

    def _first(self, opened_by: Callable[[Digest], T]) -> T:
        *others, last = self._digests
        for digest in others:
            try:
                opened = opened_by(digest)
            except DigestMismatch:
                continue
            self._digests = (digest,)
            return opened
        opened = opened_by(last)
        self._digests = (last,)
        return opened
