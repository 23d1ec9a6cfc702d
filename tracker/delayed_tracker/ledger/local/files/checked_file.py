"""Small files that are read as a whole: a magic number, a version, and a checksum over all bytes.

magic 4 bytes || version u32 || body size u32 || crc32c u32 of the twelve bytes before it and the body || body
"""

import struct
from pathlib import Path
from typing import Final

import google_crc32c

from delayed_tracker.ledger.errors import MetadataInvalid

_HEADER: Final = struct.Struct(">4sII")
_CRC: Final = struct.Struct(">I")
_VERSION: Final = 1
OVERHEAD_BYTES: Final = _HEADER.size + _CRC.size


def encode(magic: bytes, body: bytes) -> bytes:
    """Return the content of a file of the current version."""
    header = _HEADER.pack(magic, _VERSION, len(body))
    return header + _CRC.pack(google_crc32c.value(header + body)) + body


def decode(magic: bytes, content: bytes, path: Path) -> bytes:
    """Return the body of a file.

    Raises:
        MetadataInvalid: the file is of another kind, of another version, or damaged; the message names it.
    """
    if len(content) < OVERHEAD_BYTES or not content.startswith(magic):
        raise MetadataInvalid(f"{path} is cut short or no such file: it does not start with {magic.decode()}")
    _, version, size = _HEADER.unpack_from(content)
    (crc,) = _CRC.unpack_from(content, _HEADER.size)
    body = content[OVERHEAD_BYTES:]
    whole = size == len(body) and int(google_crc32c.value(content[: _HEADER.size] + body)) == crc
    if whole and version != _VERSION:
        raise MetadataInvalid(f"{path} is of version {version}; this program reads version {_VERSION}")
    if not whole:
        raise MetadataInvalid(f"{path} is damaged: its checksum does not fit; restore it from a copy")
    return body
