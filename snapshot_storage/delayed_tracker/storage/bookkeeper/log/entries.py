"""Entries of a log ledger: what one commit has of several trackers, each item complete or a piece of a large record.

Within a ledger a tracker has an ordinal. Its first item there defines it, with all that a reader of this ledger alone needs
to know: names, and how far its numbers and its cuts had come. Who owns it is in ZooKeeper alone.

Source: bytes of our own; numbers are little-endian. An entry is ``"DTLE"``, u8 version, u24 0, u32 CRC32C of what follows,
then items of one u8 kind each.
"""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import google_crc32c

from delayed_tracker.core.values.errors import DelayedTrackerError

VERSION: Final = 1
PIECE_OVERHEAD_BYTES: Final = 64
"""Bound of what an entry has besides the bytes of one piece."""

_HEADER: Final = struct.Struct("<4sB3sI")
_MAGIC: Final = b"DTLE"
_ZEROS: Final = bytes(3)
_DEFINED, _RECORDS, _PIECE, _CUT = 1, 2, 3, 4
_DEFINED_HEAD: Final = struct.Struct("<BI?qqII")
_RECORDS_HEAD: Final = struct.Struct("<BIqI")
_PIECE_HEAD: Final = struct.Struct("<BIqIII")
_CUT_ITEM: Final = struct.Struct("<BIq")


class EntryCorrupt(DelayedTrackerError):
    """Bytes of an entry are no log entry of ours, or a newer version's. Its records are gone; replay from the ledgers."""

    reason = "ADD_LOG_ENTRY_CORRUPT"


@dataclass(frozen=True, slots=True)
class Defined:
    """Gives a tracker its ordinal."""

    ordinal: int
    topic: str
    cursor: str
    last_number: int
    """Highest number that was appended before this item."""
    cut_through: int
    """Records up to this number are cut."""
    is_fresh: bool = False
    """True if what the log had of the tracker before is void: it has come back from another instance."""

    def encode(self) -> bytes:
        """Return the item's bytes."""
        topic, cursor = self.topic.encode(), self.cursor.encode()
        head = _DEFINED_HEAD.pack(
            _DEFINED, self.ordinal, self.is_fresh, self.last_number, self.cut_through, len(topic), len(cursor)
        )
        return b"".join((head, topic, cursor))


@dataclass(frozen=True, slots=True)
class Records:
    """Consecutive records of a tracker."""

    ordinal: int
    first_number: int
    records: Sequence[bytes]
    """At least one."""

    def encode(self) -> bytes:
        """Return the item's bytes."""
        count = len(self.records)
        head = _RECORDS_HEAD.pack(_RECORDS, self.ordinal, self.first_number, count)
        return b"".join((head, struct.pack(f"<{count}I", *map(len, self.records)), *self.records))

    @property
    def last_number(self) -> int:
        """Number of the last record."""
        return self.first_number + len(self.records) - 1


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a record that is larger than an entry. The pieces of one record follow each other."""

    ordinal: int
    number: int
    offset: int
    record_bytes: int
    content: bytes

    def encode(self) -> bytes:
        """Return the item's bytes."""
        head = _PIECE_HEAD.pack(_PIECE, self.ordinal, self.number, self.offset, self.record_bytes, len(self.content))
        return head + self.content

    @property
    def is_last(self) -> bool:
        """True if the record is whole with this piece."""
        return self.offset + len(self.content) == self.record_bytes


@dataclass(frozen=True, slots=True)
class Cut:
    """Cuts a tracker's records up to a number."""

    ordinal: int
    through: int

    def encode(self) -> bytes:
        """Return the item's bytes."""
        return _CUT_ITEM.pack(_CUT, self.ordinal, self.through)


