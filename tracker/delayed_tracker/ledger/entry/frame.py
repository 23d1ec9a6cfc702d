"""The frame of a topic entry: optional broker metadata, optional checksum, message metadata, payload.

    entry    = [ 0x0e02 || size i32 || BrokerEntryMetadata ] headers
    headers  = [ 0x0e01 || crc32c u32 ] || size u32 || MessageMetadata || payload

Numbers are big-endian. The checksum covers everything behind it; no checksum covers the broker metadata. Cursor,
bucket, schema and transaction-log ledgers do not have this frame, although some of their entries start with the same
two bytes: the kind of the ledger decides, never the bytes.

Source: PIP-70; Commands.java (parseMessageMetadata, skipBrokerEntryMetadataIfExist, serializeMetadataAndPayload).
"""

import struct
from typing import Final, NamedTuple

import google_crc32c
from google.protobuf.message import DecodeError

from delayed_tracker.ledger.errors import FrameInvalid
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata

_BROKER_MAGIC: Final = b"\x0e\x02"
_CHECKSUM_MAGIC: Final = b"\x0e\x01"
_I32: Final = struct.Struct(">i")
_U32: Final = struct.Struct(">I")
BROKER_HEADER_BYTES: Final = 6
CHECKSUM_BYTES: Final = 6
METADATA_SIZE_BYTES: Final = 4


class Frame(NamedTuple):
    """Offsets of the parts of one entry in its buffer."""

    broker_start: int
    """Start of BrokerEntryMetadata; -1 if the entry has no broker frame."""
    broker_end: int
    crc: int
    """Stored CRC32C; -1 if the entry has none."""
    checked_start: int
    """Start of the bytes that the checksum covers, which reach to the end."""
    metadata_start: int
    metadata_end: int
    """End of the metadata and start of the payload."""
    end: int


def split_frame(buffer: bytes, start: int = 0, end: int | None = None) -> Frame:
    """Find the parts of one entry without parsing them.

    Args:
        buffer: bytes that contain the entry.
        start: offset of the entry.
        end: end of the entry; None for the end of the buffer.
    Raises:
        FrameInvalid: the entry is shorter than its size fields require.
    """
    stop = len(buffer) if end is None else end
    position = start
    broker_start = broker_end = -1
    if buffer[position : position + 2] == _BROKER_MAGIC:
        broker_start = position + BROKER_HEADER_BYTES
        _require(broker_start <= stop, "the broker frame's size", position, start, stop)
        size = int(_I32.unpack_from(buffer, position + 2)[0])
        broker_end = broker_start + size
        _require(size >= 0 and broker_end <= stop, f"{size} bytes of broker metadata", position, start, stop)
        position = broker_end
    crc = -1
    if buffer[position : position + 2] == _CHECKSUM_MAGIC:
        _require(position + CHECKSUM_BYTES <= stop, "the checksum", position, start, stop)
        crc = int(_U32.unpack_from(buffer, position + 2)[0])
        position += CHECKSUM_BYTES
    metadata_start = position + METADATA_SIZE_BYTES
    _require(metadata_start <= stop, "the metadata's size", position, start, stop)
    size = int(_U32.unpack_from(buffer, position)[0])
    _require(metadata_start + size <= stop, f"{size} bytes of metadata", position, start, stop)
    return Frame(broker_start, broker_end, crc, position, metadata_start, metadata_start + size, stop)


def _require(holds: bool, what: str, at: int, start: int, stop: int) -> None:
    if not holds:
        raise FrameInvalid(f"cut short: {what} at byte {at - start} does not fit an entry of {stop - start} bytes")


def checksum_matches(buffer: bytes, frame: Frame) -> bool:
    """Return True if the computed checksum equals the stored one, or if the entry has none."""
    if frame.crc < 0:
        return True
    return int(google_crc32c.value(buffer[frame.checked_start : frame.end])) == frame.crc


def parse_broker_metadata(buffer: bytes, frame: Frame) -> BrokerEntryMetadata | None:
    """Parse the broker metadata; return None if the entry has none.

    Raises:
        FrameInvalid: the bytes are not a BrokerEntryMetadata.
    """
    if frame.broker_start < 0:
        return None
    try:
        return BrokerEntryMetadata.FromString(buffer[frame.broker_start : frame.broker_end])
    except DecodeError as error:
        raise FrameInvalid(f"broker metadata does not parse: {error}") from error


def parse_message_metadata(buffer: bytes, frame: Frame) -> MessageMetadata:
    """Parse the metadata that the producer wrote.

    Raises:
        FrameInvalid: the bytes are not a MessageMetadata, or a required field is missing.
    """
    try:
        metadata = MessageMetadata.FromString(buffer[frame.metadata_start : frame.metadata_end])
    except DecodeError as error:
        raise FrameInvalid(f"message metadata does not parse: {error}") from error
    if not metadata.IsInitialized():
        raise FrameInvalid("message metadata lacks producer_name, sequence_id or publish_time")
    return metadata


def encode_entry(
    metadata: MessageMetadata,
    payload: bytes,
    *,
    broker_metadata: BrokerEntryMetadata | None = None,
    checksum: bool = True,
) -> bytes:
    """Encode an entry as a broker stores it.

    Args:
        metadata: the producer's metadata of the message.
        payload: payload that is already batched, compressed and encrypted as the metadata describes.
        broker_metadata: None for an entry without a broker frame.
        checksum: False for an entry without a checksum, as producers with old protocols send it.
    """
    header = metadata.SerializeToString()
    checked = _U32.pack(len(header)) + header + payload
    entry = _CHECKSUM_MAGIC + _U32.pack(google_crc32c.value(checked)) + checked if checksum else checked
    if broker_metadata is None:
        return entry
    stamp = broker_metadata.SerializeToString()
    return _BROKER_MAGIC + _I32.pack(len(stamp)) + stamp + entry


def text_of(value: str | bytes) -> str:
    """Return the text of a string field. Protobuf returns bytes for one that is not UTF-8, as its type does not say."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")
