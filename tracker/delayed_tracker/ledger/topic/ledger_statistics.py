"""Counts the entries and messages of a ledger."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.entry.entry_columns import EntryColumns, EntryFlag, scan_entries
from delayed_tracker.ledger.topic.topic_log import Ledger


@dataclass(slots=True)
class LedgerStatistics:
    """Counts over the entries of one ledger. Times are milliseconds since 1970-01-01 UTC."""

    ledger_id: int
    entry_count: int
    """Entries that should be there. The other counts cover only entries that could be read."""
    payload_bytes: int = 0
    message_count: int = 0
    """Messages by the metadata: each message of a batch counts, a chunk counts as one, markers do not count."""
    batch_count: int = 0
    chunk_count: int = 0
    delayed_count: int = 0
    encrypted_count: int = 0
    transaction_count: int = 0
    """Entries written in transactions, committed or not."""
    marker_count: int = 0
    bad_count: int = 0
    """Entries that are missing, damaged, or do not parse."""
    first_written_ms: int | None = None
    """Earliest time of any entry, by the broker's clock, or by the producer's if the entry has no broker time."""
    last_written_ms: int | None = None
    first_index: int | None = None
    """Lowest index that the broker gave to the last message of an entry."""
    last_index: int | None = None

    def add(self, columns: EntryColumns) -> None:
        """Count some entries of the ledger."""
        readable = columns.readable
        self.payload_bytes += columns.stored.payload_bytes
        self.bad_count += len(columns) - int(readable.sum())
        marker = columns.has(EntryFlag.MARKER) & readable
        self.marker_count += int(marker.sum())
        self.message_count += int(columns.num_messages[readable & ~marker].sum())
        self.batch_count += int((columns.has(EntryFlag.BATCH) & readable).sum())
        self.chunk_count += int((columns.has(EntryFlag.CHUNK) & readable).sum())
        self.delayed_count += int((columns.has(EntryFlag.DELAYED) & readable).sum())
        self.encrypted_count += int((columns.has(EntryFlag.ENCRYPTED) & readable).sum())
        self.transaction_count += int((columns.has(EntryFlag.TRANSACTION) & readable & ~marker).sum())
        stamped = columns.has(EntryFlag.BROKER_TIMESTAMP)
        written = np.where(stamped, columns.broker_timestamp_ms, columns.publish_time_ms)[readable]
        self.first_written_ms, self.last_written_ms = _span(self.first_written_ms, self.last_written_ms, written)
        indexes = columns.index[readable & columns.has(EntryFlag.INDEX)]
        self.first_index, self.last_index = _span(self.first_index, self.last_index, indexes)


def _span(lowest: int | None, highest: int | None, values: Int64Array) -> tuple[int | None, int | None]:
    if not len(values):
        return lowest, highest
    low, high = int(values.min()), int(values.max())
    return low if lowest is None else min(lowest, low), high if highest is None else max(highest, high)


def count_ledger(ledger: Ledger, *, seen: Callable[[int], None] | None = None) -> LedgerStatistics:
    """Read a whole ledger of messages and count its contents.

    Args:
        ledger: a ledger of a topic of messages.
        seen: called after each piece with the number of entries processed so far.
    Raises:
        LedgerFileInvalid: the file is not valid, so that nothing can be read from it.
    Cost: O(bytes); memory for one piece.
    """
    content = LedgerStatistics(ledger.ledger_id, ledger.last_entry_id + 1)
    seen_count = 0
    for piece in ledger.scan(0, ledger.last_entry_id):
        missing = sum(bad.entry_count for bad in piece.bad_entries)
        content.bad_count += missing
        content.add(scan_entries(piece.entries))
        seen_count += len(piece.entries) + missing
        if seen is not None:
            seen(seen_count)
    return content
