"""Stores which ledger is the compacted ledger of a topic, and its horizon: one small file, replaced as a whole."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.local.files import checked_file
from delayed_tracker.ledger.local.files.layout import TopicDirectory
from delayed_tracker.ledger.local.ledger import LocalLedger
from delayed_tracker.ledger.topic.topic_log import CompactedLog

_MAGIC: Final = b"DTLK"
_BODY: Final = struct.Struct(">qqqqq")


@dataclass(frozen=True, slots=True)
class CompactedMetadata:
    """The valid compacted ledger of a topic."""

    ledger_id: int
    entry_count: int
    payload_bytes: int
    horizon: Position

    def encode(self) -> bytes:
        """Return the content of the file."""
        body = _BODY.pack(self.ledger_id, self.entry_count, self.payload_bytes, *self.horizon)
        return checked_file.encode(_MAGIC, body)


def read_compacted_metadata(path: Path) -> CompactedMetadata | None:
    """Read the file; return None if it does not exist.

    Raises:
        MetadataInvalid: the file is damaged; the message names it.
        OSError: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    body = checked_file.decode(_MAGIC, content, path)
    if len(body) != _BODY.size:
        raise MetadataInvalid(f"{path} is damaged: it has {len(body)} bytes; remove it and compact the topic again")
    ledger_id, entry_count, payload_bytes, *horizon = _BODY.unpack(body)
    return CompactedMetadata(ledger_id, entry_count, payload_bytes, Position(*horizon))


def read_compacted_log(files: TopicDirectory) -> CompactedLog | None:
    """Return the result of the last compaction; None if there was none.

    Args:
        files: the directory of compacted ledgers.
    Raises: as :func:`read_compacted_metadata`.
    """
    metadata = read_compacted_metadata(files.metadata)
    if metadata is None:
        return None
    ledger_id = metadata.ledger_id
    ledger = LocalLedger(
        files.log(ledger_id),
        files.index(ledger_id),
        ledger_id,
        metadata.entry_count - 1,
        metadata.payload_bytes,
        closed=True,
    )
    return CompactedLog(ledger, metadata.horizon)
