"""The messages of one batch: adjacent slots.

    slot = size u32 || SingleMessageMetadata || payload_size bytes

Compaction leaves one of two layouts (PIP-429). Either all slots are present, and dropped ones are empty and marked as
compacted. Or only the retained slots are present, and the entry's metadata lists them. Only the number of slots in the
payload distinguishes the two layouts: it is not stored anywhere else.
Source: Commands.java (deSerializeSingleMessageInBatch), RawBatchConverter.java.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError

from delayed_tracker.ledger.errors import PayloadInvalid
from delayed_tracker.pulsar.v1.entry_pb2 import MessageMetadata, SingleMessageMetadata

SLOTS_MAX: Final = 100_000
"""Most slots of a batch: a hundred times what producers put into one by default (``batchingMaxMessages``). A slot takes
700 bytes of memory, but may take a thousandth of a byte in a compressed payload."""
_U32: Final = struct.Struct(">I")


class Slot(NamedTuple):
    """One message of a batch."""

    batch_index: int
    """Index in the batch as the producer sent it."""
    metadata: SingleMessageMetadata
    body: bytes


def split_batch(metadata: MessageMetadata, payload: bytes) -> list[Slot]:
    """Return the slots of a batch, including compacted slots that are still present.

    Args:
        metadata: the entry's metadata; it contains the number of messages.
        payload: the payload, decrypted and decompressed.
    Returns: the slots, ascending by batch index.
    Raises:
        PayloadInvalid: the slots do not fill the payload, their number differs from the metadata, or it is above
            ``SLOTS_MAX``.
    Cost: O(bytes), whatever number of messages the metadata claims.
    """
    count = metadata.num_messages_in_batch
    slots = list(_slots(payload, count))
    retained = list(metadata.compacted_batch_indexes)
    if len(slots) == count:
        indexes: Iterable[int] = range(count)
    elif retained and len(slots) == len(retained):
        if retained != sorted(set(retained)) or retained[0] < 0 or retained[-1] >= count:
            raise PayloadInvalid(f"retained slots {retained} do not ascend within a batch of {count} messages")
        indexes = retained
    else:
        raise _miscounted(len(slots), count, f" or {len(retained)}" if retained else "")
    return [Slot(index, single, body) for index, (single, body) in zip(indexes, slots, strict=True)]


def last_kept_index(metadata: MessageMetadata, payload: bytes) -> int | None:
    """Return the index of the last slot of a batch that compaction did not drop; None if it dropped all.

    Args:
        metadata: the entry's metadata, without a list of retained slots.
        payload: the payload, decrypted and decompressed.
    Raises: as :func:`split_batch`.
    Cost: O(bytes); holds one slot at a time.
    """
    count, number, last = metadata.num_messages_in_batch, -1, None
    for number, (single, _) in enumerate(_slots(payload, count)):
        if not single.compacted_out:
            last = number
    if number + 1 != count:
        raise _miscounted(number + 1, count)
    return last


def _miscounted(found: int, count: int, or_retained: str = "") -> PayloadInvalid:
    return PayloadInvalid(f"the payload has {found} messages instead of {count}{or_retained}")


def _slots(payload: bytes, count: int) -> Iterator[tuple[SingleMessageMetadata, bytes]]:
    """Yield the slots of a payload, at most ``count``."""
    position = number = 0
    while position < len(payload):
        if number == count:
            raise PayloadInvalid(f"{len(payload) - position} bytes remain after the last of {count} messages")
        if number == SLOTS_MAX:
            raise PayloadInvalid(
                f"the batch has {count} messages, more than the limit of {SLOTS_MAX}; let producers send smaller ones "
                "(batchingMaxMessages)"
            )
        slot, position = _slot(payload, position, number)
        yield slot
        number += 1


def _slot(payload: bytes, position: int, number: int) -> tuple[tuple[SingleMessageMetadata, bytes], int]:
    body_start = position + _U32.size
    if body_start <= len(payload):
        body_start += int(_U32.unpack_from(payload, position)[0])
    if body_start > len(payload):
        raise PayloadInvalid(f"cut short: message {number} at byte {position} of a batch of {len(payload)} bytes")
    try:
        single = SingleMessageMetadata.FromString(payload[position + _U32.size : body_start])
    except DecodeError as error:
        raise PayloadInvalid(f"metadata of message {number} does not parse: {error}") from error
    end = body_start + single.payload_size
    if not single.HasField("payload_size") or not body_start <= end <= len(payload):
        raise PayloadInvalid(
            f"cut short: message {number} at byte {position} claims {single.payload_size} bytes of a batch of {len(payload)}"
        )
    return (single, payload[body_start:end]), end


def join_batch(slots: Iterable[Slot]) -> bytes:
    """Join slots into the payload of a batch, before compression. ``payload_size`` of each slot must be correct."""
    parts: list[bytes] = []
    for slot in slots:
        single = slot.metadata.SerializeToString()
        parts += (_U32.pack(len(single)), single, slot.body)
    return b"".join(parts)
