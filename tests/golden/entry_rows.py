"""Converts one entry to the form in which Pulsar's own reading is recorded (tests/data/pulsar-a/README.md)."""

import hashlib
from typing import Any

from delayed_tracker.ledger.entry.frame import (
    checksum_matches,
    parse_broker_metadata,
    parse_message_metadata,
    split_frame,
)
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata


def entry_row(entry: bytes) -> dict[str, Any]:
    """Return frame, checksum and verdict, all metadata fields and payload digest; None for an absent field.

    Raises:
        FrameInvalid: the entry cannot be read.
    """
    frame = split_frame(entry)
    broker = parse_broker_metadata(entry, frame)
    body = entry[frame.metadata_end :]
    stamped = {"broker_timestamp": None, "index": None}
    if broker is not None:
        stamped = {name: getattr(broker, name) if broker.HasField(name) else None for name in stamped}
    return {
        "length": len(entry),
        "sha256": hashlib.sha256(entry).hexdigest(),
        "has_frame": broker is not None,
        **stamped,
        "crc": None if frame.crc < 0 else frame.crc,
        "crc_ok": checksum_matches(entry, frame),
        # The length includes everything in front of the payload.
        "metadata_length": frame.metadata_end,
        "body_length": len(body),
        "body_sha256": hashlib.sha256(body).hexdigest(),
        **_metadata_row(parse_message_metadata(entry, frame)),
    }


def _metadata_row(metadata: MessageMetadata) -> dict[str, Any]:
    def optional(field: str) -> object:
        value = getattr(metadata, field) if metadata.HasField(field) else None
        return value.hex() if isinstance(value, bytes) else value

    def optional_id(field: str) -> int | None:
        return _signed(getattr(metadata, field)) if metadata.HasField(field) else None

    compression = MessageMetadata.DESCRIPTOR.fields_by_name["compression"].enum_type.values_by_number
    return {
        "producer": metadata.producer_name,
        "sequence_id": _signed(metadata.sequence_id),
        "highest_sequence_id": optional_id("highest_sequence_id"),
        "publish_time": metadata.publish_time,
        "deliver_at": optional("deliver_at_time"),
        "num_messages_in_batch": optional("num_messages_in_batch"),
        "event_time": optional("event_time"),
        "marker_type": optional("marker_type"),
        "txn_most": optional_id("txnid_most_bits"),
        "txn_least": optional_id("txnid_least_bits"),
        "compression": compression[metadata.compression].name if metadata.HasField("compression") else None,
        "uncompressed_size": optional("uncompressed_size"),
        "encrypted": len(metadata.encryption_keys) > 0,
        "encryption_algo": optional("encryption_algo"),
        "uuid": optional("uuid"),
        "num_chunks": optional("num_chunks_from_msg"),
        "chunk_id": optional("chunk_id"),
        "total_chunk_size": optional("total_chunk_msg_size"),
        "partition_key": optional("partition_key"),
        "partition_key_b64": metadata.partition_key_b64_encoded,
        "ordering_key": optional("ordering_key"),
        "schema_version": optional("schema_version"),
        "null_value": optional("null_value"),
        "null_partition_key": optional("null_partition_key"),
        "properties": [[entry.key, entry.value] for entry in metadata.properties],
        "compacted_batch_indexes": list(metadata.compacted_batch_indexes),
    }


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
