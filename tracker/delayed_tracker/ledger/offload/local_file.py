"""Local files read in ranges, checked against the ``.crc`` file that Hadoop's local file system writes beside them.

``.<name>.crc`` is "crc", a zero byte, the chunk size i32 (512), and the CRC-32 u32 of each chunk of the file.
"""

import os
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.offload.inflating import crc32

_HEADER: Final = struct.Struct(">4si")
_MAGIC: Final = b"crc\0"
_CHUNK_BYTES_MAX: Final = 1 << 20
_NO_CHUNKS: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Piece:
    """Range of a file."""

    buffer: bytes
    base: int
    """Offset of the buffer in the file."""
    damaged: Int64Array
    """Offsets in the file of the chunks whose checksum does not match; ascending."""
    chunk_bytes: int

    @property
    def end(self) -> int:
        """Offset of the first byte behind the buffer."""
        return self.base + len(self.buffer)

    def damage_between(self, start: int, end: int) -> int | None:
        """Return the offset of the first damaged chunk with a byte from ``start`` up to before ``end``, or None."""
        at = int(np.searchsorted(self.damaged, start - self.chunk_bytes, side="right"))
        return int(self.damaged[at]) if at < len(self.damaged) and self.damaged[at] < end else None


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file. It is opened for each read, so that many ledgers do not exhaust the process's file descriptors."""

    path: Path
    size_bytes: int
    _sums: NDArray[np.uint32] | None = field(default=None, repr=False)
    _chunk_bytes: int = 1

    @property
    def name(self) -> str:
        """Path of the file, for messages."""
        return str(self.path)

    def read(self, start: int, end: int) -> Piece:
        """Read the bytes from ``start`` up to ``end``, and those around them that share a checksum.

        At the file's end there are fewer.

        Args:
            start: 0 or more.
            end: may lie behind the end of the file.
        Raises:
            LedgerFileInvalid: the file has become shorter since it was opened.
            OSError: the file cannot be read.
        """
        if self._sums is not None:
            start -= start % self._chunk_bytes
            end += -end % self._chunk_bytes
        with self.path.open("rb") as opened:
            opened.seek(start)
            wanted = max(0, min(end, self.size_bytes) - start)
            buffer = opened.read(wanted)
            if len(buffer) < wanted:
                raise LedgerFileInvalid(
                    f"{self.path} ends at byte {opened.seek(0, os.SEEK_END)} and had {self.size_bytes} bytes when it was opened; "
                    "read the ledger again once nothing writes to it"
                )
        return Piece(buffer, start, self._damaged(buffer, start), self._chunk_bytes)

    def _damaged(self, buffer: bytes, start: int) -> Int64Array:
        if self._sums is None:
            return _NO_CHUNKS
        size, view = self._chunk_bytes, memoryview(buffer)
        ours = [crc32(view[at : at + size]) for at in range(0, len(buffer), size)]
        known = self._sums[start // size : start // size + len(ours)]
        fits = np.zeros(len(ours), np.bool_)
        # A chunk without a checksum was written later, or its checksum was lost.
        fits[: len(known)] = known == ours[: len(known)]
        return start + np.flatnonzero(~fits).astype(np.int64) * size


def open_local_file(path: Path) -> LocalFile:
    """Open a file and read its checksums, if it has any.

    Raises:
        LedgerFileInvalid: the file does not exist, or its ``.crc`` file is not a checksum file.
        OSError: the file cannot be read.
    """
    try:
        size_bytes = path.stat().st_size
    except FileNotFoundError as error:
        raise LedgerFileInvalid(f"{path} does not exist; give the whole directory of the ledger") from error
    sums_path = path.with_name(f".{path.name}.crc")
    try:
        content = sums_path.read_bytes()
    except FileNotFoundError:
        return LocalFile(path, size_bytes)
    magic, chunk_bytes = _HEADER.unpack_from(content) if len(content) >= _HEADER.size else (b"", 0)
    if magic != _MAGIC or not 0 < chunk_bytes <= _CHUNK_BYTES_MAX or (len(content) - _HEADER.size) % 4:
        raise LedgerFileInvalid(f"{sums_path} is no checksum file of Hadoop; remove it to read {path.name} without")
    sums = np.frombuffer(content, ">u4", offset=_HEADER.size).astype(np.uint32)
    chunk_count = -(-size_bytes // chunk_bytes)
    if len(sums) > chunk_count:
        raise LedgerFileInvalid(
            f"{sums_path} has {len(sums)} checksums, {path.name} has {size_bytes} bytes and so {chunk_count} chunks: one of "
            "them is cut short or of another file; give the files that belong together"
        )
    return LocalFile(path, size_bytes, sums, chunk_bytes)


class ReadAhead:
    """Sequential reader of a file, in pieces of a fixed size, or larger if a larger range is requested."""

    def __init__(self, file: LocalFile, piece_bytes: int) -> None:
        self.file = file
        self._piece_bytes = piece_bytes
        self._piece = Piece(b"", 0, _NO_CHUNKS, 1)

    def piece(self, start: int, end: int) -> Piece:
        """Return a piece, possibly larger, with the bytes from ``start`` up to ``end``, or to the file's end."""
        if not self._piece.base <= start <= min(end, self.file.size_bytes) <= self._piece.end:
            self._piece = self.file.read(start, max(end, start + self._piece_bytes))
        return self._piece
