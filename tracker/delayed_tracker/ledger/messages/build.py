"""Messages out of decoded entries.

In a batch, each message brings its own key, properties and sequence id; what it does not say for itself, producer and
times, is the entry's. The broker counts the last message of an entry; the others are counted back from it, which is
how clients do it, though for batches in transactions the broker counts one message only.
Source: MessageImpl.java (constructors, getIndex).
"""

from typing import Final, NamedTuple

from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag
from delayed_tracker.ledger.messages.batch import Slot
from delayed_tracker.ledger.messages.message import Message, MessageId
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata

# Plain integers: combining flags as flags takes longer than all the rest of a stamp.
_TIMESTAMP: Final = int(EntryFlag.BROKER_TIMESTAMP)
_INDEX: Final = int(EntryFlag.INDEX)


class BrokerStamp(NamedTuple):
    """What the broker frame of an entry says; None where it says nothing."""

    timestamp_ms: int | None = None
    last_index: int | None = None
    """Of the entry's last message."""

    @classmethod
    def of(cls, columns: EntryColumns, row: int) -> "BrokerStamp":
        """The stamp of one row."""
        flags = int(columns.flags[row])
        return cls(
            int(columns.broker_timestamp_ms[row]) if flags & _TIMESTAMP else None,
            int(columns.index[row]) if flags & _INDEX else None,
        )


def single_message(message_id: MessageId, metadata: MessageMetadata, payload: bytes, stamp: BrokerStamp) -> Message:
    """The message of an entry that is no batch."""
    return Message(
        id=message_id,
        payload=payload,
        key=metadata.partition_key if metadata.HasField("partition_key") else None,
        key_base64=metadata.partition_key_b64_encoded,
        ordering_key=metadata.ordering_key if metadata.HasField("ordering_key") else None,
        properties={pair.key: pair.value for pair in metadata.properties},
        publish_time_ms=signed(metadata.publish_time),
        event_time_ms=signed(metadata.event_time),
        deliver_at_ms=metadata.deliver_at_time if metadata.HasField("deliver_at_time") else None,
        producer=metadata.producer_name,
        sequence_id=signed(metadata.sequence_id),
        null_value=metadata.null_value,
        schema_version=metadata.schema_version if metadata.HasField("schema_version") else None,
        broker_publish_time_ms=stamp.timestamp_ms,
        index=stamp.last_index,
    )


def batched_message(message_id: MessageId, metadata: MessageMetadata, slot: Slot, stamp: BrokerStamp) -> Message:
    """One message of a batch."""
    single = slot.metadata
    index = None if stamp.last_index is None else stamp.last_index - message_id.batch_size + slot.batch_index + 1
    return Message(
        id=message_id,
        payload=slot.body,
        key=single.partition_key if single.HasField("partition_key") else None,
        key_base64=single.partition_key_b64_encoded,
        ordering_key=single.ordering_key if single.HasField("ordering_key") else None,
        properties={pair.key: pair.value for pair in single.properties},
        publish_time_ms=signed(metadata.publish_time),
        event_time_ms=signed(single.event_time if single.HasField("event_time") else metadata.event_time),
        deliver_at_ms=metadata.deliver_at_time if metadata.HasField("deliver_at_time") else None,
        producer=metadata.producer_name,
        sequence_id=signed(single.sequence_id if single.HasField("sequence_id") else metadata.sequence_id),
        null_value=single.null_value,
        schema_version=metadata.schema_version if metadata.HasField("schema_version") else None,
        broker_publish_time_ms=stamp.timestamp_ms,
        index=index,
    )


def signed(value: int) -> int:
    """An unsigned 64-bit wire value as the signed one that clients see."""
    return value - (1 << 64) if value >> 63 else value
