"""Reads a compacted ledger by the positions that its entries had in the topic."""

from collections.abc import Iterator

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction.compacted_entry import unwrap_compacted
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry, EntriesUnreadable
from delayed_tracker.ledger.topic.entry_location import placed, unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger


def scan_compacted(ledger: Ledger, start: Position | None = None) -> Iterator[LedgerEntries]:
    """Yield the entries from a position of the topic on (None is the beginning), at their original positions.

    Raises:
        EntriesUnreadable: an entry that must be read to find the first one is missing or damaged.
    Cost: O(log entries) reads of one entry, then as :meth:`Ledger.scan`.
    """
    first = 0 if start is None else first_at_or_after(ledger, start)
    for piece in ledger.scan(first, ledger.last_entry_id):
        yield unwrapped(ledger, piece)


def unwrapped(ledger: Ledger, read: LedgerEntries) -> LedgerEntries:
    """Unwrap entries as :func:`~.compacted_entry.unwrap_compacted`; add file and offset to bad entries."""
    entries = unwrap_compacted(read)
    return LedgerEntries(entries.entries, tuple(placed(ledger, bad) for bad in entries.bad_entries))


def read_one(ledger: Ledger, entry_id: int) -> StoredEntries:
    """Read one entry by its id in the compacted ledger; return one row, at its original position.

    Raises:
        EntriesUnreadable: the entry is missing or not in the compacted form.
    """
    read = unwrapped(ledger, ledger.read(entry_id, entry_id))
    if read.bad_entries:
        raise EntriesUnreadable(read.bad_entries)
    return read.entries


def first_at_or_after(ledger: Ledger, position: Position) -> int:
    """Return the id of the first entry whose original position is this one or behind it; one above the last if none is.

    Raises:
        EntriesUnreadable: an entry that must be read is missing or damaged.
    Cost: O(log entries) reads of one entry.
    """
    low, high = 0, ledger.last_entry_id + 1
    while low < high:
        middle = (low + high) // 2
        if next(iter(read_one(ledger, middle).positions)) < position:
            low = middle + 1
        else:
            high = middle
    return low


def unreadable_kept(ledger: Ledger, position: Position, reason: str) -> BadEntry:
    """Return the BadEntry, with its position in the topic, for an entry that a compacted ledger returned as good.

    Cost: O(log entries) reads of one entry.
    """
    entry_id = _place_of(ledger, position)
    if entry_id is None:
        return BadEntry(*position, None, None, f"{reason}; it lies in the compacted ledger {ledger.ledger_id}")
    there = unreadable_entry(ledger, entry_id, reason)
    return BadEntry(
        *position, there.file, there.offset, f"{reason}; compaction kept it as {ledger.ledger_id}:{entry_id}"
    )


def _place_of(ledger: Ledger, position: Position) -> int | None:
    """Return the id, in the compacted ledger, of the entry with an original position; None if other damage hides it."""
    try:
        entry_id = first_at_or_after(ledger, position)
        found = entry_id <= ledger.last_entry_id and next(iter(read_one(ledger, entry_id).positions)) == position
    except EntriesUnreadable:
        return None
    return entry_id if found else None
