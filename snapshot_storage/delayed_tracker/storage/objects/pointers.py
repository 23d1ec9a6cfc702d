"""Keeps what this process knows of snapshot objects: keys of bucket ids, and indexes of objects read lately."""

from collections import OrderedDict
from typing import Final

from delayed_tracker.storage.objects.keys import KnownObject
from delayed_tracker.storage.objects.snapshot_object import ObjectIndex

OBJECTS_MAX: Final = 200_000
"""Objects whose keys are kept; about 300 bytes each."""
INDEXED_ENTRIES_MAX: Final = 1_000_000
"""Entries of all indexes that are kept; 12 bytes each."""
DELETED_MAX: Final = 10_000


class KnownObjects:
    """Keys and indexes by bucket id. The least recently used go first when there are too many."""

    def __init__(self) -> None:
        self._objects: OrderedDict[int, KnownObject] = OrderedDict()
        self._indexes: OrderedDict[int, ObjectIndex] = OrderedDict()
        self._indexed_entries = 0
        self._deleted: OrderedDict[int, None] = OrderedDict()

    def add(self, known: KnownObject) -> None:
        """Keep what is known of an object; sizes that are known already stay."""
        bucket_id = known.key.number
        present = self._objects.get(bucket_id)
        if present is None or not present.tail_bytes:
            self._objects[bucket_id] = known
        self._objects.move_to_end(bucket_id)
        while len(self._objects) > OBJECTS_MAX:
            self._drop_index(self._objects.popitem(last=False)[0])

    def get(self, bucket_id: int) -> KnownObject | None:
        """Return what is known of an object."""
        if bucket_id in self._objects:
            self._objects.move_to_end(bucket_id)
        return self._objects.get(bucket_id)

    def index_of(self, bucket_id: int) -> ObjectIndex | None:
        """Return the index of an object if it was read lately."""
        if bucket_id in self._indexes:
            self._indexes.move_to_end(bucket_id)
        return self._indexes.get(bucket_id)

    def keep_index(self, bucket_id: int, index: ObjectIndex) -> None:
        """Keep an index for the next reads."""
        self._drop_index(bucket_id)
        self._indexes[bucket_id] = index
        self._indexed_entries += len(index.checksums)
        while self._indexed_entries > INDEXED_ENTRIES_MAX:
            self._drop_index(next(iter(self._indexes)))

    def deleted(self, bucket_id: int) -> None:
        """Note that an object is gone: nobody need look for it."""
        self._objects.pop(bucket_id, None)
        self._drop_index(bucket_id)
        self._deleted[bucket_id] = None
        if len(self._deleted) > DELETED_MAX:
            self._deleted.popitem(last=False)

    def is_deleted(self, bucket_id: int) -> bool:
        """Return True if this process has deleted the object, or has found it gone, lately."""
        return bucket_id in self._deleted

    def _drop_index(self, bucket_id: int) -> None:
        index = self._indexes.pop(bucket_id, None)
        if index is not None:
            self._indexed_entries -= len(index.checksums)
