"""Checks that a reader of a damaged ledger returns what was stored, or reports that it cannot be read."""

from collections.abc import Callable, Sequence

from delayed_tracker.ledger.entry.entry_columns import EntryVerdict, scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import LedgerError
from delayed_tracker.ledger.topic.topic_log import Ledger


def assert_right_or_bad(open_ledger: Callable[[], Ledger], payloads: Sequence[bytes], *, checksums: bool) -> int:
    """Read a ledger in every way and check that each entry is right or bad, and that none is left out.

    Args:
        open_ledger: function that opens the ledger; may raise if the ledger cannot be read.
        payloads: the stored entries, as frames with a CRC32C.
        checksums: True if the file has checksums. Without them, an entry with a wrong byte may be returned, and then
            its own CRC32C must be wrong.
    Returns: number of entries that are right.
    """
    try:
        ledger = open_ledger()
        last = ledger.last_entry_id
        ways = [list(ledger.scan(0, last)), [ledger.read(0, last)], [ledger.read(last, last)]]
    except LedgerError:
        return 0
    right = [_count_right(pieces, payloads, checksums=checksums) for pieces in ways]
    assert_all_told(ways[0], 0, last)
    assert_all_told(ways[1], 0, last)
    assert_all_told(ways[2], last, last)
    return right[0]


def _count_right(pieces: Sequence[LedgerEntries], payloads: Sequence[bytes], *, checksums: bool) -> int:
    right = 0
    for piece in pieces:
        stored = piece.entries
        verdicts = scan_entries(stored).verdict.tolist()
        for row, (entry_id, verdict) in enumerate(zip(stored.entry_id.tolist(), verdicts, strict=True)):
            if entry_id < len(payloads) and stored.payload(row) == payloads[entry_id]:
                right += 1
            else:
                assert not checksums, f"entry {entry_id} is not what was stored"
                assert verdict != EntryVerdict.READABLE, f"entry {entry_id} is not what was stored"
    return right


def assert_all_told(pieces: Sequence[LedgerEntries], first: int, last: int) -> None:
    """Check that every entry of a range is a row or bad, exactly once, and that rows ascend."""
    rows = [entry_id for piece in pieces for entry_id in piece.entries.entry_id.tolist()]
    bad = [
        entry_id
        for piece in pieces
        for entry in piece.bad_entries
        if entry.entry_id is not None
        for entry_id in range(entry.entry_id, entry.entry_id + entry.entry_count)
    ]
    assert rows == sorted(rows)
    assert sorted(rows + bad) == list(range(first, last + 1))
