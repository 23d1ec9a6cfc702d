"""Converts entries to the form in which ``PulsarReads.java`` answers."""

import hashlib

from delayed_tracker.ledger.compaction.compacted_entry import unwrap_compacted
from delayed_tracker.ledger.compaction.rebatch import batch_slots, is_readable_batch
from delayed_tracker.ledger.entry.entry_columns import EntryFlag, EntryVerdict, scan_entries
from delayed_tracker.ledger.entry.frame import parse_message_metadata, split_frame
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.messages import Message, MessageReader
from delayed_tracker.ledger.messages.batch import Slot
from tests.golden.entry_rows import entry_row
from tests.jvm.pulsar_reads import Row
from tests.ledger.harness.list_ledger import topic_of

_NEEDS_MORE = (EntryFlag.ENCRYPTED, EntryFlag.CHUNK, EntryFlag.TRANSACTION, EntryFlag.MARKER)
"""Entries with these flags have no messages without keys, other chunks or the outcome of a transaction."""


def read_entry(entry: bytes) -> Row:
    """Read an entry of a topic.

    Raises:
        FrameInvalid: the entry cannot be read.
    """
    columns = scan_entries(StoredEntries.of(1, [0], [entry]))
    messages = None
    if not any(columns.has(flag)[0] for flag in _NEEDS_MORE):
        messages = [_message_row(message) for message in MessageReader(topic_of({1: [entry]})).read()]
    return entry_row(entry) | {
        "crc_ok": columns.verdict[0] == EntryVerdict.READABLE,
        "messages": messages,
    }


def read_compacted(stored: bytes, partition: int) -> Row:
    """Read an entry of a compacted ledger of a topic with this partition number."""
    read = unwrap_compacted(LedgerEntries(StoredEntries.of(1, [0], [stored])))
    assert read.bad_entries == ()
    (position,) = read.entries.positions
    entry = read.entries.payload(0)
    metadata = parse_message_metadata(entry, frame := split_frame(entry))
    slots = batch_slots(metadata, entry[frame.metadata_end :]) if is_readable_batch(metadata) else []
    return {
        "ledger": position.ledger_id,
        "entry": position.entry_id,
        "partition": partition,
        "batch_index": None,
        **read_entry(entry),
        "slots": [_slot_row(slot) for slot in slots],
        "compactable": [
            [slot.batch_index, _key(slot), slot.metadata.payload_size]
            for slot in slots
            if not slot.metadata.compacted_out
        ],
    }


def _message_row(message: Message) -> Row:
    return {
        "key": message.key,
        "key_b64": message.key_base64,
        "properties": dict(message.properties),
        "publish_time": message.publish_time_ms,
        "event_time": message.event_time_ms,
        "sequence_id": message.sequence_id,
        "producer": message.producer,
        "length": len(message.payload),
        "sha256": hashlib.sha256(message.payload).hexdigest(),
    }


def _slot_row(slot: Slot) -> Row:
    return {
        "compacted_out": slot.metadata.compacted_out,
        "key": _key(slot),
        "payload_size": slot.metadata.payload_size,
        "null_value": slot.metadata.null_value,
        "sha256": hashlib.sha256(slot.body).hexdigest(),
    }


def _key(slot: Slot) -> str | None:
    return slot.metadata.partition_key if slot.metadata.HasField("partition_key") else None
