"""The metadata store that a topic's ledgers and cursors are found through, and one taken from a dump file.

A dump is one JSON object per line, optionally gzip: ``path`` and ``value`` (base64), further keys are ignored. Paths
are those below the cluster's root: /managed-ledgers/... and /ledgers/...

A dump is read line by line. Its size on disk bounds the memory that a plain one takes; a gzip one could unpack to a
thousand times its size, and a pipe has no size: both are refused beyond :data:`UNPACKED_BYTES_MAX`.
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
"""A node in base64. ZooKeeper refuses values above 1 MB, and those who raise ``jute.maxbuffer`` raise it to some 10 MB."""
UNPACKED_BYTES_MAX: Final = 512 << 20
"""What a gzip dump may unpack to and a pipe may bring, counting :data:`_LINE_OVERHEAD_BYTES` for each line."""
_LINE_OVERHEAD_BYTES: Final = 200
"""What a node takes in memory beside its path and value, about: lines may have no more than ten characters."""
_GZIP_MAGIC: Final = b"\x1f\x8b"


class MetadataSource(Protocol):
    """A tree of nodes with values. What :class:`MetadataDump` is, and a live metadata store can be."""

    @property
    def name(self) -> str:
        """What to call the source in messages."""

    def get(self, path: str) -> bytes | None:
        """The value of a node, empty bytes when it has none; None when there is no such node."""

    def children(self, path: str) -> Sequence[str]:
        """Names of the nodes directly below, ascending; empty when there is no such node."""


class _Node(msgspec.Struct):
    path: str
    value: str | None = None


class MetadataDump:
    """A metadata source held in memory."""

    def __init__(self, values: Mapping[str, bytes], name: str = "metadata") -> None:
        self.name = name
        self._values = dict(values)
        self._paths = sorted(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, path: str) -> bytes | None:
        """The value of a node, empty bytes when it has none; None when there is no such node."""
        return self._values.get(path)

    def children(self, path: str) -> Sequence[str]:
        """Names of the nodes directly below, ascending; empty when there is no such node."""
        # Nodes between the root and a leaf may be missing in a dump of selected paths: the paths below tell them.
        below = f"{path}/"
        found: set[str] = set()
        at = bisect_left(self._paths, below)
        while at < len(self._paths) and self._paths[at].startswith(below):
            child, slash, _ = self._paths[at][len(below) :].partition("/")
            found.add(child)
            # All paths with this child as a directory lie together, before the character that follows the slash.
            at = bisect_left(self._paths, f"{below}{child}0", lo=at) if slash else at + 1
        return sorted(found - {""})

    @classmethod
    def load(cls, file: str | Path) -> "MetadataDump":
        """Read a dump file.

        Args:
            file: JSON lines, plain or gzip (told by content, not by name).
        Raises:
            LedgerFileInvalid: cut short or not such a file, or larger than its bounds; names the line.
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
    """The lines of a dump, each within its bound, and all of a gzip dump or a pipe together within theirs."""
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
