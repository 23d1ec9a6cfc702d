"""Ledgers to read: the same delayed messages in entry logs, in tiered storage, and as a local ledger."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import UUID

import numpy as np

from delayed_tracker.bookkeeper.wire.digest import DigestType, encode_body
from delayed_tracker.ledger.bookkeeper.entry_log_ledger import EntryLogLedger
from delayed_tracker.ledger.bookkeeper.entry_logs import EntryLogs
from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.local.importing import import_topic
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.metadata.ledger_metadata import LedgerState
from delayed_tracker.ledger.offload.blob_source import BlobLedgerStore
from delayed_tracker.ledger.offload.blob_store import open_blob_store
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.topic.topic_log import Ledger, TopicLog
from delayed_tracker.ledger.topic.topic_reader import LedgerSpan
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata
from tests.benchmarks.inputs.shapes import NOW_MS
from tests.ledger.harness.log_files import header, record
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.sequence_files import MapFileWriter

TOPIC = TopicName.parse("persistent://lab/main/orders")
_LEDGER_ENTRIES = 50_000
_PAYLOAD = b'{"order":"%016x","customer":"%016x","amount":"%09d","currency":"EUR","state":"created","items":[%d]}  '
"""128 bytes; they deflate to a third of that if many are deflated together."""
_OFFLOADED_ID = 7
_OFFLOADED_AS = UUID("2c4a22d4-580e-475d-8292-2a705a9bc71d")
_SYNC_BYTES = 100_000
"""Distance between sync marks in Hadoop."""
_BLOCK_BYTES = 1_000_000
"""Size of Hadoop's blocks before deflating."""


def entries(count: int, deliver_at_ms: Sequence[int | None] | None = None) -> Iterator[bytes]:
    """Yield payloads of entries as a broker stores them; the n-th has index n.

    Args:
        count: number of entries.
        deliver_at_ms: deadline of each, None is not delayed; if omitted, all are delayed, the n-th by 7n milliseconds.
    """
    random = np.random.default_rng(1).integers(0, 1 << 63, (count, 2)).tolist()
    for number, (order, customer) in enumerate(random):
        payload = _PAYLOAD % (order, customer, order % 1_000_000, customer % 9)
        metadata = MessageMetadata(
            producer_name="producer-1",
            sequence_id=number,
            publish_time=NOW_MS + number,
            deliver_at_time=NOW_MS + 8 * number if deliver_at_ms is None else deliver_at_ms[number],
            partition_key=f"key-{number % 1000}",
            uncompressed_size=len(payload),
        )
        metadata.properties.add(key="tenant", value=f"t{number % 100}")
        stamp = BrokerEntryMetadata(broker_timestamp=NOW_MS + number, index=number)
        yield encode_entry(metadata, payload, broker_metadata=stamp)


def write_log(path: Path, payloads: Sequence[bytes]) -> dict[int, int]:
    """Write one entry log; return the number of entries of each ledger."""
    ledgers: dict[int, int] = {}
    with path.open("wb") as log:
        log.write(header())
        for number, entry in enumerate(payloads):
            ledger_id, entry_id = 1 + number // _LEDGER_ENTRIES, number % _LEDGER_ENTRIES
            ledgers[ledger_id] = entry_id + 1
            log.write(record(encode_body(ledger_id, entry_id, entry, last_add_confirmed=entry_id - 1, length=0)))
    return ledgers


def logged_topic(logs: EntryLogs, ledgers: Mapping[int, int]) -> TopicLog:
    """Return the topic of :func:`write_log`."""
    digest = LedgerDigest((DigestType.CRC32C,))
    spans = [
        LedgerSpan(ledger_id, count - 1, end_known=True, state=LedgerState.CLOSED, digest=digest)
        for ledger_id, count in ledgers.items()
    ]
    return TopicLog(TOPIC, tuple(EntryLogLedger(span, logs, None) for span in spans))


def copied_locally(log: TopicLog, directory: Path) -> TopicLog:
    """Return the same topic as local ledgers."""
    import_topic(log, directory, now_ms=NOW_MS)
    with open_local_ledgers(directory) as source:
        return source.topic_log(str(TOPIC))


def write_blob(directory: Path, payloads: Sequence[bytes]) -> Path:
    """Write one ledger in blocks of 64 MB."""
    return BlobWriter(payloads).save(directory, _OFFLOADED_AS, _OFFLOADED_ID)


def open_blob(directory: Path) -> Ledger:
    """Open the ledger of :func:`write_blob`."""
    store = BlobLedgerStore(open_blob_store(str(directory)))
    return store.open(TOPIC, _OFFLOADED_ID, [_OFFLOADED_AS], entry_count=None)


def map_file(payloads: Sequence[bytes], compression: Compression) -> MapFileWriter:
    """Return one ledger, with the distance of sync marks or blocks that Hadoop uses."""
    distance = _BLOCK_BYTES if compression is Compression.BLOCK else _SYNC_BYTES
    return MapFileWriter(payloads, compression, sync_every=max(1, distance // len(payloads[0])))
