"""Builds entry logs and metadata dumps byte by byte, in the layouts of BookKeeper and Pulsar."""

import base64
import gzip
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from delayed_tracker.bookkeeper.wire.digest import DigestType, encode_body
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.metadata.ledger_metadata import ledger_paths
from delayed_tracker.ledger.topic_name import TopicName, encode_name
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata
from delayed_tracker.pulsar.v1.ledger_metadata_pb2 import LedgerMetadataFormat
from delayed_tracker.pulsar.v1.managed_ledger_pb2 import ManagedLedgerInfo

TOPIC = "persistent://lab/main/orders"


def header(*, version: int = 1, map_offset: int = 0, ledger_count: int = 0) -> bytes:
    return struct.pack(">4siqi", b"BKLO", version, map_offset, ledger_count).ljust(1024, b"\0")


def record(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def ledgers_map(sizes: Mapping[int, int]) -> bytes:
    rows = b"".join(struct.pack(">qq", ledger_id, size) for ledger_id, size in sizes.items())
    return record(struct.pack(">qqi", -1, -2, len(sizes)) + rows)


def direct_header() -> bytes:
    return header() + record(struct.pack(">q", -1).ljust(3068, b"\0"))


def ledger_records(
    ledger_id: int,
    payloads: Sequence[bytes],
    *,
    first: int = 0,
    digest_type: DigestType = DigestType.CRC32C,
    password: bytes = b"",
) -> list[bytes]:
    """Return the records of a ledger whose writer waits for each entry before it sends the next."""
    lengths = [sum(map(len, payloads[: count + 1])) for count in range(len(payloads))]
    return [
        record(
            encode_body(
                ledger_id,
                first + row,
                payload,
                last_add_confirmed=first + row - 1,
                length=lengths[row],
                digest_type=digest_type,
                password=password,
            )
        )
        for row, payload in enumerate(payloads)
    ]


def entry_log(records: Iterable[bytes]) -> bytes:
    return header() + b"".join(records)


def flipped(content: bytes, offset: int, mask: int = 0x10) -> bytes:
    """Return the bytes with some bits of one byte flipped; offset -1 is the last byte."""
    changed = bytearray(content)
    changed[offset] ^= mask
    return bytes(changed)


def message(
    *,
    payload: bytes = b"hello",
    deliver_at_ms: int | None = None,
    batch: int | None = None,
    marker: int | None = None,
    txn: tuple[int, int] | None = None,
    index: int | None = None,
) -> bytes:
    """Return one topic entry."""
    metadata = MessageMetadata(producer_name="p1", sequence_id=7, publish_time=1_700_000_000_000)
    if deliver_at_ms is not None:
        metadata.deliver_at_time = deliver_at_ms
    if batch is not None:
        metadata.num_messages_in_batch = batch
    if marker is not None:
        metadata.marker_type = marker
    if txn is not None:
        metadata.txnid_most_bits, metadata.txnid_least_bits = txn
    broker = None if index is None else BrokerEntryMetadata(broker_timestamp=1_700_000_000_123, index=index)
    return encode_entry(metadata, payload, broker_metadata=broker)


def ledger_value(
    *, last_entry_id: int | None, digest_type: DigestType = DigestType.CRC32C, password: bytes = b"", first: int = 0
) -> bytes:
    """Return BookKeeper's metadata of a ledger; the ledger is open if ``last_entry_id`` is None."""
    parsed = LedgerMetadataFormat(
        quorumSize=1,
        ensembleSize=1,
        length=0,
        lastEntryId=-1 if last_entry_id is None else last_entry_id,
        state=LedgerMetadataFormat.OPEN if last_entry_id is None else LedgerMetadataFormat.CLOSED,
        digestType=int(digest_type),
        password=password,
    )
    parsed.segment.add(ensembleMember=["bk1:3181"], firstEntryId=first)
    body = parsed.SerializeToString()
    size = bytes([len(body) & 0x7F | 0x80, len(body) >> 7]) if len(body) > 0x7F else bytes([len(body)])
    return b"BookieMetadataFormatVersion\t3\n" + size + body


def topic_value(entry_counts: Mapping[int, int | None]) -> bytes:
    """Return a topic's metadata; None stands for a ledger whose end the topic has not recorded."""
    info = ManagedLedgerInfo()
    for ledger_id, entry_count in entry_counts.items():
        ledger = info.ledger_info.add(ledger_id=ledger_id, timestamp=0)
        if entry_count is not None:
            ledger.entries, ledger.size, ledger.timestamp = entry_count, 0, 1_700_000_100_000
    return info.SerializeToString()


def ledger_path(ledger_id: int) -> str:
    return next(ledger_paths(ledger_id))


def topic_path(topic: str = TOPIC) -> str:
    return f"/managed-ledgers/{TopicName.parse(topic).managed_ledger}"


def cursor_path(subscription: str, topic: str = TOPIC) -> str:
    return f"{topic_path(topic)}/{encode_name(subscription)}"


def write_dump(file: Path, values: Mapping[str, bytes]) -> Path:
    lines = [json.dumps({"path": path, "value": base64.b64encode(value).decode()}) for path, value in values.items()]
    content = "\n".join(lines).encode()
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return file
