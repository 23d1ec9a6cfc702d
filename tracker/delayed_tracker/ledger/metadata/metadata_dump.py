"""The interface of a metadata store, and its implementation over a dump file.

A dump has one JSON object per line and may be compressed with gzip. Its keys are ``path`` and ``value`` (base64);
others are ignored. Paths are relative to the cluster's root: /managed-ledgers/... and /ledgers/...

A dump is read line by line. The size on disk bounds the memory for a plain file. A gzip file can unpack to a thousand
times its size, and a pipe has no size, so both are refused beyond :data:`UNPACKED_BYTES_MAX`.
"""

import gzip
import os
import zlib
from binascii import Error as Base64Error
from binascii import a2b_base64
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader
from pathlib import Path
from stat import S_ISREG
from typing import Final, Protocol

import msgspec

from delayed_tracker.ledger.errors import LedgerFileInvalid

LINE_BYTES_MAX: Final = 32 << 20
"""Largest line: a node in base64. ZooKeeper refuses values above 1 MB; clusters that raise ``jute.maxbuffer`` set about
10 MB."""
UNPACKED_BYTES_MAX: Final = 512 << 20
"""Bytes that a gzip dump may unpack to or a pipe may deliver, counting :data:`_LINE_OVERHEAD_BYTES` for each line."""
_LINE_OVERHEAD_BYTES: Final = 200
"""Approximate memory of a node beside its path and value. It counts because a line may be as short as ten characters.
"""
_GZIP_MAGIC: Final = b"\x1f\x8b"


class MetadataSource(Protocol):
    """Tree of nodes with values: a :class:`MetadataDump` or a live metadata store."""

    @property
    def name(self) -> str:
        """Name of the source in messages."""

    def get(self, path: str) -> bytes | None:
        """Return the value of a node, empty bytes if it has none; None if there is no such node."""

    def children(self, path: str) -> Sequence[str]:
        """Return the names of the nodes directly below a path, ascending; empty if there is no such node."""


class _Node(msgspec.Struct):
    path: str
    value: str | None = None


class MetadataDump:
    """Metadata source held in memory."""

    def __init__(self, values: Mapping[str, bytes], name: str = "metadata") -> None:
        self.name = name
        self._values = dict(values)
        self._paths = sorted(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, path: str) -> bytes | None:
        """Return the value of a node, empty bytes if it has none; None if there is no such node."""
        return self._values.get(path)

    def children(self, path: str) -> Sequence[str]:
        """Return the names of the nodes directly below a path, ascending; empty if there is no such node."""
        # A dump of selected paths may lack the nodes between the root and a leaf, so take names from the paths below,
        # too.
        below = f"{path}/"
        found: set[str] = set()
        at = bisect_left(self._paths, below)
        while at < len(self._paths) and self._paths[at].startswith(below):
            child, slash, _ = self._paths[at][len(below) :].partition("/")
            found.add(child)
            # All paths below this child are adjacent: they sort before "0", the character behind the slash.
            at = bisect_left(self._paths, f"{below}{child}0", lo=at) if slash else at + 1
        return sorted(found - {""})

    @classmethod
    def load(cls, file: str | Path) -> "MetadataDump":
        """Read a dump file.

        Args:
            file: JSON lines, plain or gzip, recognized by content and not by name.
        Raises:
            LedgerFileInvalid: cut short, not a dump, or too large. The message names the line.
            OSError: the file cannot be read.
        Cost: O(bytes); memory for paths and values, and for the longest line twice.
        """
        values: dict[str, bytes] = {}
        decoder = msgspec.json.Decoder(_Node)
        for number, line in enumerate(_lines(Path(file)), start=1):
            if not line.strip():
                continue
            try:
                node = decoder.decode(line)
                values[node.path] = a2b_base64(node.value or "", strict_mode=True)
            except (msgspec.DecodeError, Base64Error, ValueError, RecursionError) as error:
                raise LedgerFileInvalid(
                    f"{file}, line {number}: {error}; give a metadata dump of JSON lines with path and value (base64)"
                ) from error
        return cls(values, name=str(file))


def _lines(file: Path) -> Iterator[bytes]:
    """Yield the lines of a dump; bound each line, and the sum of all lines for a gzip dump or a pipe."""
    with file.open("rb") as opened:
        if not opened.peek(len(_GZIP_MAGIC)).startswith(_GZIP_MAGIC):
            lines = _bounded_lines(opened, file)
            if S_ISREG(os.fstat(opened.fileno()).st_mode):
                yield from lines
            else:
                yield from _bounded_sum(lines, f"{file} holds", "write it to a file")
            return
        try:
            with gzip.open(opened) as unpacked:
                yield from _bounded_sum(_bounded_lines(unpacked, file), f"{file} unpacks to", "unpack it by gunzip")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise LedgerFileInvalid(f"{file} is cut short or damaged: {error}; give the whole file") from error


def _bounded_sum(lines: Iterator[bytes], said: str, remedy: str) -> Iterator[bytes]:
    taken_bytes = 0
    for line in lines:
        taken_bytes += len(line) + _LINE_OVERHEAD_BYTES
        if taken_bytes > UNPACKED_BYTES_MAX:
            raise LedgerFileInvalid(
                f"{said} more than {UNPACKED_BYTES_MAX} bytes of metadata, with {_LINE_OVERHEAD_BYTES} for each line; if it "
                f"should, {remedy} and give the plain file, which has no such bound"
            )
        yield line


def _bounded_lines(opened: BufferedReader | gzip.GzipFile, file: Path) -> Iterator[bytes]:
    number = 0
    while line := opened.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            raise LedgerFileInvalid(
                f"{file}, line {number} is longer than {LINE_BYTES_MAX} bytes, which no node is; give a metadata dump "
                "of one node a line"
            )
        yield line
