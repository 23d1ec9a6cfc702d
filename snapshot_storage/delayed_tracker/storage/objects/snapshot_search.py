"""Looks for snapshots of which nothing but the id is known, in a listing of all objects, which searches share."""

import asyncio
from typing import Final

from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.objects.keys import IMMUTABLE, SNAPSHOT, KnownObject, ObjectKey
from delayed_tracker.storage.objects.object_store import Objects
from delayed_tracker.storage.objects.present_objects import FORMAT_KEY


class SnapshotSearch:
    """Searches one after the other. Those that wait take the answer of one listing, so that one at a time is in memory.

    Args:
        objects: the store; a read of its format object raises StorageUnavailable if it is away.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects: Final = objects
        self._turn = asyncio.Lock()
        self._sought: list[int] = []
        self._begun = 0
        self._ended = 0
        """Number of the last listing that has ended."""
        self._found: dict[int, KnownObject] = {}
        self._error: StorageUnavailable | None = None

    async def find(self, bucket_id: int) -> KnownObject | None:
        """Return a snapshot; None if a listing that began after the call does not have it. Raises StorageUnavailable."""
        begun_before = self._begun
        self._sought.append(bucket_id)
        try:
            async with self._turn:
                if bucket_id not in self._found and self._ended <= begun_before:
                    await self._list()
                if self._error is not None:
                    raise self._error
                return self._found.get(bucket_id)
        finally:
            self._sought.remove(bucket_id)

    async def _list(self) -> None:
        """List all objects, and keep the snapshots that are sought by then, or why this failed."""
        self._begun += 1
        self._found, self._error = {}, None
        try:
            listed = await self._objects.listing(f"{IMMUTABLE}/")
            if not listed:
                await self._objects.get(FORMAT_KEY)
        except StorageUnavailable as error:
            self._error = error
        else:
            sought = set(self._sought)
            for candidate in listed:
                key = ObjectKey.parse(candidate.key)
                if key is not None and key.kind == SNAPSHOT and key.number in sought:
                    self._found[key.number] = KnownObject(key, candidate.size_bytes, 0)
        self._ended = self._begun
