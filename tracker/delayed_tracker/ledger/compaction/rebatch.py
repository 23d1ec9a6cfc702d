"""Rewrites a batch of which compaction keeps some messages.

All slots stay in place. A dropped message leaves an empty slot that is marked as compacted, for clients without support
for compaction. The entry's metadata lists the kept slots (PIP-429), so that the last one can be found without
decompression.
Source: RawBatchConverter.java (rebatchMessage). The proposal's text drops the empty slots; the released code keeps
them.
"""

from collections.abc import Container, Sequence
from typing import Final

from delayed_tracker.ledger.compression import MESSAGE_BYTES_MAX, compress, decompress
from delayed_tracker.ledger.entry.frame import encode_entry, split_frame
from delayed_tracker.ledger.messages.batch import Slot, join_batch, split_batch
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata, SingleMessageMetadata

PLACEHOLDER: Final = SingleMessageMetadata(payload_size=0, compacted_out=True)


def is_readable_batch(metadata: MessageMetadata) -> bool:
    """Return True if the messages of an entry can be separated without keys."""
    return metadata.HasField("num_messages_in_batch") and not metadata.encryption_keys


def batch_slots(metadata: MessageMetadata, payload: bytes) -> list[Slot]:
    """Return the slots of a readable batch, from its compressed payload.

    Raises:
        PayloadInvalid, CompressedDataInvalid: the payload does not match the metadata, or is larger than any batch.
    """
    return split_batch(metadata, decompressed_batch(metadata, payload))


def decompressed_batch(metadata: MessageMetadata, payload: bytes) -> bytes:
    """Return the payload of a readable batch, decompressed. Raises CompressedDataInvalid: as :func:`batch_slots`."""
    size = metadata.uncompressed_size if metadata.compression else len(payload)
    return decompress(metadata.compression, payload, size, size_max=MESSAGE_BYTES_MAX)


def rebatch(entry: bytes, metadata: MessageMetadata, slots: Sequence[Slot], retained: Container[int]) -> bytes:
    """Return the entry with only the retained messages.

    Args:
        entry: broker frame, headers and payload.
        metadata: the entry's metadata.
        slots: the entry's slots. If an earlier compaction removed dropped slots, they are not added again.
        retained: batch indexes of the messages to keep.
    Returns: the entry with its old broker frame and with a new size, checksum and list of retained slots.
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
