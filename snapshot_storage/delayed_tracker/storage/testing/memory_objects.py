"""A store of objects in memory: the least that the storage over objects needs of one. Nothing in it waits."""

from collections.abc import AsyncIterator
from typing import Final

from delayed_tracker.storage.objects.object_store import ListedObject
from delayed_tracker.storage.shared.document_store import Stale, StoredDocument


class MemoryObjects:
    """Objects in a dictionary, which several storages may use at the same time, as processes would."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        """Every object by its key."""
        self._versions: dict[str, int] = {}
        self._writes = 0
        self.name: Final = "memory"
        self.min_interval_s: Final = 0.0

    async def start(self) -> None:
        """Do nothing: there is nothing to open."""

    async def close(self) -> None:
        """Keep the content, for the other storages and the next start."""

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store an object when all of its chunks have arrived."""
        content = b"".join([chunk async for chunk in chunks])
        self.content[key] = content
        return len(content)

    async def put_if(self, key: str, content: bytes, expected: str | None) -> str:
        """Replace an object if it has this version."""
        if self._version(key) != expected:
            raise Stale(f"{key} has the version {self._version(key)}, not {expected}")
        self._writes += 1
        self._versions[key] = self._writes
        self.content[key] = content
        return str(self._writes)

    async def get(self, key: str) -> StoredDocument | None:
        """Return an object with its version."""
        version = self._version(key)
        return None if version is None else StoredDocument(self.content[key], version)

    async def get_range(self, key: str, first: int, end: int) -> bytes | None:
        """Return a range of an object."""
        content = self.content.get(key)
        return None if content is None else content[first:end]

    async def delete(self, key: str) -> bool:
        """Delete an object if it exists."""
        return self.content.pop(key, None) is not None

    async def listing(self, prefix: str) -> list[ListedObject]:
        """Return the objects of a folder."""
        return [
            ListedObject(key, len(content), self._version(key) or "")
            for key, content in self.content.items()
            if key.startswith(prefix)
        ]

    def _version(self, key: str) -> str | None:
        return str(self._versions.get(key, 0)) if key in self.content else None
