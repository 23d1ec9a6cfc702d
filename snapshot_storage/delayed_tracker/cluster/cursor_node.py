"""The node of a cursor, whose bucket properties are replaced while all other fields stay byte for byte.

The value is a ManagedCursorInfo, compressed or not. Field 8 has the cursor properties, a StringProperty each. Those whose
name begins with ``#pulsar.internal.delayed.bucket`` name the bucket ledgers of the subscription:
``#pulsar.internal.delayed.bucket_<first ledger>_<last ledger>`` -> ledger id of the snapshot, in decimal.

Source: Pulsar's MetaStoreImpl (compression), BucketDelayedDeliveryTracker and ImmutableBucket (properties).
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from google.protobuf.message import DecodeError

from delayed_tracker.cluster.errors import ClusterNodeInvalid
from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.ledger.compression import METADATA_BYTES_MAX, compress, decompress
from delayed_tracker.ledger.errors import CompressedDataInvalid
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedCursorInfo, ManagedCursorInfoMetadata, StringProperty
from delayed_tracker.wire.column_fields import varint

BUCKET_PREFIX: Final = "#pulsar.internal.delayed.bucket"
_MAGIC: Final = b"\x47\x78"
_HEADER_SIZE: Final = struct.Struct(">i")
_PROPERTIES: Final = 8
_BYTES: Final = 2
"""Wire type of length-delimited fields."""
_VARINT_BYTES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class BucketProperty:
    """One bucket of a subscription, by its property."""

    name: str
    value: str

    @classmethod
    def of(cls, first_ledger: int, last_ledger: int, bucket_id: int) -> Self:
        """Return the property of a bucket with messages of these ledgers, both included, and this snapshot ledger."""
        return cls(f"{BUCKET_PREFIX}_{first_ledger}_{last_ledger}", str(bucket_id))

    @property
    def ledgers(self) -> tuple[int, int] | None:
        """First and last ledger of the messages; None if the name is malformed, which no broker accepts."""
        parts = self.name.removeprefix(BUCKET_PREFIX).split("_")
        if len(parts) != 3 or parts[0]:
            return None
        first, last = _number(parts[1]), _number(parts[2])
        return None if first is None or last is None or last < first else (first, last)

    @property
    def bucket_id(self) -> int | None:
        """Id of the ledger that has the snapshot; None if the value is malformed."""
        return _number(self.value)


@dataclass(frozen=True, slots=True)
class CursorNode:
    """A decoded node."""

    plain: bytes
    """The ManagedCursorInfo."""
    header: bytes | None
    """The ManagedCursorInfoMetadata in front of a compressed value; None if the value is not compressed."""
    buckets: tuple[BucketProperty, ...]
    """Bucket properties in stored order."""

    @classmethod
    def decode(cls, stored: bytes, name: str = "cursor") -> Self:
        """Decode the value of a cursor's node.

        Args:
            stored: value of the node; at most 16 MiB when decompressed.
            name: of the cursor, for messages.
        Raises:
            ClusterNodeInvalid: it is damaged.
        """
        header, plain = _uncompressed(stored, name)
        info = ManagedCursorInfo()
        try:
            info.ParseFromString(plain)
        except DecodeError as error:
            raise _invalid(name, f"{len(plain)} bytes do not parse") from error
        if not info.IsInitialized():
            raise _invalid(name, "required fields are missing")
        # Protobuf gives text that is no UTF-8 as bytes.
        if not all(isinstance(text, str) for one in info.cursor_properties for text in (one.name, one.value)):
            raise _invalid(name, "a property is not text in UTF-8")
        properties = (BucketProperty(one.name, one.value) for one in info.cursor_properties)
        return cls(plain, header, tuple(one for one in properties if one.name.startswith(BUCKET_PREFIX)))

    @property
    def info(self) -> ManagedCursorInfo:
        """All fields, parsed anew."""
        info = ManagedCursorInfo()
        info.ParseFromString(self.plain)
        return info

    def with_buckets(self, buckets: Sequence[BucketProperty]) -> Self:
        """Return the node with these bucket properties in the place of its own; every other byte is as it was.

        Properties that stay are not moved; new ones are behind all other fields.
        """
        wanted = {bucket.name: bucket for bucket in buckets}
        assert len(wanted) == len(buckets), "two buckets with one name"
        kept: list[bytes] = []
        for number, field, content in _fields(self.plain):
            if number == _PROPERTIES and content is not None:
                found = StringProperty()
                found.ParseFromString(content)
                if found.name.startswith(BUCKET_PREFIX):
                    if wanted.get(found.name) != BucketProperty(found.name, found.value):
                        continue
                    del wanted[found.name]
            kept.append(field)
        for bucket in wanted.values():
            encoded = StringProperty(name=bucket.name, value=bucket.value).SerializeToString()
            kept.append(bytes([_PROPERTIES << 3 | _BYTES]) + varint(len(encoded)) + encoded)
        return replace(self, plain=b"".join(kept), buckets=tuple(buckets))

    def encode(self) -> bytes:
        """Return the value of the node, compressed as the decoded one was."""
        if self.header is None:
            return self.plain
        header = ManagedCursorInfoMetadata()
        header.ParseFromString(self.header)
        header.uncompressed_size = len(self.plain)
        encoded = header.SerializeToString()
        return _MAGIC + _HEADER_SIZE.pack(len(encoded)) + encoded + compress(header.compression_type, self.plain)


def _uncompressed(stored: bytes, name: str) -> tuple[bytes | None, bytes]:
    """Return header and content of a compressed value, or None and the value."""
    if not stored.startswith(_MAGIC):
        return None, stored
    start = len(_MAGIC) + _HEADER_SIZE.size
    size = int(_HEADER_SIZE.unpack_from(stored, len(_MAGIC))[0]) if len(stored) >= start else -1
    if not 0 <= size <= len(stored) - start:
        raise _invalid(name, f"a compressed value of {len(stored)} bytes is cut short")
    header = ManagedCursorInfoMetadata()
    try:
        header.ParseFromString(stored[start : start + size])
        if not header.IsInitialized():
            raise _invalid(name, "the header of a compressed value lacks required fields")
        plain = decompress(
            header.compression_type, stored[start + size :], header.uncompressed_size, size_max=METADATA_BYTES_MAX
        )
    except DecodeError as error:
        raise _invalid(name, "the header of a compressed value does not parse") from error
    except CompressedDataInvalid as error:
        raise _invalid(name, error.message) from error
    return stored[start : start + size], plain


def _fields(message: bytes) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield number, bytes and, of a length-delimited one, content of each field of a message that has been parsed."""
    place = 0
    while place < len(message):
        start = place
        key, place = _read_varint(message, place)
        content = None
        match key & 7:
            case 0:
                _, place = _read_varint(message, place)
            case 1:
                place += 8
            case 5:
                place += 4
            case 2:
                size, place = _read_varint(message, place)
                content = message[place : place + size]
                place += size
            case kind:
                # No message of Pulsar has groups.
                raise ClusterNodeInvalid(f"a cursor's node has a field of wire type {kind}, which no broker writes")
        yield key >> 3, message[start:place], content


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = 0
    for count in range(_VARINT_BYTES_MAX):
        byte = message[place + count]
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value, place + count + 1
    raise ClusterNodeInvalid("a cursor's node has a number of more than ten bytes")


def _number(text: str) -> int | None:
    if not text.isascii() or not text.isdigit() or len(text) > 19:
        return None
    number = int(text)
    return number if number <= INT63_MAX else None


def _invalid(name: str, problem: str) -> ClusterNodeInvalid:
    return ClusterNodeInvalid(f"the node of {name} does not decode: {problem}; restore it from a copy")
