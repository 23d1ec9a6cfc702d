"""A store of objects that tells a missing object from a missing store: both answer a read in the same way.

A bucket that was deleted and may come back, a server whose volume is not mounted, a directory that is elsewhere for a
while: each says of every object that there is none. A storage that believed it would give its snapshots up for good.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, TypeVar

from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageUnavailable
from delayed_tracker.storage.objects.object_store import ListedObject, Objects
from delayed_tracker.storage.shared.document_store import Stale, StoredDocument

T = TypeVar("T")

FORMAT_KEY: Final = "format"
"""Key of an object that every store has from its first start on."""
FORMAT: Final = b"delayed-tracker objects 1\n"


class PresentObjects:
    """Another store, whose objects are missing only while its format object is there."""

    def __init__(self, inner: Objects) -> None:
        self._inner = inner

    @property
    def name(self) -> str:
        """Place of the objects, for messages."""
        return self._inner.name

    @property
    def min_interval_s(self) -> float:
        """Time that must pass between two writes of one key."""
        return self._inner.min_interval_s

    async def start(self) -> None:
        """Open the store, and verify that it has this format or nothing, which gets it."""
        await self._inner.start()
        started = False
        try:
            await self._require_format()
            started = True
        finally:
            if not started:
                await self._inner.close()

    async def _require_format(self) -> None:
        found = await self._inner.get(FORMAT_KEY)
        if found is None:
            try:
                await self._inner.put_if(FORMAT_KEY, FORMAT, None)
            except Stale:
                found = await self._inner.get(FORMAT_KEY)
        if found is not None and found.content != FORMAT:
            raise StorageFormatUnsupported(
                f"the object {FORMAT_KEY!r} has {found.content[:60]!r} instead of {FORMAT!r}: another program's, or a newer "
                "version's; use that one, or give another place"
            )

    async def close(self) -> None:
        """Finish the accepted operations and close the store."""
        await self._inner.close()

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store an object under a new key."""
        return await self._inner.put(key, chunks)

    async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
        """Replace a small object if it has this version."""
        return await self._inner.put_if(key, content, expected)

    async def get(self, key: str) -> StoredDocument | None:
        """Return a small object; None if there is none although the store is there."""
        return await self._surely(key, lambda: self._inner.get(key))

    async def get_range(self, key: str, first: int, end: int) -> bytes | None:
        """Return a range of an object; None if there is no object although the store is there."""
        return await self._surely(key, lambda: self._inner.get_range(key, first, end))

    async def delete(self, key: str) -> bool:
        """Delete an object; return False if there is none although the store is there."""

        async def deleted() -> bool | None:
            return await self._inner.delete(key) or None

        return await self._surely(key, deleted) is not None

    async def listing(self, prefix: str) -> list[ListedObject]:
        """Return the objects below a prefix."""
        return await self._inner.listing(prefix)

    async def _surely(self, key: str, read: Callable[[], Awaitable[T | None]]) -> T | None:
        """Return what a read finds; None only if it finds nothing in a store that is there.

        Raises:
            StorageUnavailable: the store has not even its format object.
        """
        found = await read()
        if found is not None:
            return found
        if await self._inner.get(FORMAT_KEY) is None:
            raise StorageUnavailable(
                f"{self.name} has neither {key} nor {FORMAT_KEY!r}, which every storage has: bring the bucket, container or "
                f"directory back with its content; if only {FORMAT_KEY!r} was deleted, restart the service, which writes it"
            )
        return await read()  # the store may have come back since the first read
