"""Decodes a ledger's metadata in tiered storage, which is stored with the entries as a bare protobuf message."""

from dataclasses import dataclass

from google.protobuf.message import DecodeError

from delayed_tracker.core.values.columns import ENTRY_ID_MAX
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo

_MANAGED_LEDGER = "pulsar/managed-ledger"


@dataclass(frozen=True, slots=True)
class LedgerSegment:
    """Extent and topic of a ledger."""

    last_entry_id: int | None
    """Last entry; None if the ledger was offloaded before it was closed."""
    payload_bytes: int | None
    topic: TopicName | None
    """Topic of the ledger; None if the metadata does not contain it, or if it is not a topic's name."""


def parse_segment(stored: bytes, where: str) -> LedgerSegment:
    """Decode a LedgerMetadataFormat, as the filesystem driver and the blob driver store it.

    Raises:
        LedgerFileInvalid: the bytes are something else, or the ledger was not closed; the message begins with
            ``where``.
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
    _require_entry_id(parsed.lastEntryId, where)
    custom = {entry.key: entry.value for entry in parsed.customMetadata}
    name = custom.get(_MANAGED_LEDGER, b"").decode("utf-8", "replace")
    topic = TopicName.of_managed_ledger(name)
    # Pulsar writes names in this encoding only, so another encoding is damage.
    written = topic if topic is not None and topic.managed_ledger == name else None
    return LedgerSegment(parsed.lastEntryId, parsed.length, written)


def parse_streamed_segment(stored: bytes, where: str) -> tuple[int, LedgerSegment]:
    """Decode a LedgerInfo, as streaming offload stores it; return the ledger's id and extent.

    Raises:
        LedgerFileInvalid: the bytes are something else; the message begins with ``where``.
    """
    try:
        parsed = ManagedLedgerInfo.LedgerInfo.FromString(stored)
    except DecodeError as error:
        raise LedgerFileInvalid(f"{where}: the ledger's metadata does not parse: {error}") from error
    if not parsed.IsInitialized():
        raise LedgerFileInvalid(f"{where}: the ledger's metadata lacks required fields")
    ended = parsed.entries > 0
    if ended:
        _require_entry_id(parsed.entries - 1, where)
    return parsed.ledger_id, LedgerSegment(
        parsed.entries - 1 if ended else None, parsed.size if ended else None, topic=None
    )


def _require_entry_id(last_entry_id: int, where: str) -> None:
    if last_entry_id > ENTRY_ID_MAX:
        raise LedgerFileInvalid(
            f"{where}: the ledger's metadata claims entry {last_entry_id}, and entry ids end at {ENTRY_ID_MAX}; restore it from "
            "a copy"
        )
