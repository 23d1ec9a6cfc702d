"""Keeps what this process knows of snapshot objects: keys of bucket ids, and indexes of objects read lately."""

import itertools
import struct
from collections import OrderedDict
from typing import Final

from delayed_tracker.storage.objects.keys import SNAPSHOT, KnownObject, ObjectKey
from delayed_tracker.storage.objects.snapshot_object import ObjectIndex

OBJECTS_MAX: Final = 2_000_000
"""Snapshots that are kept in any case, those that were stored, read or heard of last; at most as many of before are kept
beside them. Each takes about 100 bytes beside its id, and each tracker 500."""
INDEXED_ENTRIES_MAX: Final = 1_000_000
"""Entries of all indexes that are kept; 12 bytes each."""
DELETED_MAX: Final = 10_000

_PACKED: Final = struct.Struct("<IqQI")


class KnownObjects:
    """Keys and indexes by bucket id.

    Without its key a snapshot is found by a listing of the whole store alone, so there is room for those of all trackers
    that a process can load. Beyond that the ones go that were not used since ``OBJECTS_MAX`` others were.
    """

    def __init__(self) -> None:
        self._recent = _PackedObjects()
        self._earlier = _PackedObjects()
        self._indexes: OrderedDict[int, ObjectIndex] = OrderedDict()
        self._indexed_entries = 0
        self._deleted: OrderedDict[int, None] = OrderedDict()

    def add(self, known: KnownObject) -> None:
        """Keep what is known of an object; sizes that are known already stay."""
        present = self.get(known.key.number)
        if present is None or not present.tail_bytes:
            self._keep(known)

    def get(self, bucket_id: int) -> KnownObject | None:
        """Return what is known of an object."""
        known = self._recent.get(bucket_id)
        if known is None:
            known = self._earlier.get(bucket_id)
            if known is not None:
                self._earlier.drop(bucket_id)
                self._keep(known)
        return known

    def _keep(self, known: KnownObject) -> None:
        if len(self._recent) >= OBJECTS_MAX:
            self._earlier, self._recent = self._recent, _PackedObjects()
        self._recent.put(known)

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
        self._recent.drop(bucket_id)
        self._earlier.drop(bucket_id)
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


class _PackedObjects:
    """Keys and sizes in few bytes: what the snapshots of a tracker and a writer have in common is kept once."""

    def __init__(self) -> None:
        self._packed: dict[int, bytes] = {}
        self._places: dict[int, tuple[str, int]] = {}
        """Folders and instances by their numbers."""
        self._numbers: dict[tuple[str, int], int] = {}
        self._uses: dict[int, int] = {}
        """Objects of each number."""
        self._new_number = itertools.count()

    def __len__(self) -> int:
        return len(self._packed)

    def put(self, known: KnownObject) -> None:
        """Keep what is known of an object, instead of what was known of it before."""
        key, place = known.key, (known.key.folder, known.key.instance)
        self.drop(key.number)
        number = self._numbers.get(place)
        if number is None:
            self._numbers[place] = number = next(self._new_number)
            self._places[number] = place
        self._uses[number] = self._uses.get(number, 0) + 1
        self._packed[key.number] = _PACKED.pack(number, key.epoch, known.size_bytes, known.tail_bytes)

    def get(self, bucket_id: int) -> KnownObject | None:
        """Return what is known of an object."""
        packed = self._packed.get(bucket_id)
        if packed is None:
            return None
        number, epoch, size_bytes, tail_bytes = _PACKED.unpack(packed)
        folder, instance = self._places[number]
        return KnownObject(ObjectKey(folder, epoch, instance, bucket_id, SNAPSHOT), size_bytes, tail_bytes)

    def drop(self, bucket_id: int) -> None:
        """Forget an object, if it is kept."""
        packed = self._packed.pop(bucket_id, None)
        if packed is None:
            return
        number = _PACKED.unpack(packed)[0]
        self._uses[number] -= 1
        if not self._uses[number]:
            del self._uses[number], self._numbers[self._places.pop(number)]
