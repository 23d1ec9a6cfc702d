"""Topics whose entries are made on reading, so that a million entries take no memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from delayed_tracker.ledger.entry.frame import encode_entry
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.topic_log import TopicLog
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata

TOPIC = "persistent://lab/main/orders"


@dataclass(frozen=True)
class MemoryLedger:
    """Implementation of Ledger; ``make`` returns an entry by its id, or None for a lost one."""

    ledger_id: int
    last_entry_id: int
    make: Callable[[int], bytes | None]
    read_ids: list[int] = field(default_factory=list)
    payload_bytes: int | None = None
    closed: bool = True

    def read(self, first: int, last: int) -> LedgerEntries:
        self.read_ids.extend(range(first, last + 1))
        made = {entry_id: self.make(entry_id) for entry_id in range(first, last + 1)}
        whole = {entry_id: payload for entry_id, payload in made.items() if payload is not None}
        lost = [BadEntry(self.ledger_id, entry_id, None, None, "lost") for entry_id in made if entry_id not in whole]
        return LedgerEntries(StoredEntries.of(self.ledger_id, list(whole), list(whole.values())), tuple(lost))

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        yield self.read(first, last)


def log_of(*ledgers: Sequence[bytes | None], first_ledger_id: int = 3) -> TopicLog:
    """Return a topic with these entries; ledger ids ascend in steps of 2."""
    return TopicLog(
        TopicName.parse(TOPIC),
        tuple(
            MemoryLedger(first_ledger_id + 2 * at, len(payloads) - 1, payloads.__getitem__)
            for at, payloads in enumerate(ledgers)
        ),
    )


def made_log(entry_count: int, ledger_entries: int, make: Callable[[int], bytes]) -> TopicLog:
    """Return a topic with entries made from their numbers, in ledgers of a given size."""
    starts = range(0, entry_count, ledger_entries)
    return TopicLog(
        TopicName.parse(TOPIC),
        tuple(
            MemoryLedger(
                at,
                min(ledger_entries, entry_count - start) - 1,
                lambda entry_id, start=start: make(start + entry_id),
            )
            for at, start in enumerate(starts)
        ),
    )


def entry(
    *,
    publish_ms: int = 0,
    broker_ms: int | None = None,
    index: int | None = None,
    batch: int | None = None,
    marker: bool = False,
    transaction: bool = False,
) -> bytes:
    """Return one entry, with a broker frame if a broker time or an index is given."""
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=publish_ms)
    if batch is not None:
        metadata.num_messages_in_batch = batch
    if marker:
        metadata.marker_type = 21
    if transaction:
        metadata.txnid_most_bits, metadata.txnid_least_bits = 1, 2
    broker = None if broker_ms is None and index is None else BrokerEntryMetadata()
    if broker is not None and broker_ms is not None:
        broker.broker_timestamp = broker_ms
    if broker is not None and index is not None:
        broker.index = index
    return encode_entry(metadata, b"payload", broker_metadata=broker)
