"""Ledgers for Spark to read: the same entries repeated, in entry logs, as blobs and as MapFiles."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import numpy as np

from delayed_tracker.bookkeeper.wire.digest import encode_body
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.topic_name import TopicName
from tests.benchmarks.inputs.shapes import NOW_MS, SOON_MS, WEEK_MS
from tests.benchmarks.inputs.stored_ledgers import entries, map_file
from tests.ledger.harness.log_files import (
    header,
    ledger_path,
    ledger_value,
    record,
    topic_path,
    topic_value,
    write_dump,
)
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.sequence_files import MapFileWriter

TOPIC = TopicName.parse("persistent://lab/main/orders")
_LOGS = 2


@dataclass(frozen=True, slots=True)
class LedgerStatistics:
    """Content of every ledger."""

    payloads: Sequence[bytes]
    deliver_at_ms: Sequence[int | None]
    """Deadline of each entry; none is due within an hour, all are within a week after that."""

    @property
    def delayed_count(self) -> int:
        """Number of delayed entries."""
        return sum(deadline is not None for deadline in self.deliver_at_ms)

    def totals(self, ledger_count: int, *, delayed_only: bool = False) -> dict[str, int]:
        """Return the totals that a job of :mod:`tests.benchmarks.inputs.spark_probe` must find in the eight columns."""
        step = [
            (entry, deadline)
            for entry, deadline in enumerate(self.deliver_at_ms)
            if deadline is not None or not delayed_only
        ]
        numbers = ledger_count * sum(entry for entry, _ in step)
        return {
            "rows": ledger_count * len(step),
            "ledger_id": len(step) * ledger_count * (ledger_count + 1) // 2,
            "entry_id": numbers,
            "publish_time": numbers,
            "broker_timestamp": numbers,
            "index": numbers,
            "num_messages": ledger_count * len(step),
            "deliver_at_ms": ledger_count * sum(deadline - NOW_MS for _, deadline in step if deadline is not None),
            "delayed": ledger_count * self.delayed_count,
        }


def ledger_content(count: int, *, delayed_every: int) -> LedgerStatistics:
    """Return entries of which one in ``delayed_every`` is delayed, with random deadlines."""
    delays = np.random.default_rng(2).integers(SOON_MS, SOON_MS + WEEK_MS, count).tolist()
    deadlines = [
        NOW_MS + delay if number % delayed_every == delayed_every - 1 else None for number, delay in enumerate(delays)
    ]
    return LedgerStatistics(list(entries(count, deadlines)), deadlines)


def write_logs(directory: Path, content: LedgerStatistics, ledger_count: int) -> str:
    """Write ledgers 1, 2, ... in two entry logs, one after the other; return the URL of the source."""
    count = len(content.payloads)
    values: dict[str, bytes] = {}
    per_log = -(-ledger_count // _LOGS)
    for first in range(1, ledger_count + 1, per_log):
        with (directory / f"{first:x}.log").open("wb") as log:
            log.write(header())
            for ledger_id in range(first, min(first + per_log, ledger_count + 1)):
                for entry, payload in enumerate(content.payloads):
                    log.write(record(encode_body(ledger_id, entry, payload, last_add_confirmed=entry - 1, length=0)))
                values[ledger_path(ledger_id)] = ledger_value(last_entry_id=count - 1)
    counts: Mapping[int, int] = dict.fromkeys(range(1, ledger_count + 1), count)
    values[topic_path(str(TOPIC))] = topic_value(counts)
    dump = write_dump(directory / "dump.jsonl.gz", values)
    return f"bookkeeper+file:{directory}?metadata={dump}"


def write_blobs(directory: Path, content: LedgerStatistics, ledger_count: int) -> str:
    """Write the same ledgers as blobs; return the URL of the source."""
    writer = BlobWriter(content.payloads)
    for ledger_id in range(1, ledger_count + 1):
        writer.save(directory, _uuid(ledger_id), ledger_id)
    return f"offload+blob:{directory}"


def write_map_files(directory: Path, content: LedgerStatistics, ledger_count: int) -> tuple[str, MapFileWriter]:
    """Write the same ledgers as MapFiles of blocks; return the URL of the source, and the writer of each ledger."""
    writer = map_file(content.payloads, Compression.BLOCK)
    for ledger_id in range(1, ledger_count + 1):
        place = directory / TOPIC.managed_ledger / f"{ledger_id}-{_uuid(ledger_id)}"
        place.mkdir(parents=True)
        writer.save(place)
    return f"offload+mapfile:{directory}", writer


def _uuid(ledger_id: int) -> UUID:
    return UUID(int=(1 << 127) + ledger_id)
