"""The header of Hadoop SequenceFiles, version 6, and the search for the next sync mark after damage.

    "SEQ" 06, key class, value class, compressed u8, block-compressed u8, codec if compressed, metadata, sync mark

Texts have their length in front, as a variable-length number. The 16 bytes of the sync mark are repeated from time to
time: they follow a -1 in the place of a record's length.
"""

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.offload.local_file import LocalFile, Piece

SYNC_BYTES: Final = 16
ESCAPE: Final = b"\xff\xff\xff\xff"
LONG_WRITABLE: Final = "org.apache.hadoop.io.LongWritable"
BYTES_WRITABLE: Final = "org.apache.hadoop.io.BytesWritable"

_MAGIC: Final = b"SEQ"
_VERSION: Final = 6
_ZLIB_CODECS: Final = ("org.apache.hadoop.io.compress.DefaultCodec", "org.apache.hadoop.io.compress.DeflateCodec")
_HEADER_BYTES_MAX: Final = 1 << 16
_I32: Final = struct.Struct(">i")
_SEARCH_BYTES: Final = 1 << 12
_SEARCH_BYTES_MAX: Final = 1 << 20


class Compression(Enum):
    """Parts of a SequenceFile that are compressed."""

    NONE = "none"
    RECORD = "record"
    """Each value by itself."""
    BLOCK = "block"
    """Keys, values and their lengths of many records together."""


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """Fields of the header."""

    compression: Compression
    sync: bytes
    end: int
    """Offset at which the records begin."""


def read_header(file: LocalFile, *, value_class: str) -> SequenceHeader:
    """Read the header of a file whose keys are LongWritable.

    Args:
        file: the file.
        value_class: the required class of the values.
    Raises:
        LedgerFileInvalid: the file is not a SequenceFile, or has another version, other classes, or a codec other than
            zlib.
    """
    piece = file.read(0, _HEADER_BYTES_MAX)
    if piece.buffer[:3] != _MAGIC:
        raise LedgerFileInvalid(f"{file.name} is no SequenceFile: it starts with {piece.buffer[:4]!r}, not with b'SEQ'")
    header = _HeaderFields(file.name, piece)
    version = header.octet("version")
    if version != _VERSION:
        raise LedgerFileInvalid(f"{file.name} is a SequenceFile of version {version}; this program reads version 6")
    for what, wanted in (("key class", LONG_WRITABLE), ("value class", value_class)):
        found = header.text(what)
        if found != wanted:
            raise LedgerFileInvalid(f"{file.name} has the {what} {found!r}; ledgers have {wanted}")
    match header.octet("compressed flag"), header.octet("block flag"):
        case 0, 0:
            compression = Compression.NONE
        case 1, 0:
            compression = Compression.RECORD
        case 1, 1:
            compression = Compression.BLOCK
        case flags:
            raise LedgerFileInvalid(f"{file.name} has the compression flags {flags}; known are 0 0, 1 0 and 1 1")
    if compression is not Compression.NONE:
        codec = header.text("codec")
        if codec not in _ZLIB_CODECS:
            raise LedgerFileInvalid(f"{file.name} is compressed by {codec!r}; this program reads {_ZLIB_CODECS[0]}")
    for _ in range(header.count("metadata")):
        header.text("metadata")
        header.text("metadata")
    sync = header.take(SYNC_BYTES, "sync mark")
    damaged_at = piece.damage_between(0, header.at)
    if damaged_at is not None:
        raise LedgerFileInvalid(f"{file.name}: the header is damaged: a checksum does not fit at byte {damaged_at}")
    return SequenceHeader(compression, sync, header.at)


def vint(octets: bytes, at: int) -> tuple[int, int] | None:
    """Decode a length in Hadoop's variable-length format; return value and end, or None if it is invalid or cut."""
    if at >= len(octets):
        return None
    head = octets[at]
    if head < 0x80:
        return head, at + 1
    size = 0x90 - head
    if not 1 <= size <= 4 or len(octets) < at + 1 + size:
        return None
    return int.from_bytes(octets[at + 1 : at + 1 + size], "big"), at + 1 + size


def next_sync(file: LocalFile, mark: bytes, start: int) -> int | None:
    """Return the offset of the first sync mark at or behind ``start``; None if there is none. O(bytes read).

    Args:
        file: any file.
        mark: -1 and the 16 bytes of the header.
        start: the offset at which the search begins.
    """
    at, size = start, _SEARCH_BYTES
    while at + len(mark) <= file.size_bytes:
        piece = file.read(at, at + size)
        found = piece.buffer.find(mark, at - piece.base)
        if found >= 0:
            return piece.base + found
        at = piece.end - len(mark) + 1
        size = min(2 * size, _SEARCH_BYTES_MAX)
    return None


class _HeaderFields:
    """Reader of adjacent fields."""

    def __init__(self, name: str, piece: Piece) -> None:
        self._name = name
        self._octets = piece.buffer
        self.at = len(_MAGIC)

    def take(self, size: int, what: str) -> bytes:
        if len(self._octets) - self.at < size:
            raise LedgerFileInvalid(f"{self._name} is cut short at byte {len(self._octets)}, in the {what}")
        self.at += size
        return self._octets[self.at - size : self.at]

    def octet(self, what: str) -> int:
        return self.take(1, what)[0]

    def count(self, what: str) -> int:
        count: int = _I32.unpack(self.take(_I32.size, what))[0]
        if not 0 <= count <= _HEADER_BYTES_MAX:
            raise LedgerFileInvalid(f"{self._name} claims {count} {what} pairs at byte {self.at - _I32.size}")
        return count

    def text(self, what: str) -> str:
        number = vint(self._octets, self.at)
        if number is None:
            raise LedgerFileInvalid(f"{self._name} has no readable length of the {what} at byte {self.at}")
        size, self.at = number
        return self.take(size, what).decode("utf-8", "backslashreplace")
