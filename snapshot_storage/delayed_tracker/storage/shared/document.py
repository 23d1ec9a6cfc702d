"""Bytes of a catalogue document: the head, and a body with one row for each bucket.

Layout, little-endian; each text has a u32 length before its UTF-8 bytes, each position is two i64::

    head   "DTCD" | u8 version = 1 | u8 flags | u16 0 | u32 bytes of the head | u32 bytes of the body
           write id, 16 bytes | u8 count, that many earlier write ids, the newest first | i64 epoch
           [mark-delete position] | i64 log number | [offered through] | [stored through]
           texts: writer, topic, cursor, log
           u8 bytes of the body's pointer, pointer | u16 count of parts, each u32 number, u32 bytes, u8, pointer
           u32 count of rows | u32 crc32c of the head
    body   bucket ids, i64 each | u32 crc32c | lengths of the rows, u16 each | u32 crc32c | rows
    row    u8 flags | varints: first and last position, [seal number], [mark-delete position]; u8, pointer
           summary | consumed | u32 crc32c
    value  varint length, bytes; or, in a part, varints number, offset, length, and u32 crc32c

Flags of the head: 1 forgotten, 2 mark-delete, 4 offered through, 8 stored through. Flags of a row: 1 mark-delete, 2 seal
number, 4 the summary is in a part, 8 consumed positions are. Ledger ids of a row are distances to its first one,
zigzag-coded. The body follows the head, or is a blob if it has a pointer. The checksums of ids and lengths begin with tracker and write id,
those of rows with tracker and bucket id. So a damaged row hides no other one, and no row is taken for another's.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import google_crc32c

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.protocol import LogMark

DOCUMENT_VERSION: Final = 1
EARLIER_MAX: Final = 8
"""Write ids that a document keeps beside its own: so many commits later a writer still finds that its own counted."""

_MAGIC: Final = b"DTCD"
_PREFIX: Final = struct.Struct("<4sBBHII")
_POSITION: Final = struct.Struct("<qq")
_PART: Final = struct.Struct("<IIB")
_U32: Final = struct.Struct("<I")
_FORGOTTEN, _HAS_MARK_DELETE, _HAS_OFFERED, _HAS_STORED = 1, 2, 4, 8
_ROW_MARK_DELETE, _ROW_SEAL_NUMBER, _ROW_SUMMARY, _ROW_CONSUMED = 1, 2, 4, 8


@dataclass(frozen=True, slots=True)
class Reference:
    """Place of a value in a part."""

    part: int
    offset: int
    length: int
    crc32c: int


Value = bytes | Reference
"""Bytes in the row itself, or in a part."""


@dataclass(frozen=True, slots=True)
class Row:
    """One bucket, without the bytes that are in parts."""

    bucket_id: int
    first: Position
    last: Position
    seal_number: int | None
    mark_delete: Position | None
    pointer: bytes
    summary: Value
    consumed: Value


@dataclass(frozen=True, slots=True)
class StoredRow:
    """A row as it is stored; ``row`` is None if it is damaged."""

    octets: bytes
    row: Row | None


@dataclass(frozen=True, slots=True)
class Part:
    """A blob with values of rows."""

    number: int
    """From 1, unique in its document."""
    length: int
    pointer: bytes


@dataclass(frozen=True, slots=True)
class Document:
    """Catalogue of one tracker, at epoch 0 if it was never written."""

    topic: str
    cursor: str
    write_id: bytes = bytes(16)
    earlier: tuple[bytes, ...] = ()
    """Write ids of the versions before, the newest first."""
    epoch: int = 0
    writer: str = ""
    forgotten: bool = False
    mark_delete: Position | None = None
    log_mark: LogMark = field(default_factory=LogMark)
    parts: tuple[Part, ...] = ()
    rows: Mapping[int, StoredRow] = field(default_factory=dict)

    @property
    def tracker_crc(self) -> int:
        """Checksum of the tracker's name, with which the checksums of its rows begin."""
        topic = self.topic.encode()
        return int(google_crc32c.value(_U32.pack(len(topic)) + topic + self.cursor.encode()))


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a document, verified."""

    document: Document
    """Without its rows."""
    row_count: int
    body_bytes: int
    body_pointer: bytes
    """Pointer of the blob that has the body; empty if the body follows the head."""
    head_bytes: int


def encode_row(document: Document, row: Row) -> StoredRow:
    """Return the bytes of a row, about 70 if nothing large is in it."""
    ledger = row.first.ledger_id
    flags = (
        _ROW_MARK_DELETE * (row.mark_delete is not None)
        | _ROW_SEAL_NUMBER * (row.seal_number is not None)
        | _ROW_SUMMARY * isinstance(row.summary, Reference)
        | _ROW_CONSUMED * isinstance(row.consumed, Reference)
    )
    octets = bytearray([flags])
    for value in (ledger, row.first.entry_id, row.last.ledger_id - ledger, row.last.entry_id):
        _put_varint(octets, _zigzag(value))
    if row.seal_number is not None:
        _put_varint(octets, row.seal_number)
    if row.mark_delete is not None:
        _put_varint(octets, _zigzag(row.mark_delete.ledger_id - ledger))
        _put_varint(octets, _zigzag(row.mark_delete.entry_id))
    octets.append(len(row.pointer))
    octets += row.pointer
    for stored in (row.summary, row.consumed):
        if isinstance(stored, Reference):
            for value in (stored.part, stored.offset, stored.length):
                _put_varint(octets, value)
            octets += _U32.pack(stored.crc32c)
        else:
            _put_varint(octets, len(stored))
            octets += stored
    octets += _U32.pack(_row_crc(document.tracker_crc, row.bucket_id, bytes(octets)))
    return StoredRow(bytes(octets), row)


def encode_body(document: Document) -> bytes:
    """Return the body of a document: its rows as they are stored, damaged ones too."""
    seed = _body_crc(document)
    ids = struct.pack(f"<{len(document.rows)}q", *document.rows)
    lengths = struct.pack(f"<{len(document.rows)}H", *(len(row.octets) for row in document.rows.values()))
    return b"".join(
        (
            ids,
            _U32.pack(google_crc32c.extend(seed, ids)),
            lengths,
            _U32.pack(google_crc32c.extend(seed, lengths)),
            *(row.octets for row in document.rows.values()),
        )
    )


def encode_head(document: Document, body_bytes: int, body_pointer: bytes = b"") -> bytes:
    """Return the head of a document, which its body follows unless a blob has it."""
    mark = document.log_mark
    flags = (
        _FORGOTTEN * document.forgotten
        | _HAS_MARK_DELETE * (document.mark_delete is not None)
        | _HAS_OFFERED * (mark.offered_through is not None)
        | _HAS_STORED * (mark.stored_through is not None)
    )
    fields = [
        document.write_id,
        bytes([len(document.earlier)]),
        *document.earlier,
        struct.pack("<q", document.epoch),
        b"" if document.mark_delete is None else _POSITION.pack(*document.mark_delete),
        struct.pack("<q", mark.number),
        b"" if mark.offered_through is None else _POSITION.pack(*mark.offered_through),
        b"" if mark.stored_through is None else _POSITION.pack(*mark.stored_through),
    ]
    for text in (document.writer, document.topic, document.cursor, mark.log):
        octets = text.encode()
        fields += (_U32.pack(len(octets)), octets)
    fields += (bytes([len(body_pointer)]), body_pointer, struct.pack("<H", len(document.parts)))
    for part in document.parts:
        fields += (_PART.pack(part.number, part.length, len(part.pointer)), part.pointer)
    fields.append(_U32.pack(len(document.rows)))
    content = b"".join(fields)
    head_bytes = _PREFIX.size + len(content) + _U32.size
    head = _PREFIX.pack(_MAGIC, DOCUMENT_VERSION, flags, 0, head_bytes, body_bytes) + content
    return head + _U32.pack(google_crc32c.value(head))


def decode_head(stored: bytes, name: str) -> Head:
    """Return the head of a document.

    Args:
        stored: the document.
        name: of the document, for messages.
    Raises:
        StorageFormatUnsupported: a newer version wrote it.
        SnapshotCorrupt: it is damaged, or no document.
    """
    if len(stored) < _PREFIX.size or stored[:4] != _MAGIC:
        raise _corrupt(name, 0, "it does not begin like a catalogue document")
    _, version, flags, zero, head_bytes, body_bytes = _PREFIX.unpack_from(stored)
    if version > DOCUMENT_VERSION:
        raise StorageFormatUnsupported(
            f"the document {name} has format {version}, this program reads up to {DOCUMENT_VERSION}; use a newer program"
        )
    if head_bytes < _PREFIX.size + _U32.size or head_bytes > len(stored):
        raise _corrupt(name, 8, f"its head of {head_bytes} bytes is cut short")
    content_end = head_bytes - _U32.size
    if _U32.unpack_from(stored, content_end)[0] != google_crc32c.value(stored[:content_end]):
        raise _corrupt(name, content_end, "its head fails its checksum")
    if version != DOCUMENT_VERSION or zero:
        raise _corrupt(name, 4, f"there is no format {version}")
    reader = _Reader(stored, _PREFIX.size)
    try:
        write_id = reader.octets(16)
        earlier = tuple(reader.octets(16) for _ in range(reader.u8()))
        (epoch,) = struct.unpack("<q", reader.octets(8))
        mark_delete = reader.position() if flags & _HAS_MARK_DELETE else None
        (number,) = struct.unpack("<q", reader.octets(8))
        offered = reader.position() if flags & _HAS_OFFERED else None
        stored_through = reader.position() if flags & _HAS_STORED else None
        writer, topic, cursor, log = (reader.octets(reader.u32()).decode() for _ in range(4))
        body_pointer = reader.octets(reader.u8())
        parts = []
        for _ in range(struct.unpack("<H", reader.octets(2))[0]):
            part, length, pointer_bytes = _PART.unpack(reader.octets(_PART.size))
            parts.append(Part(part, length, reader.octets(pointer_bytes)))
        row_count = reader.u32()
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise _corrupt(name, reader.offset, f"its head does not decode ({error})") from error
    document = Document(
        topic,
        cursor,
        write_id,
        earlier,
        epoch,
        writer,
        bool(flags & _FORGOTTEN),
        mark_delete,
        LogMark(number, offered, log, stored_through),
        tuple(parts),
    )
    if not body_pointer and len(stored) != head_bytes + body_bytes:
        raise _corrupt(name, len(stored), f"it has {len(stored)} bytes instead of {head_bytes + body_bytes}")
    return Head(document, row_count, body_bytes, body_pointer, head_bytes)


def decode_rows(head: Head, body: bytes, name: str) -> dict[int, StoredRow]:
    """Return the rows of a body by bucket id, damaged ones too.

    Raises:
        SnapshotCorrupt: the ids or the lengths are damaged, or it is the body of another document.
    """
    document, count = head.document, head.row_count
    seed = _body_crc(document)
    lengths_at = 8 * count + _U32.size
    rows_at = lengths_at + 2 * count + _U32.size
    if len(body) != head.body_bytes or rows_at > len(body):
        raise _corrupt(name, head.head_bytes, f"its body has {len(body)} bytes instead of {head.body_bytes}")
    for start, end, field_name in ((0, 8 * count, "ids"), (lengths_at, lengths_at + 2 * count, "lengths")):
        if _U32.unpack_from(body, end)[0] != google_crc32c.extend(seed, body[start:end]):
            raise _corrupt(name, head.head_bytes + start, f"the {field_name} of its rows fail their checksum")
    ids: Sequence[int] = struct.unpack_from(f"<{count}q", body)
    lengths: Sequence[int] = struct.unpack_from(f"<{count}H", body, lengths_at)
    if rows_at + sum(lengths) != len(body):
        raise _corrupt(name, head.head_bytes + lengths_at, "its rows do not fill it")
    tracker_crc, rows, offset = document.tracker_crc, {}, rows_at
    for bucket_id, length in zip(ids, lengths, strict=True):
        octets = body[offset : offset + length]
        rows[bucket_id] = StoredRow(octets, _decode_row(tracker_crc, bucket_id, octets))
        offset += length
    return rows


def _decode_row(tracker_crc: int, bucket_id: int, octets: bytes) -> Row | None:
    """Return a row, None if it is damaged."""
    content = octets[: -_U32.size]
    if len(octets) <= _U32.size or octets[-_U32.size :] != _U32.pack(_row_crc(tracker_crc, bucket_id, content)):
        return None
    reader = _Reader(content, 1)
    flags = content[0]
    try:
        ledger, entry = reader.signed(), reader.signed()
        last = Position(ledger + reader.signed(), reader.signed())
        seal_number = reader.varint() if flags & _ROW_SEAL_NUMBER else None
        mark_delete = Position(ledger + reader.signed(), reader.signed()) if flags & _ROW_MARK_DELETE else None
        pointer = reader.octets(reader.u8())
        summary, consumed = reader.value(flags & _ROW_SUMMARY), reader.value(flags & _ROW_CONSUMED)
    except (struct.error, IndexError):
        return None
    return Row(bucket_id, Position(ledger, entry), last, seal_number, mark_delete, pointer, summary, consumed)


class _Reader:
    """Reads fields one after the other; raises IndexError at the end of the bytes."""

    __slots__ = ("_stored", "offset")

    def __init__(self, stored: bytes, offset: int) -> None:
        self._stored = stored
        self.offset = offset

    def octets(self, count: int) -> bytes:
        end = self.offset + count
        if end > len(self._stored):
            raise IndexError("cut short")
        found, self.offset = self._stored[self.offset : end], end
        return found

    def u8(self) -> int:
        octet = self._stored[self.offset]
        self.offset += 1
        return octet

    def u32(self) -> int:
        return int(_U32.unpack(self.octets(4))[0])

    def position(self) -> Position:
        return Position(*_POSITION.unpack(self.octets(16)))

    def varint(self) -> int:
        stored, offset, value, shift = self._stored, self.offset, 0, 0
        while (octet := stored[offset]) >= 0x80:
            value |= (octet & 0x7F) << shift
            shift += 7
            offset += 1
        self.offset = offset + 1
        return value | octet << shift

    def signed(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, in_part: int) -> Value:
        if in_part:
            return Reference(self.varint(), self.varint(), self.varint(), self.u32())
        return self.octets(self.varint())


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1


def _put_varint(octets: bytearray, value: int) -> None:
    while value >= 0x80:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)


def _row_crc(tracker_crc: int, bucket_id: int, content: bytes) -> int:
    return int(google_crc32c.extend(tracker_crc, struct.pack("<q", bucket_id) + content))


def _body_crc(document: Document) -> int:
    return int(google_crc32c.extend(document.tracker_crc, document.write_id))


def _corrupt(name: str, offset: int, fault: str) -> SnapshotCorrupt:
    return SnapshotCorrupt(
        f"the catalogue document {name} is damaged at byte {offset}: {fault}; restore it from a copy, or delete it and "
        "rebuild the tracker from the ledgers"
    )
