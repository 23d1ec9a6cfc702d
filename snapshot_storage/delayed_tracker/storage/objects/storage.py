"""The storage over objects: snapshots are immutable objects, catalogues are documents, and many processes may share it.

A snapshot is found by its key, which has more than the bucket id: what is missing is learned when a snapshot is created
or listed, or when a catalogue is read. Only an id of which this process has heard nothing is looked for in a listing.
"""

import contextlib
import random
from collections.abc import AsyncIterable

from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.storage.capabilities import SnapshotPlaces
from delayed_tracker.storage.errors import (
    SnapshotNotFound,
    StorageInUse,
    StorageUnavailable,
)
from delayed_tracker.storage.objects.documents import DOCUMENT_BYTES_MAX, ObjectBlobs, ObjectDocuments
from delayed_tracker.storage.objects.keys import (
    IMMUTABLE,
    SNAPSHOT,
    KnownObject,
    ObjectKey,
    folder_of,
    known_object,
)
from delayed_tracker.storage.objects.object_store import Objects
from delayed_tracker.storage.objects.pointers import KnownObjects
from delayed_tracker.storage.objects.present_objects import PresentObjects
from delayed_tracker.storage.objects.snapshot_object import (
    TRAILER_BYTES,
    ObjectIndex,
    SnapshotObjectWriter,
    corrupt,
    read_entries,
    read_index,
    read_tail,
)
from delayed_tracker.storage.objects.snapshot_search import SnapshotSearch
from delayed_tracker.storage.protocol import StoredSnapshot, require_entry_range
from delayed_tracker.storage.shared.catalogue import SharedCatalogue
from delayed_tracker.storage.shared.names import places_of
from delayed_tracker.storage.shared.storage import SharedStorage


