"""Builds messages from decoded entries.

In a batch, each message has its own key, properties and sequence id. The producer and the times, unless the message has
its own, are those of the entry. The broker's index is that of the entry's last message; the indexes of the others are
counted back from it, as clients do, although for batches in transactions the broker counts one message only.
Source: MessageImpl.java (constructors, getIndex).
"""

from typing import Final, NamedTuple

from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag
from delayed_tracker.ledger.entry.frame import text_of
from delayed_tracker.ledger.messages.batch import Slot
from delayed_tracker.ledger.messages.message import Message, MessageId
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata, SingleMessageMetadata

# Plain integers: combining enum flags takes longer than the rest of a stamp.
_TIMESTAMP: Final = int(EntryFlag.BROKER_TIMESTAMP)
_INDEX: Final = int(EntryFlag.INDEX)


class BrokerStamp(NamedTuple):
    """Fields of an entry's broker frame; None for missing fields."""

    timestamp_ms: int | None = None
    last_index: int | None = None
    """Index of the entry's last message."""

    @classmethod
    def of(cls, columns: EntryColumns, row: int) -> "BrokerStamp":
        """Return the stamp of one row."""
        flags = int(columns.flags[row])
        return cls(
            int(columns.broker_timestamp_ms[row]) if flags & _TIMESTAMP else None,
            int(columns.index[row]) if flags & _INDEX else None,
        )


def single_message(message_id: MessageId, metadata: MessageMetadata, payload: bytes, stamp: BrokerStamp) -> Message:
    """Build the message of an entry that is not a batch."""
    return Message(
        id=message_id,
        payload=payload,
        key=text_of(metadata.partition_key) if metadata.HasField("partition_key") else None,
        raw_key=_raw(metadata.partition_key),
        key_base64=metadata.partition_key_b64_encoded,
        ordering_key=metadata.ordering_key if metadata.HasField("ordering_key") else None,
        properties=_properties(metadata),
        publish_time_ms=signed(metadata.publish_time),
        event_time_ms=signed(metadata.event_time),
        deliver_at_ms=metadata.deliver_at_time if metadata.HasField("deliver_at_time") else None,
        producer=text_of(metadata.producer_name),
        sequence_id=signed(metadata.sequence_id),
        null_value=metadata.null_value,
        schema_version=metadata.schema_version if metadata.HasField("schema_version") else None,
        broker_publish_time_ms=stamp.timestamp_ms,
        index=stamp.last_index,
    )


def batched_message(message_id: MessageId, metadata: MessageMetadata, slot: Slot, stamp: BrokerStamp) -> Message:
    """Build one message of a batch."""
    single = slot.metadata
    index = None if stamp.last_index is None else stamp.last_index - message_id.batch_size + slot.batch_index + 1
    return Message(
        id=message_id,
        payload=slot.body,
        key=text_of(single.partition_key) if single.HasField("partition_key") else None,
        raw_key=_raw(single.partition_key),
        key_base64=single.partition_key_b64_encoded,
        ordering_key=single.ordering_key if single.HasField("ordering_key") else None,
        properties=_properties(single),
        publish_time_ms=signed(metadata.publish_time),
        event_time_ms=signed(single.event_time if single.HasField("event_time") else metadata.event_time),
        deliver_at_ms=metadata.deliver_at_time if metadata.HasField("deliver_at_time") else None,
        producer=text_of(metadata.producer_name),
        sequence_id=signed(single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id),
        null_value=single.null_value,
        schema_version=metadata.schema_version if metadata.HasField("schema_version") else None,
        broker_publish_time_ms=stamp.timestamp_ms,
        index=index,
    )


def _properties(metadata: MessageMetadata | SingleMessageMetadata) -> dict[str, str]:
    return {text_of(pair.key): text_of(pair.value) for pair in metadata.properties}


def _raw(key: str | bytes) -> bytes | None:
    """Return a key that is not text, as protobuf returns it."""
    return key if isinstance(key, bytes) else None


def signed(value: int) -> int:
    """Convert an unsigned 64-bit wire value to the signed value that clients use."""
    return value - (1 << 64) if value >> 63 else value
