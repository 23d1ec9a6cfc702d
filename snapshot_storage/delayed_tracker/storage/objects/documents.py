"""The two stores of a shared catalogue over objects: documents, and blobs of trackers."""

from collections.abc import AsyncIterator, Callable
from struct import Struct
from typing import Final

from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.objects.keys import BLOB, ObjectKey, folder_of
from delayed_tracker.storage.objects.object_store import Objects
from delayed_tracker.storage.shared.document_store import StoredBlob, StoredDocument

DOCUMENT_BYTES_MAX: Final = 256 * 1024

_POINTER: Final = Struct("<QQQ")
_EVERYTHING: Final = 2**62


class ObjectDocuments:
    """Documents as small objects, replaced by conditional puts."""

    def __init__(self, objects: Objects, *, max_bytes: int = DOCUMENT_BYTES_MAX) -> None:
        self._objects = objects
        self.max_bytes: Final = max_bytes

    @property
    def min_interval_s(self) -> float:
        """Time that must pass between two writes of one name."""
        return self._objects.min_interval_s

    async def read(self, name: str) -> StoredDocument | None:
        """Return the newest content."""
        return await self._objects.get(name)

    async def write(self, name: str, content: bytes, expected: str | None) -> str:
        """Replace the document if it has the expected version."""
        return await self._objects.put_if(name, content, expected)

    async def listing(self, folder: str) -> dict[str, str]:
        """Return the names in a folder, with their versions."""
        return {listed.key: listed.version for listed in await self._objects.listing(f"{folder}/")}


class ObjectBlobs:
    """Blobs as immutable objects beside the snapshots of their tracker. Their pointers are epoch, instance and number.

    Args:
        objects: the store.
        instance: number of this process, from 0 to 2^64 - 1.
        new_number: returns a number that no object of any process has, from 0 to 2^63 - 1.
    """

    def __init__(self, objects: Objects, instance: int, new_number: Callable[[], int]) -> None:
        self._objects = objects
        self._instance = instance
        self._new_number = new_number

    async def put(self, topic: str, cursor: str, epoch: int, content: bytes) -> bytes:
        """Store a blob under a new key."""
        key = ObjectKey(folder_of(topic, cursor), epoch, self._instance, self._new_number(), BLOB)
        await self._objects.put(str(key), _once(content))
        return _pointer(key)

    async def get(self, topic: str, cursor: str, pointer: bytes) -> bytes:
        """Return a blob."""
        key = str(_key(topic, cursor, pointer))
        content = await self._objects.get_range(key, 0, _EVERYTHING)
        if content is None:
            raise SnapshotNotFound(f"there is no object {key}")
        return content

    async def delete(self, topic: str, cursor: str, pointer: bytes) -> None:
        """Delete a blob if it exists."""
        await self._objects.delete(str(_key(topic, cursor, pointer)))

    async def blobs(self, topic: str, cursor: str) -> list[StoredBlob]:
        """Return the blobs of a tracker."""
        keys = [ObjectKey.parse(listed.key) for listed in await self._objects.listing(folder_of(topic, cursor))]
        return [StoredBlob(_pointer(key), key.epoch) for key in keys if key is not None and key.kind == BLOB]


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content


def _pointer(key: ObjectKey) -> bytes:
    return _POINTER.pack(key.epoch, key.instance, key.number)


def _key(topic: str, cursor: str, pointer: bytes) -> ObjectKey:
    if len(pointer) != _POINTER.size:
        raise SnapshotCorrupt(
            f"a catalogue of {topic!r}, {cursor!r} names a blob of another kind of storage; copy it with its storage"
        )
    epoch, instance, number = _POINTER.unpack(pointer)
    return ObjectKey(folder_of(topic, cursor), epoch, instance, number, BLOB)
