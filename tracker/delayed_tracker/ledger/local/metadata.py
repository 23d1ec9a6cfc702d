"""The two small files beside a topic's ledgers: its metadata, and the end of its durable entries.

The body of the metadata is the topic's name (u16 size, UTF-8), then Pulsar's own ManagedLedgerInfo. A ledger without an
entry count is open for writing; at most one ledger is open, and it is the last.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.local.files import checked_file
from delayed_tracker.ledger.metadata.managed_ledger import TopicLedger, parse_managed_ledger
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb

_METADATA_MAGIC: Final = b"DTLM"
_CONFIRMED_MAGIC: Final = b"DTLC"
_CONFIRMED: Final = struct.Struct(">qqqq")
_NAME_SIZE: Final = struct.Struct(">H")
_CONFIRMED_TRIES: Final = 100


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic's ledgers, ascending by id, its properties and its termination."""

    topic: TopicName
    ledgers: tuple[TopicLedger, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    terminated_at: Position | None = None

    @property
    def open_ledger(self) -> TopicLedger | None:
        """The ledger whose end is not recorded; None if all ledgers are closed."""
        return self.ledgers[-1] if self.ledgers and self.ledgers[-1].entry_count is None else None

    def with_open(self, ledger_id: int) -> "TopicMetadata":
        """Return a copy with one more ledger, open for writing."""
        return replace(self, ledgers=(*self.ledgers, TopicLedger(ledger_id, None, None, 0, False, False)))

    def with_closed(self, ledger_id: int, *, entry_count: int, payload_bytes: int, now_ms: int) -> "TopicMetadata":
        """Return a copy in which the ledger is closed; an empty ledger is removed."""
        # A time of 0 means "not closed" in Pulsar's message.
        closed = TopicLedger(ledger_id, entry_count, payload_bytes, max(now_ms, 1), False, False)
        others = [ledger for ledger in self.ledgers if ledger.ledger_id != ledger_id]
        if entry_count:
            others.append(closed)
        return replace(self, ledgers=tuple(sorted(others, key=lambda ledger: ledger.ledger_id)))

    def with_properties(self, properties: Mapping[str, str]) -> "TopicMetadata":
        """Return a copy with these properties set; other properties stay."""
        return replace(self, properties={**self.properties, **properties})

    def with_termination(self, terminated_at: Position | None) -> "TopicMetadata":
        """Return a copy that accepts no entries behind a position; None accepts entries."""
        return replace(self, terminated_at=terminated_at)

    def encode(self) -> bytes:
        """Return the content of the file."""
        info = pb.ManagedLedgerInfo()
        for ledger in self.ledgers:
            stored = info.ledger_info.add(ledger_id=ledger.ledger_id, timestamp=ledger.closed_at_ms)
            if ledger.entry_count is not None:
                stored.entries = ledger.entry_count
                stored.size = ledger.payload_bytes or 0
        for key, value in self.properties.items():
            info.properties.add(key=key, value=value)
        if self.terminated_at is not None:
            info.terminated_position.ledger_id, info.terminated_position.entry_id = self.terminated_at
        name = str(self.topic).encode()
        return checked_file.encode(_METADATA_MAGIC, _NAME_SIZE.pack(len(name)) + name + info.SerializeToString())


def read_metadata(path: Path) -> TopicMetadata | None:
    """Read a topic's metadata; return None if the file does not exist.

    Raises:
        MetadataInvalid: the file is damaged; the message names it.
        OSError: the file cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    body = checked_file.decode(_METADATA_MAGIC, content, path)
    start = _NAME_SIZE.size
    (size,) = _NAME_SIZE.unpack_from(body.ljust(start, b"\0"))
    try:
        info = parse_managed_ledger(body[start + size :])
        topic = TopicName.parse(body[start : start + size].decode())
    except (MetadataInvalid, UnicodeDecodeError) as error:
        raise MetadataInvalid(f"{path} is damaged: {error}; restore it from a copy") from error
    return TopicMetadata(topic, info.ledgers, info.properties, info.terminated_at)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """End of the durable part of the open ledger."""

    ledger_id: int
    entry_id: int
    """Last durable entry; -1 if there is none."""
    end: int
    """Offset in the log at which the last durable record ends."""
    payload_bytes: int
    """Bytes of all durable entries of the ledger."""

    def encode(self) -> bytes:
        """Return the content of the file, always of the same size."""
        return checked_file.encode(
            _CONFIRMED_MAGIC, _CONFIRMED.pack(self.ledger_id, self.entry_id, self.end, self.payload_bytes)
        )


def read_confirmed(path: Path) -> Confirmed | None:
    """Read the end of the open ledger's durable part.

    Returns None if the file is missing or damaged; then the log itself gives a less exact answer. A writer may
    overwrite the file at the same time, so it is read again if its checksum does not fit.

    Raises:
        OSError: the file cannot be read.
    """
    for _ in range(_CONFIRMED_TRIES):
        try:
            body = checked_file.decode(_CONFIRMED_MAGIC, path.read_bytes(), path)
        except FileNotFoundError:
            return None
        except MetadataInvalid:
            continue
        return Confirmed(*_CONFIRMED.unpack(body)) if len(body) == _CONFIRMED.size else None
    return None
