"""Rows of entries as the walkers of stored files find them, and what is made of the gaps between them.

A walker yields, in file order, rows of consecutive entries and, where it met something that it could not use, the
damage. It need not say which entries the damage has hit: those are the ones that then do not follow.
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
        """The last entry; one less than the first when there are none."""
        return self.first + len(self.start) - 1

    def within(self, first: int, last: int) -> "EntryRows":
        """Those of the rows from entry ``first`` to entry ``last``; shares memory."""
        skipped = min(max(first - self.first, 0), len(self))
        kept = slice(skipped, max(last - self.first + 1, skipped))
        return replace(self, first=self.first + skipped, start=self.start[kept], end=self.end[kept])


class DamageKind(Enum):
    """What a walker found instead of an entry."""

    WRONG = "wrong"
    BLANK = "blank"
    """Padding, or the end of a block or file."""
    SURPLUS = "surplus"
    """An entry behind the one that by the metadata is the ledger's last."""


@dataclass(frozen=True, slots=True)
class Damage:
    """A place of a file that is not as it should be."""

    file: str
    offset: int
    reason: str
    kind: DamageKind = DamageKind.WRONG


def ledger_entries(
    ledger_id: int, found: Iterable[EntryRows | Damage], first: int, last: int, *, file: str
) -> Iterator[LedgerEntries]:
    """What a walker found, as entries ``first`` to ``last`` of a ledger.

    Args:
        ledger_id: whose they are.
        found: in file order; rows outside the range or found before are passed over.
        first: the first entry.
        last: the last one.
        file: where entries should be that nothing is said about.
    Returns: for each row group one piece, and one for what is missing at the end. An entry without a row is bad, for
        the reason of the damage that was met before the next good one. What lies behind the ledger's last entry is bad,
        too, as the ledger's and with an entry count of 0.
    """
    expected = first
    damage: Damage | None = None
    for part in found:
        if isinstance(part, Damage):
            if part.kind is DamageKind.SURPLUS:
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
    """The rows in file order, with their damage instead of some of them."""
    first = 0
    for row in sorted(bad):
        if row > first:
            yield rows.within(rows.first + first, rows.first + row - 1)
        yield bad[row]
        first = row + 1
    if first < len(rows):
        yield rows.within(rows.first + first, rows.last)


def joined(pieces: Iterable[LedgerEntries]) -> LedgerEntries:
    """Pieces of one ledger as one."""
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
