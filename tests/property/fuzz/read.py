"""Decoders of ledgers: entries, their metadata, offloaded objects."""

from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid
from delayed_tracker.bookkeeper.metadata.ledger_metadata import parse as parse_bookkeeper_metadata
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.compression import Codec, compress, decompress
from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.entry.frame import (
    encode_entry,
    parse_broker_metadata,
    parse_message_metadata,
    split_frame,
)
from delayed_tracker.ledger.entry.stored_entries import StoredEntries
from delayed_tracker.ledger.errors import (
    CompressedDataInvalid,
    FrameInvalid,
    LedgerFileInvalid,
    MetadataInvalid,
    PayloadInvalid,
)
from delayed_tracker.ledger.messages.batch import Slot, join_batch, split_batch
from delayed_tracker.ledger.metadata.managed_ledger import parse_cursor, parse_managed_ledger
from delayed_tracker.ledger.offload.blob_index import parse_index
from delayed_tracker.ledger.offload.ledger_segment import parse_segment, parse_streamed_segment
from delayed_tracker.ledger.source_url import parse_source_url
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo
from tests.golden.pulsar_pack import PACK
from tests.property.fuzz.decoder import Decoder
from tests.property.fuzz.mutator import SIZE_MAX
from tests.property.fuzz.stored import CURSOR_DEPTH, LEDGER_DEPTH, TOPIC_DEPTH, nodes

NAME = "a"
BATCH = MessageMetadata(producer_name="p", sequence_id=3, publish_time=1_700_000_000_000, num_messages_in_batch=3)
PAYLOAD = join_batch([Slot(number, SingleMessageMetadata(payload_size=5), b"body!") for number in range(3)])
PLAIN = b"some text, some text, some text; " * 20


def entries() -> list[bytes]:
    single = MessageMetadata(producer_name="p", sequence_id=3, publish_time=1_700_000_000_000)
    single.deliver_at_time = 1_700_000_060_000
    stamp = BrokerEntryMetadata(broker_timestamp=1_700_000_000_000, index=77)
    return [
        encode_entry(single, b"payload"),
        encode_entry(BATCH, PAYLOAD, broker_metadata=stamp),
        encode_entry(single, b"payload", checksum=False),
    ]


def read_entry(octets: bytes) -> object:
    """Read one entry as the reader of messages does."""
    frame = split_frame(octets)
    parse_broker_metadata(octets, frame)
    metadata = parse_message_metadata(octets, frame)
    payload = octets[frame.metadata_end : frame.end]
    if metadata.compression:
        payload = decompress(metadata.compression, payload, metadata.uncompressed_size, size_max=2**20)
    return split_batch(metadata, payload) if metadata.HasField("num_messages_in_batch") else payload


def scan(octets: bytes) -> object:
    """Read entries as columns; one that is damaged gets a verdict and leads to no error."""
    half = len(octets) // 2
    columns = scan_entries(StoredEntries.of(5, [0, 1, 2], [octets, octets[:half], octets[half:]]))
    return [*columns.unreadable()]


def compressed() -> list[bytes]:
    """Return codec, claimed size and compressed bytes, as the decoder below takes them."""
    return [bytes([codec, *len(PLAIN).to_bytes(3, "big")]) + compress(codec, PLAIN) for codec in Codec]


def decompress_claimed(octets: bytes) -> object:
    return decompress(octets[0] if octets else 9, octets[4:], int.from_bytes(octets[1:4], "big"), size_max=2**20)


def indexes() -> list[bytes]:
    found = [path.read_bytes() for path in sorted((PACK / "offload-blob").glob("*-index"))]
    return [octets for octets in found if len(octets) < SIZE_MAX]


def segments() -> list[bytes]:
    """Return metadata of ledgers without the line and the size in front of it, as offloaders store it."""
    bodies = [octets.partition(b"\n")[2] for octets in nodes("/ledgers/", LEDGER_DEPTH)]
    return [body[2 if body[0] & 0x80 else 1 :] for body in bodies]


def decode_text(octets: bytes) -> str:
    """Return text with half surrogates, which arguments of commands may contain, too."""
    return octets.decode("utf-8", "surrogateescape")


DECODERS = (
    Decoder("entry of a topic", read_entry, (FrameInvalid, PayloadInvalid, CompressedDataInvalid), entries),
    Decoder("columns of entries", scan, (), entries),
    Decoder("batch of messages", lambda octets: split_batch(BATCH, octets), (PayloadInvalid,), lambda: [PAYLOAD]),
    Decoder("compressed data", decompress_claimed, (CompressedDataInvalid,), compressed),
    Decoder("ledgers of a topic", parse_managed_ledger, (MetadataInvalid,), lambda: nodes("/persistent/", TOPIC_DEPTH)),
    Decoder("cursor of a topic", parse_cursor, (MetadataInvalid,), lambda: nodes("/persistent/", CURSOR_DEPTH)),
    Decoder("metadata of a ledger", lambda octets: parse_bookkeeper_metadata(5, octets), (LedgerMetadataInvalid,), (
        lambda: nodes("/ledgers/", LEDGER_DEPTH)
    )),
    Decoder("index of an offloaded ledger", lambda octets: parse_index(octets, where=NAME, data_key=NAME), (
        LedgerFileInvalid,
    ), indexes),
    Decoder("segment of an offloaded ledger", lambda octets: parse_segment(octets, NAME), (LedgerFileInvalid,), segments),
    Decoder("streamed segment", lambda octets: parse_streamed_segment(octets, NAME), (LedgerFileInvalid,), lambda: [
        ManagedLedgerInfo.LedgerInfo(ledger_id=4, entries=3, size=9, timestamp=8).SerializeToString()
    ]),
    Decoder("name of a topic", lambda octets: TopicName.parse(decode_text(octets)), (InvalidInput,), lambda: [
        b"persistent://public/default/orders", b"public/default/a%2Fb-partition-3", "persistent://t/n/\u00fc".encode()
    ]),
    Decoder("URL of a source", lambda octets: parse_source_url(decode_text(octets)), (InvalidInput,), lambda: [
        b"bookie:/a,/b?metadata=/c", b"local:/data?x=%20", b"pulsar://localhost:2181/ledgers?tlsCa=/ca"
    ]),
)  # fmt: skip
