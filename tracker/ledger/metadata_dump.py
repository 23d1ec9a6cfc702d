"""The metadata store that a topic's ledgers and cursors are found through, and one taken from a dump file.

A dump is one JSON object per line, optionally gzip: ``path`` and ``value`` (base64), further keys are ignored. Paths
are those below the cluster's root: /managed-ledgers/... and /ledgers/...
"""

import gzip
import zlib
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from tracker.ledger.errors import LedgerFileInvalid

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
        children: dict[str, set[str]] = {}
        for path in self._values:
            parent, _, child = path.rpartition("/")
            # Nodes between the root and a leaf may be missing in a dump of selected paths.
            while child and child not in children.setdefault(parent, set()):
                children[parent].add(child)
                parent, _, child = parent.rpartition("/")
        self._children = {parent: sorted(names) for parent, names in children.items()}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, path: str) -> bytes | None:
        """The value of a node, empty bytes when it has none; None when there is no such node."""
        return self._values.get(path)

    def children(self, path: str) -> Sequence[str]:
        """Names of the nodes directly below, ascending; empty when there is no such node."""
        return self._children.get(path, ())

    @classmethod
    def load(cls, file: str | Path) -> "MetadataDump":
        """Read a dump file.

        Args:
            file: JSON lines, plain or gzip (told by content, not by name).
        Raises:
            LedgerFileInvalid: cut short or not such a file; names the line.
            OSError: the file cannot be read.
        """
        values: dict[str, bytes] = {}
        decoder = msgspec.json.Decoder(_Node)
        for number, line in enumerate(_content(Path(file)).splitlines(), start=1):
            if not line.strip():
                continue
            try:
                node = decoder.decode(line)
                values[node.path] = a2b_base64(node.value or "", strict_mode=True)
            except (msgspec.DecodeError, Base64Error, ValueError) as error:
                raise LedgerFileInvalid(
                    f"{file}, line {number}: {error}; give a metadata dump of JSON lines with path and value (base64)"
                ) from error
        return cls(values, name=str(file))


def _content(file: Path) -> bytes:
    content = file.read_bytes()
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LedgerFileInvalid(f"{file} is cut short or damaged: {error}; give the whole file") from error