class ObjectStorage(SharedStorage):
    """Snapshots and catalogues in a store of objects.

    Args:
        objects: the store, not started.
        document_bytes_max: documents that are larger keep their rows in a blob.
        chance: source of ids; those of two processes must differ.
    """

    def __init__(
        self,
        objects: Objects,
        *,
        document_bytes_max: int = DOCUMENT_BYTES_MAX,
        chance: random.Random | None = None,
    ) -> None:
        self._objects = PresentObjects(objects)
        self._document_bytes_max = document_bytes_max
        self._chance = chance or random.SystemRandom()
        self._instance = self._chance.getrandbits(64)
        self._known = KnownObjects()
        self._search = SnapshotSearch(self._objects)

    async def start(self) -> None:
        """Open the store, and verify that it has this format or nothing."""
        if self._catalogue is not None:
            raise StorageInUse("this storage is started already; close it first, or open another one")
        await self._objects.start()
        documents = ObjectDocuments(self._objects, max_bytes=self._document_bytes_max)
        blobs = ObjectBlobs(self._objects, self._instance, self._new_number)
        self._catalogue = SharedCatalogue(documents, blobs, self, chance=self._chance)

    async def close(self) -> None:
        """Finish the accepted operations and close the store."""
        catalogue, self._catalogue = self._catalogue, None
        if catalogue is not None:
            await catalogue.finish()
            await self._objects.close()

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,  # noqa: ARG002  # a key of ours says more
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """Store a snapshot as one object, which appears when it is whole."""
        self._opened()
        key = ObjectKey(folder_of(topic, cursor), epoch, self._instance, self._new_number(), SNAPSHOT)
        writer = SnapshotObjectWriter(str(key))
        size_bytes = None
        try:
            size_bytes = await self._objects.put(str(key), writer.chunks(metadata, segments))
        finally:
            if size_bytes is None:
                # The store may have it although the reply is lost. What cannot be deleted is swept at a later epoch.
                with contextlib.suppress(StorageUnavailable):
                    await self._objects.delete(str(key))
        self._known.add(KnownObject(key, size_bytes, writer.tail_bytes))
        return key.number

    def _new_number(self) -> int:
        return self._chance.randrange(1, INT63_MAX)

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Return entry 0, verified."""
        return (await self._entries(bucket_id, 0, 0))[0]

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last``, both inclusive, verified, by one read of a range."""
        require_entry_range(first, last)
        return await self._entries(bucket_id, first, last)

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the payload bytes of all entries, from the trailer."""
        known = await self._find(bucket_id)
        octets = await self._range(known, max(0, known.size_bytes - TRAILER_BYTES), known.size_bytes)
        return read_tail(str(known.key), known.size_bytes, octets).payload_bytes

    async def _entries(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        known = await self._find(bucket_id)
        index = self._known.index_of(bucket_id) or await self._read_index(known)
        if last >= len(index.checksums):
            raise SnapshotNotFound(f"bucket {bucket_id} has {len(index.checksums) - 1} segments, not {last}")
        octets = await self._range(known, index.offsets[first], index.offsets[last + 1])
        return read_entries(str(known.key), index, first, last, octets)

    async def _read_index(self, known: KnownObject) -> ObjectIndex:
        key, end = str(known.key), known.size_bytes
        octets = await self._range(known, max(0, end - max(known.tail_bytes, TRAILER_BYTES)), end)
        tail = read_tail(key, end, octets)
        if len(octets) < tail.tail_bytes:
            octets = await self._range(known, end - tail.tail_bytes, end)
        index = read_index(key, tail, octets)
        self._known.keep_index(known.key.number, index)
        return index

    async def _range(self, known: KnownObject, first: int, end: int) -> bytes:
        """Return a range of an object.

        Raises:
            SnapshotNotFound: there is no such object.
            SnapshotCorrupt: it ends before.
            StorageUnavailable: the store is away, or cannot answer.
        """
        octets = await self._objects.get_range(str(known.key), first, end)
        if octets is None:
            self._known.deleted(known.key.number)
            raise SnapshotNotFound(f"there is no object {known.key}")
        if len(octets) != end - first:
            raise corrupt(str(known.key), f"it ends after {first + len(octets)} bytes instead of {known.size_bytes}")
        return octets

    async def _find(self, bucket_id: int) -> KnownObject:
        self._opened()
        known = self._known.get(bucket_id)
        if known is None and bucket_id > 0 and not self._known.is_deleted(bucket_id):
            known = await self._search.find(bucket_id)
            if known is not None:
                self._known.add(known)
        if known is None:
            raise SnapshotNotFound(f"there is no snapshot of bucket {bucket_id}")
        return known

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Delete the snapshot if it exists."""
        try:
            known = await self._find(bucket_id)
        except SnapshotNotFound:
            return
        await self._objects.delete(str(known.key))
        self._known.deleted(bucket_id)

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Return every snapshot of the tracker, ascending by bucket id."""
        self._opened()
        found = []
        for listed in await self._objects.listing(folder_of(topic, cursor)):
            key = ObjectKey.parse(listed.key)
            if key is not None and key.kind == SNAPSHOT and not self._known.is_deleted(key.number):
                self._known.add(KnownObject(key, listed.size_bytes, 0))
                found.append(StoredSnapshot(key.number, key.epoch))
        return sorted(found, key=lambda stored: stored.bucket_id)

    async def snapshot_places(self) -> SnapshotPlaces:
        """Return the trackers that have snapshots, by a listing of all objects."""
        self._opened()
        keys = (ObjectKey.parse(listed.key) for listed in await self._objects.listing(f"{IMMUTABLE}/"))
        folders = {key.folder for key in keys if key is not None and key.kind == SNAPSHOT}
        return places_of(
            (folder.removeprefix(f"{IMMUTABLE}/").rstrip("/") for folder in folders), await self.trackers()
        )

    def pointer_of(self, bucket_id: int) -> bytes:
        """Return what a catalogue keeps of a snapshot; empty if its sizes are not known here."""
        known = self._known.get(bucket_id)
        return known.pointer() if known is not None else b""

    def learn(self, topic: str, cursor: str, bucket_id: int, pointer: bytes) -> None:
        """Take what a catalogue has kept of a snapshot."""
        known = known_object(topic, cursor, bucket_id, pointer)
        if known is not None and not self._known.is_deleted(bucket_id):
            self._known.add(known)
