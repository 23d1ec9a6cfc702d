"""Protocols of the stores under a shared catalogue: documents with compare-and-swap, and blobs that never change.

A write that raised StorageUnavailable may have been applied, and may be applied later. It is conditional in any case, so
that a late one cannot undo what was written after it.
"""

from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

from delayed_tracker.core.values.errors import DelayedTrackerError

BLOB_BYTES_MAX: Final = 256 * 1024 * 1024
"""Size up to which every store returns a blob."""


class Stale(DelayedTrackerError):
    """The document has another version than the expected one; or the store cannot tell whether it has."""

    reason = "DOCUMENT_STALE"


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """Content of a document, and the version that a write must name to replace it."""

    content: bytes
    version: str
    """Known to its store only; every write gives another one."""


class DocumentStore(Protocol):
    """Small documents by name. All operations may run concurrently, and may raise StorageUnavailable."""

    @property
    def max_bytes(self) -> int:
        """Size that a document should not exceed; the catalogue keeps larger ones in a blob."""
        ...

    @property
    def min_interval_s(self) -> float:
        """Time that must pass between two writes of one name; 0 if the store does not mind."""
        ...

    async def read(self, name: str) -> StoredDocument | None:
        """Return the newest content, of any process; None if there is none."""
        ...

    async def write(self, name: str, content: bytes, expected: str | None) -> str:
        """Replace the document durably if it has the expected version, and return its new one.

        Args:
            name: letters, digits and ``_.-=,/``, of 210 characters at most.
            content: differs from every earlier one.
            expected: the version that was read; None if there must be no document.
        Raises:
            Stale: it has another version; nothing was written by this call, unless its first reply was lost.
        """
        ...

    async def listing(self, folder: str) -> dict[str, str]:
        """Return the names that begin with ``folder/``, each with a text that is another one after each write.

        The text is not the version that ``read`` returns, and is empty if the store does not list any. All of it may lag
        behind the writes.
        """
        ...


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """One blob of a listing, referenced by a document or not."""

    pointer: bytes
    epoch: int
    """Epoch under which it was put."""


class BlobStore(Protocol):
    """Blobs of trackers: written once, read many times. All operations may raise StorageUnavailable."""

    async def put(self, topic: str, cursor: str, epoch: int, content: bytes) -> bytes:
        """Store a blob of up to ``BLOB_BYTES_MAX`` bytes durably.

        Returns: its pointer, of 64 bytes at most, which is never used again.
        """
        ...

    async def get(self, topic: str, cursor: str, pointer: bytes) -> bytes:
        """Return a blob as it is stored, not verified. Raises SnapshotNotFound if it is gone, or can never be read."""
        ...

    async def delete(self, topic: str, cursor: str, pointer: bytes) -> None:
        """Delete a blob; deleting a missing one succeeds."""
        ...

    async def blobs(self, topic: str, cursor: str) -> list[StoredBlob]:
        """Return the blobs of a tracker, in any order. It may lag behind the writes."""
        ...


@runtime_checkable
class NamesSnapshots(Protocol):
    """A storage of snapshots that finds one by more than its bucket id; the catalogue keeps that for it."""

    def pointer_of(self, bucket_id: int) -> bytes:
        """Return what else is known of a snapshot, 64 bytes at most; empty if nothing is."""
        ...

    def learn(self, topic: str, cursor: str, bucket_id: int, pointer: bytes) -> None:
        """Take what ``pointer_of`` has returned, in this process or another; anything else is passed over."""
        ...
