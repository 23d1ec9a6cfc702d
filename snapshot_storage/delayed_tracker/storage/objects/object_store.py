"""Protocol of a store of objects, of which the storage needs little. A new kind of store implements nothing else.

Keys are paths of letters, digits and ``_.-=,`` with ``/`` between their parts. Under ``t/`` an object is written once
and never changed; the others are small and are replaced by compare-and-swap.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final, Protocol

from delayed_tracker.storage.errors import SnapshotCorrupt, StorageUnavailable
from delayed_tracker.storage.shared.document_store import BLOB_BYTES_MAX, StoredDocument

SMALL_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size of an object that is read as a whole; documents have 256 KiB and what a few trackers need beyond that."""
RANGE_BYTES_MAX: Final = BLOB_BYTES_MAX
"""Size of what one read of a range returns."""
LISTED_MAX: Final = 2_000_000
"""Objects of one listing."""


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object of a listing."""

    key: str
    size_bytes: int
    version: str = ""
    """Another text after each replacement, not that of ``StoredDocument``; empty if the store does not tell, and for what is
    never replaced."""


class Objects(Protocol):
    """Objects by key. All operations may run concurrently; each may raise StorageUnavailable."""

    @property
    def name(self) -> str:
        """Place of the objects, for messages."""
        ...

    @property
    def min_interval_s(self) -> float:
        """Time that must pass between two writes of one key; 0 if the store does not mind."""
        ...

    async def start(self) -> None:
        """Open the store. Raises InvalidInput or StorageFormatUnsupported if it is no place for a storage."""
        ...

    async def close(self) -> None:
        """Finish the accepted operations and release all resources; closing twice is harmless."""
        ...

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store an object under a new key, durably and whole, and return its bytes.

        After an error or a cancellation it is not there, unless the store cannot be reached: then it may be.
        """
        ...

    async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
        """Replace a small object durably if it has this version, and return its new one; see ``DocumentStore.write``.

        Raises:
            Stale: it has another version, or the store cannot tell.
        """
        ...

    async def get(self, key: str) -> StoredDocument | None:
        """Return a small object with its version; None if there is none.

        Raises:
            SnapshotCorrupt: it has more than ``SMALL_BYTES_MAX``.
        """
        ...

    async def get_range(self, key: str, first: int, end: int) -> bytes | None:
        """Return the bytes from ``first`` to before ``end``, fewer if the object ends before; None if there is none.

        Raises:
            SnapshotCorrupt: they are more than ``RANGE_BYTES_MAX``.
        """
        ...

    async def delete(self, key: str) -> bool:
        """Delete an object; return False if the store says that there is none. Many stores do not say so."""
        ...

    async def listing(self, prefix: str) -> list[ListedObject]:
        """Return the objects whose keys begin with ``prefix``, which ends with a slash, in any order.

        Raises:
            StorageUnavailable: they are more than ``LISTED_MAX``.
        """
        ...


def require_readable(place: str, size_bytes: int, most: int) -> None:
    """Verify the size of what is about to be read.

    Raises:
        SnapshotCorrupt: it has more bytes than anything that this program writes.
    """
    if size_bytes > most:
        raise SnapshotCorrupt(
            f"{place} is damaged: it has {size_bytes} bytes, {most} are the most that are read; another program wrote it"
        )


def require_listable(place: str, count: int) -> None:
    """Verify how many objects a listing has so far.

    Raises:
        StorageUnavailable: they are more than ``LISTED_MAX``.
    """
    if count > LISTED_MAX:
        raise StorageUnavailable(f"{place} has more than {LISTED_MAX} objects; give each storage a prefix of its own")
