"""Rows with an entry's metadata, for the commands that print them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, EntryVerdict
from delayed_tracker.pulsar.v1.entry_pb2 import CompressionType

_KINDS: Final = {
    EntryFlag.MARKER: "marker",
    EntryFlag.BATCH: "batch",
    EntryFlag.CHUNK: "chunk",
    EntryFlag.ENCRYPTED: "encrypted",
    EntryFlag.TRANSACTION: "transaction",
}


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry. Times are milliseconds since 1970-01-01 UTC; None if the entry does not contain the value."""

    position: Position
    entry_bytes: int
    verdict: str
    """Result of parsing: "readable", "checksum_mismatch" or "frame_invalid"; a frame_invalid row has no other values.
    """
    message_count: int
    """Messages of a batch, from its metadata; 1 otherwise."""
    index: int | None
    broker_timestamp_ms: int | None
    publish_time_ms: int | None
    deliver_at_ms: int | None
    kinds: tuple[str, ...]
    """Kinds of the entry: any of marker, batch, chunk, encrypted, transaction."""
    compression: str


def entry_rows(columns: EntryColumns) -> Iterator[EntryRow]:
    """Yield one row for each entry; slow, for output only."""
    for row, position in enumerate(columns.positions):
        flags = EntryFlag(int(columns.flags[row]))
        verdict = EntryVerdict(int(columns.verdict[row]))
        parsed = verdict is not EntryVerdict.FRAME_INVALID
        yield EntryRow(
            position=position,
            entry_bytes=int(columns.stored.end[row] - columns.stored.start[row]),
            verdict=verdict.name.lower(),
            message_count=int(columns.num_messages[row]),
            index=int(columns.index[row]) if EntryFlag.INDEX in flags else None,
            broker_timestamp_ms=int(columns.broker_timestamp_ms[row]) if EntryFlag.BROKER_TIMESTAMP in flags else None,
            publish_time_ms=int(columns.publish_time_ms[row]) if parsed else None,
            deliver_at_ms=int(columns.deliver_at_ms[row]) if EntryFlag.DELAYED in flags else None,
            kinds=tuple(kind for flag, kind in _KINDS.items() if flag in flags),
            compression=_compression(int(columns.compression[row])),
        )


def _compression(number: int) -> str:
    known = {value: name for name, value in CompressionType.items()}
    return known.get(number, str(number)).lower()