Item: TypeAlias = Defined | Records | Piece | Cut


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of a ledger."""

    octets: bytes
    items: tuple[Item, ...]


def entries_of(items: Sequence[Item], bytes_max: int) -> list[LogEntry]:
    """Return the entries of one commit, in order, each of ``bytes_max`` bytes at most.

    Records that do not fit are cut in pieces; items keep their order.
    """
    entries: list[LogEntry] = []
    waiting: list[tuple[Item, bytes]] = []
    size = _HEADER.size
    for item in items:
        for fitting in _fitting(item, bytes_max):
            octets = fitting.encode()
            if size + len(octets) > bytes_max and waiting:
                entries.append(_entry(waiting))
                waiting, size = [], _HEADER.size
            waiting.append((fitting, octets))
            size += len(octets)
    if waiting:
        entries.append(_entry(waiting))
    return entries


def _entry(contents: Sequence[tuple[Item, bytes]]) -> LogEntry:
    body = b"".join(octets for _, octets in contents)
    head = _HEADER.pack(_MAGIC, VERSION, _ZEROS, google_crc32c.value(body))
    return LogEntry(head + body, tuple(item for item, _ in contents))


def _fitting(item: Item, bytes_max: int) -> Iterator[Item]:
    """Yield what an item becomes so that each part fits into one entry."""
    if not isinstance(item, Records):
        yield item
        return
    room = bytes_max - PIECE_OVERHEAD_BYTES
    start, size = 0, 0
    for index, record in enumerate(item.records):
        if size + len(record) + 4 > room:
            if index > start:
                yield Records(item.ordinal, item.first_number + start, item.records[start:index])
            start, size = index, 0
        if len(record) + 4 > room:
            for offset in range(0, len(record), room):
                content = record[offset : offset + room]
                yield Piece(item.ordinal, item.first_number + index, offset, len(record), content)
            start = index + 1
        else:
            size += len(record) + 4
    if start < len(item.records):
        yield Records(item.ordinal, item.first_number + start, item.records[start:])


def items_of(entry: bytes) -> list[Item]:
    """Return the items of an entry, verified.

    Raises:
        EntryCorrupt: it is none.
    """
    if len(entry) < _HEADER.size:
        raise EntryCorrupt(f"a log entry has {len(entry)} bytes instead of {_HEADER.size} or more")
    magic, version, zeros, crc32c = _HEADER.unpack_from(entry)
    if magic != _MAGIC:
        raise EntryCorrupt(f"a log entry begins with {magic!r} instead of {_MAGIC!r}")
    if version != VERSION:
        raise EntryCorrupt(f"a log entry has version {version}; this program reads {VERSION}: use a newer one")
    if zeros != _ZEROS or google_crc32c.value(entry[_HEADER.size :]) != crc32c:
        raise EntryCorrupt("a log entry fails its checksum")
    try:
        return list(_items(entry))
    except (struct.error, UnicodeDecodeError, KeyError) as error:
        raise EntryCorrupt(f"a log entry has a sound checksum and a damaged item: {error}") from error


def _items(entry: bytes) -> Iterator[Item]:
    at = _HEADER.size
    while at < len(entry):
        item, at = _PARSERS[entry[at]](entry, at)
        yield item


def _defined(entry: bytes, at: int) -> tuple[Item, int]:
    _, ordinal, is_fresh, last_number, cut_through, topic_bytes, cursor_bytes = _DEFINED_HEAD.unpack_from(entry, at)
    at += _DEFINED_HEAD.size
    topic = _octets(entry, at, topic_bytes).decode()
    cursor = _octets(entry, at + topic_bytes, cursor_bytes).decode()
    return Defined(ordinal, topic, cursor, last_number, cut_through, is_fresh), at + topic_bytes + cursor_bytes


def _records(entry: bytes, at: int) -> tuple[Item, int]:
    _, ordinal, first_number, count = _RECORDS_HEAD.unpack_from(entry, at)
    at += _RECORDS_HEAD.size
    lengths = struct.unpack_from(f"<{count}I", entry, at)
    at += 4 * count
    records = []
    for length in lengths:
        records.append(_octets(entry, at, length))
        at += length
    return Records(ordinal, first_number, tuple(records)), at


def _piece(entry: bytes, at: int) -> tuple[Item, int]:
    _, ordinal, number, offset, record_bytes, length = _PIECE_HEAD.unpack_from(entry, at)
    at += _PIECE_HEAD.size
    return Piece(ordinal, number, offset, record_bytes, _octets(entry, at, length)), at + length


def _cut(entry: bytes, at: int) -> tuple[Item, int]:
    _, ordinal, through = _CUT_ITEM.unpack_from(entry, at)
    return Cut(ordinal, through), at + _CUT_ITEM.size


def _octets(entry: bytes, at: int, length: int) -> bytes:
    if at + length > len(entry):
        raise struct.error(f"{length} bytes at {at} of {len(entry)}")
    return entry[at : at + length]


_PARSERS: Final = {_DEFINED: _defined, _RECORDS: _records, _PIECE: _piece, _CUT: _cut}
