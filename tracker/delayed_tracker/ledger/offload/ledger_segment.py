"""What tiered storage says about a ledger: its metadata, stored with the entries as a bare protobuf message."""

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo

_MANAGED_LEDGER = "pulsar/managed-ledger"


@dataclass(frozen=True, slots=True)
class LedgerSegment:
    """A ledger's extent."""

    last_entry_id: int | None
    """None when it was offloaded before it ended."""
    payload_bytes: int | None
    topic: TopicName | None
    """None when it does not say, or is no topic's."""


def parse_segment(stored: bytes, where: str) -> LedgerSegment:
    """What a LedgerMetadataFormat says, as the filesystem driver and the blob driver store it.

    Raises:
        LedgerFileInvalid: it is none, or of a ledger that was not closed; begins with ``where``.
    """
    try:
        parsed = LedgerMetadataFormat.FromString(stored)
    except DecodeError as error:
        raise LedgerFileInvalid(f"{where}: the ledger's metadata does not parse: {error}") from error
    if not parsed.IsInitialized():
        raise LedgerFileInvalid(f"{where}: the ledger's metadata lacks required fields")
    if parsed.state != LedgerMetadataFormat.CLOSED or parsed.lastEntryId < 0:
        raise LedgerFileInvalid(
            f"{where}: the ledger's metadata is that of a ledger in state {parsed.state} with last entry "
            f"{parsed.lastEntryId}; only closed ledgers with entries are offloaded"
        )
    custom = {entry.key: entry.value for entry in parsed.customMetadata}
    name = custom.get(_MANAGED_LEDGER, b"").decode("utf-8", "replace")
    topic = TopicName.of_managed_ledger(name)
    # Nobody writes a name in another encoding than this: it is damaged.
    written = topic if topic is not None and topic.managed_ledger == name else None
    return LedgerSegment(parsed.lastEntryId, parsed.length, written)


def parse_streamed_segment(stored: bytes, where: str) -> tuple[int, LedgerSegment]:
    """What a LedgerInfo says, as streaming offload stores it, and the ledger's id.

    Raises:
        LedgerFileInvalid: it is none; begins with ``where``.
    """
    try:
        parsed = ManagedLedgerInfo.LedgerInfo.FromString(stored)
    except DecodeError as error:
        raise LedgerFileInvalid(f"{where}: the ledger's metadata does not parse: {error}") from error
    if not parsed.IsInitialized():
        raise LedgerFileInvalid(f"{where}: the ledger's metadata lacks required fields")
    ended = parsed.entries > 0
    return parsed.ledger_id, LedgerSegment(
        parsed.entries - 1 if ended else None, parsed.size if ended else None, topic=None
    )
