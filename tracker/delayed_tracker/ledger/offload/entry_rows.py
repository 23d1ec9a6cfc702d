"""Rows of entries that the walkers of stored files find, and the bad entries for the gaps between them.

A walker yields, in file order, rows of consecutive entries, and the damage that it met in between. It does not have to
identify the entries that the damage has hit: those are the ones that are then missing.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from delayed_tracker.core.values.columns import Int64Array
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import ANOTHER_COPY, BadEntry


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Entries ``first``, ``first + 1``, ...: row i is ``buffer[start[i]:end[i]]``."""

    buffer: bytes
    first: int
    start: Int64Array
    end: Int64Array

    def __len__(self) -> int:
        return len(self.start)

    @property
    def last(self) -> int:
        """Last entry; one less than ``first`` if there are no rows."""
        return self.first + len(self.start) - 1

    def within(self, first: int, last: int) -> "EntryRows":
        """Return the rows from entry ``first`` to entry ``last``; shares memory."""
        skipped = min(max(first - self.first, 0), len(self))
        kept = slice(skipped, max(last - self.first + 1, skipped))
        return replace(self, first=self.first + skipped, start=self.start[kept], end=self.end[kept])


class DamageKind(Enum):
    """Kinds of things that a walker finds instead of an entry."""

    CORRUPT = "wrong"
    PADDING = "blank"
    """Padding, or the end of a block or file."""
    BEYOND_END = "surplus"
    """An entry behind the one that is the ledger's last according to the metadata."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Place in a file with unexpected content."""

    file: str
    offset: int
    reason: str
    kind: DamageKind = DamageKind.CORRUPT


def ledger_entries(
    ledger_id: int, found: Iterable[EntryRows | Damage], first: int, last: int, *, file: str
) -> Iterator[LedgerEntries]:
    """Convert the results of a walker into entries ``first`` to ``last`` of a ledger.

    Args:
        ledger_id: the ledger of the entries.
        found: the results in file order; rows outside the range or found before are skipped.
        first: the first entry.
        last: the last entry.
        file: the file to name for missing entries without known damage.
    Returns: one piece for each group of rows, and one for entries missing at the end. An entry without a row is bad;
        its reason is the first damage met since the previous good entry. Content behind the ledger's last entry is bad,
        too, with no entry id and an entry count of 0.
    """
    expected = first
    damage: Damage | None = None
    for part in found:
        if isinstance(part, Damage):
            if part.kind is DamageKind.BEYOND_END:
                yield LedgerEntries(StoredEntries.of(ledger_id, [], []), (_of_ledger(ledger_id, part),))
            else:
                damage = damage or part
            continue
        rows = part.within(expected, last)
        if len(rows):
            yield LedgerEntries(
                StoredEntries(
                    rows.buffer,
                    np.full(len(rows), ledger_id, np.int64),
                    np.arange(rows.first, rows.last + 1, dtype=np.int64),
                    rows.start,
                    rows.end,
                ),
                _missing(ledger_id, expected, rows.first - 1, damage, file),
            )
            expected, damage = rows.last + 1, None
    if expected <= last:
        yield LedgerEntries(StoredEntries.of(ledger_id, [], []), _missing(ledger_id, expected, last, damage, file))


def without(rows: EntryRows, bad: Mapping[int, Damage]) -> Iterator[EntryRows | Damage]:
    """Yield the rows in file order; the rows in ``bad`` are replaced by their damage."""
    first = 0
    for row in sorted(bad):
        if row > first:
            yield rows.within(rows.first + first, rows.first + row - 1)
        yield bad[row]
        first = row + 1
    if first < len(rows):
        yield rows.within(rows.first + first, rows.last)


def joined(pieces: Iterable[LedgerEntries]) -> LedgerEntries:
    """Join pieces of one ledger into one piece."""
    parts = list(pieces)
    return LedgerEntries(
        StoredEntries.concat([part.entries for part in parts if len(part.entries)]),
        tuple(bad for part in parts for bad in part.bad_entries),
    )


def _of_ledger(ledger_id: int, damage: Damage) -> BadEntry:
    return BadEntry(ledger_id, None, damage.file, damage.offset, damage.reason, entry_count=0, remedy=ANOTHER_COPY)


def _missing(ledger_id: int, first: int, last: int, damage: Damage | None, file: str) -> tuple[BadEntry, ...]:
    if last < first:
        return ()
    if damage is None:
        damage = Damage(file, 0, "the file does not have it")
    count = last - first + 1
    return (
        BadEntry(ledger_id, first, damage.file, damage.offset, damage.reason, entry_count=count, remedy=ANOTHER_COPY),
    )
