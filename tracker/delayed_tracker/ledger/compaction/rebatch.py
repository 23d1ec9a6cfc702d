"""A batch of which compaction keeps some messages.

All slots stay where they are: a message that is dropped leaves an empty slot that says so, for clients that know
nothing of compaction, and the entry's metadata lists the slots that were kept (PIP-429), for whoever wants to know the
last one without decompressing anything.
Source: RawBatchConverter.java (rebatchMessage). The proposal's text drops the empty slots; what was shipped keeps them.
"""

from collections.abc import Container, Sequence
from typing import Final

from delayed_tracker.ledger.compression import MESSAGE_BYTES_MAX, compress, decompress
from delayed_tracker.ledger.entry.frame import encode_entry, split_frame
from delayed_tracker.ledger.messages.batch import Slot, join_batch, split_batch
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata, SingleMessageMetadata

PLACEHOLDER: Final = SingleMessageMetadata(payload_size=0, compacted_out=True)


def is_readable_batch(metadata: MessageMetadata) -> bool:
    """Whether the messages of an entry can be told apart without keys."""
    return metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys


def batch_slots(metadata: MessageMetadata, payload: bytes) -> list[Slot]:
    """The slots of a readable batch, as they lie in its compressed payload.

    Raises:
        PayloadInvalid, CompressedDataInvalid: the payload is not what the metadata says, or larger than any batch.
    """
    size = metadata.uncompressed_size if metadata.compression else len(payload)
    return split_batch(metadata, decompress(metadata.compression, payload, size, size_max=MESSAGE_BYTES_MAX))


def rebatch(entry: bytes, metadata: MessageMetadata, slots: Sequence[Slot], retained: Container[int]) -> bytes:
    """The entry with nothing but the retained messages in it.

    Args:
        entry: broker frame, headers and payload.
        metadata: of the entry.
        slots: of the entry. Where an earlier compaction left only what it kept, so does this one.
        retained: batch indexes of the messages to keep.
    Returns: the entry, its broker frame as it was, its size, checksum and list of retained slots renewed.
    """
    frame = split_frame(entry)
    kept = [slot for slot in slots if slot.batch_index in retained]
    if len(slots) == metadata.num_messages_in_batch:
        written = [
            slot if slot.batch_index in retained else slot._replace(metadata=PLACEHOLDER, body=b"") for slot in slots
        ]
    else:
        written = kept
    payload = join_batch(written)
    renewed = MessageMetadata()
    renewed.CopyFrom(metadata)
    renewed.compacted_batch_indexes[:] = [slot.batch_index for slot in kept]
    renewed.uncompressed_size = len(payload)
    headers = encode_entry(renewed, compress(metadata.compression, payload))
    return entry[: frame.broker_end] + headers if frame.broker_start >= 0 else headers
