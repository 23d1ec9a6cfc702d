"""What reading stored entries costs: checksums and metadata of each, one after the other, on one core."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from delayed_tracker.pulsar.v1.entry_pb2 import BrokerEntryMetadata, MessageMetadata
from tests.benchmarks.measure import Run
from tests.benchmarks.rows import Row, Unit, per_second
from tests.benchmarks.shapes import NOW_MS
from tests.ledger.log_files import header, record
from tracker.ledger.digest import LedgerDigest, encode_body
from tracker.ledger.entry_columns import scan_entries
from tracker.ledger.entry_logs import open_entry_logs
from tracker.ledger.frame import encode_entry
from tracker.ledger.ledger_metadata import DigestType
from tracker.ledger.stored_entries import LedgerEntries

ABOUT = (
    "Delayed messages with a broker's frame, 211 bytes each. From entry logs: the files are opened and every record "
    "found; BookKeeper's digest and the message's own checksum are computed; all columns are filled in. From memory: the "
    "checksum and the columns. The peer parses from memory, frame, checksum and metadata, whichever row it stands beside. "
    "CPU is for each entry."
)

_LEDGER_ENTRIES = 50_000
_PAYLOAD_BYTES = 128


@dataclass(slots=True)
class _Seen:
    """What came out of a read, for comparison."""

    readable: int = 0
    index_sum: int = 0
    delay_sum: int = 0
    unread: int = 0

    def add(self, read: LedgerEntries) -> None:
        columns = scan_entries(read.entries)
        self.readable += int(columns.readable.sum())
        self.index_sum += int(columns.index.sum())
        self.delay_sum += int((columns.deliver_at_ms - columns.publish_time_ms).sum())
        self.unread += len(read.bad_entries)


def rows(run: Run) -> Iterator[Row]:
    """Entry logs first, then what is in memory."""
    count = run.scale.stored_entries
    run.note(f"writing {count:,} entries")
    directory = run.new_directory()
    ledgers = _write_log(directory / "0.log", count)

    def read_logs(add: Callable[[LedgerEntries], None]) -> None:
        with open_entry_logs([directory]) as logs:
            for ledger_id, entry_count in ledgers.items():
                for piece in logs.scan(ledger_id, 0, entry_count - 1, LedgerDigest((DigestType.CRC32C,))):
                    add(piece)

    yield sequential_row(run, "ledger read", "entry logs: open, find, verify, parse", count, read_logs)

    held: list[LedgerEntries] = []
    read_logs(held.append)

    def parse_held(add: Callable[[LedgerEntries], None]) -> None:
        for piece in held:
            add(piece)

    yield sequential_row(run, "ledger parse", "memory: verify, parse", count, parse_held)


def sequential_row(
    run: Run, key: str, what: str, count: int, read: Callable[[Callable[[LedgerEntries], None]], None]
) -> Row:
    """Every entry of :func:`entries`, read from somewhere: ``read`` calls back with piece after piece."""

    def verify(seen: _Seen) -> bool:
        return seen == _Seen(count, count * (count - 1) // 2, 7 * count * (count - 1) // 2)

    readings = run.measure(what, prepare=_Seen, run=lambda seen: read(seen.add), verify=verify)
    return per_second(key, what, readings, count, unit=Unit.MILLION_ENTRIES_PER_S)


def entries(count: int) -> Iterator[bytes]:
    """Payloads of entries as a broker stores them; the n-th has index n and is delayed by 7n milliseconds."""
    payload = np.random.default_rng(1).bytes(_PAYLOAD_BYTES)
    for number in range(count):
        metadata = MessageMetadata(
            producer_name="producer-1",
            sequence_id=number,
            publish_time=NOW_MS + number,
            deliver_at_time=NOW_MS + 8 * number,
            partition_key=f"key-{number % 1000}",
            uncompressed_size=_PAYLOAD_BYTES,
        )
        metadata.properties.add(key="tenant", value=f"t{number % 100}")
        stamp = BrokerEntryMetadata(broker_timestamp=NOW_MS + number, index=number)
        yield encode_entry(metadata, payload, broker_metadata=stamp)


def _write_log(path: Path, count: int) -> dict[int, int]:
    """Write one log; ledgers and how many entries each has."""
    ledgers: dict[int, int] = {}
    with path.open("wb") as log:
        log.write(header())
        for number, entry in enumerate(entries(count)):
            ledger_id, entry_id = 1 + number // _LEDGER_ENTRIES, number % _LEDGER_ENTRIES
            ledgers[ledger_id] = entry_id + 1
            log.write(record(encode_body(ledger_id, entry_id, entry, last_add_confirmed=entry_id - 1, length=0)))
    return ledgers
