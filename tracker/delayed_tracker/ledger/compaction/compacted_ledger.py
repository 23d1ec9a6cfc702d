"""Reading a compacted ledger by the positions that its entries had in the topic."""

from collections.abc import Iterator

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.compaction.compacted_entry import unwrap_compacted
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry, EntriesUnreadable
from delayed_tracker.ledger.topic.places import placed, unreadable_entry
from delayed_tracker.ledger.topic.topic_log import Ledger


def scan_compacted(ledger: Ledger, start: Position | None = None) -> Iterator[LedgerEntries]:
    """The entries from a position of the topic on (None is the beginning), at their original positions.

    Raises:
        EntriesUnreadable: an entry that must be looked at to find the first one is missing or damaged.
    Cost: O(log entries) reads of one entry, then as :meth:`Ledger.scan`.
    """
    first = 0 if start is None else first_at_or_after(ledger, start)
    for piece in ledger.scan(first, ledger.last_entry_id):
        yield unwrapped(ledger, piece)


def unwrapped(ledger: Ledger, read: LedgerEntries) -> LedgerEntries:
    """What was read of a compacted ledger, as :func:`~.compacted_entry.unwrap_compacted`; bad entries with their places."""
    entries = unwrap_compacted(read)
    return LedgerEntries(entries.entries, tuple(placed(ledger, bad) for bad in entries.bad_entries))


def read_one(ledger: Ledger, entry_id: int) -> StoredEntries:
    """One entry, by its place in the compacted ledger; one row, at its original position.

    Raises:
        EntriesUnreadable: the entry is missing or not in the compacted form.
    """
    read = unwrapped(ledger, ledger.read(entry_id, entry_id))
    if read.bad_entries:
        raise EntriesUnreadable(read.bad_entries)
    return read.entries


def first_at_or_after(ledger: Ledger, position: Position) -> int:
    """The place of the first entry that was at a position of the topic or behind it; one above the last when none was.

    Raises:
        EntriesUnreadable: an entry that must be looked at is missing or damaged.
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
    """An entry that a compacted ledger handed on as whole, and that is not: named by its position in the topic.

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
    """Where an entry of a position of the topic lies; None where other damage hides that."""
    try:
        entry_id = first_at_or_after(ledger, position)
        found = entry_id <= ledger.last_entry_id and next(iter(read_one(ledger, entry_id).positions)) == position
    except EntriesUnreadable:
        return None
    return entry_id if found else None
