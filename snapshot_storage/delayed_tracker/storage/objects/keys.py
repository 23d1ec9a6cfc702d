"""Keys of the objects of a tracker, which carry epoch and writer, and the pointers that catalogues keep of them.

A key is ``t/HH/NAME/EPOCH.INSTANCE.ID.KIND``, with numbers of 16 hexadecimal digits; the kind is ``s`` for a snapshot,
``b`` for a blob of a catalogue. A pointer has what a key has beyond tracker and id, and the sizes of the object.
"""

import re
import struct
from dataclasses import dataclass
from typing import Final, Self

from delayed_tracker.storage.shared.names import tracker_path

IMMUTABLE: Final = "t"
SNAPSHOT, BLOB = "s", "b"

_POINTER: Final = struct.Struct("<QqQI")
_LAST: Final = re.compile(r"([0-7][0-9a-f]{15})\.([0-9a-f]{16})\.([0-7][0-9a-f]{15})\.([sb])")


def folder_of(topic: str, cursor: str) -> str:
    """Return what all keys of a tracker begin with. Raises InvalidInput for a text that UTF-8 does not know."""
    return f"{IMMUTABLE}/{tracker_path(topic, cursor)}/"


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """One immutable object. Its numbers are from 0 to 2^63 - 1, the instance to 2^64 - 1."""

    folder: str
    epoch: int
    instance: int
    number: int
    kind: str

    @classmethod
    def parse(cls, key: str) -> Self | None:
        """Return the parts of a key; None if it is none of ours."""
        folder, slash, last = key.rpartition("/")
        found = _LAST.fullmatch(last)
        if found is None or not key.startswith(f"{IMMUTABLE}/"):
            return None
        return cls(folder + slash, int(found[1], 16), int(found[2], 16), int(found[3], 16), found[4])

    def __str__(self) -> str:
        return f"{self.folder}{self.epoch:016x}.{self.instance:016x}.{self.number:016x}.{self.kind}"


@dataclass(frozen=True, slots=True)
class KnownObject:
    """A snapshot object of which this process knows more than its id."""

    key: ObjectKey
    size_bytes: int
    tail_bytes: int
    """Bytes of index and trailer; 0 if they are not known yet."""

    def pointer(self) -> bytes:
        """Return the bytes that a catalogue keeps."""
        return _POINTER.pack(self.key.instance, self.key.epoch, self.size_bytes, self.tail_bytes)


def known_object(topic: str, cursor: str, bucket_id: int, pointer: bytes) -> KnownObject | None:
    """Return the object of a pointer; None if it is a pointer of another kind of storage."""
    if len(pointer) != _POINTER.size or bucket_id < 0:
        return None
    instance, epoch, size_bytes, tail_bytes = _POINTER.unpack(pointer)
    return KnownObject(
        ObjectKey(folder_of(topic, cursor), epoch, instance, bucket_id, SNAPSHOT), size_bytes, tail_bytes
    )
