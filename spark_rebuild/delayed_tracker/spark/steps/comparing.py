"""Comparison of the pending messages of the ledgers with a live index: missing, extra and different positions.

Messages that are due when the index was read are left out on both sides, because they are being delivered. Messages too
recent to fill a bucket are never missing, because they may not have been offered yet. Messages above what was read of the
ledgers are never extra, because they may have been published meanwhile. All subscriptions are compared at once, by the
number that each has in the job.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import (
    ENTRY_ID_MAX,
    INT63_MAX,
    BoolArray,
    IndexColumns,
    Int64Array,
    Position,
    PositionColumns,
)
from delayed_tracker.core.values.position_bitmap import PositionBitmap

LISTED_MAX: Final = 10_000
"""Largest number of positions of one kind that are listed for a subscription; all are counted."""
_ABSENT: Final = -1
"""Deadline of a position that a side does not have."""


class Finding(IntEnum):
    """A kind of position, as it is counted; a position may be of several kinds."""

    EXPECTED = 0
    """Pending and not due according to the ledgers."""
    FOUND = 1
    """In the index, and not due."""
    MISSING = 2
    EXTRA = 3
    DIFFERING = 4
    TOO_RECENT = 5
    """In the ledgers alone, and in no bucket yet."""
    NEWER = 6
    """In the index alone, and above what was read of the ledgers."""


LISTED: Final = (Finding.MISSING, Finding.EXTRA, Finding.DIFFERING)


@dataclass(frozen=True, slots=True)
class DeadlineMismatch:
    """Position with one deadline in the ledgers and another in the index."""

    position: Position
    ledger_ms: int
    index_ms: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Comparison of one subscription."""

    topic: str
    subscription: str
    expected: int
    """Positions that are pending and not due according to the ledgers, those too recent for a bucket included."""
    found: int
    """Positions in the index that are not due."""
    missing: int
    extra: int
    differing: int
    too_recent: int
    """Positions of the ledgers that the index lacks and that fill no bucket yet: the dispatcher offers them again."""
    newer: int
    """Positions of the index above what was read of the ledgers, such as messages published meanwhile."""
    replay_from: Position | None
    """Position from which the dispatcher offers again when it opens the tracker; None if all is in buckets."""
    missing_positions: tuple[Position, ...]
    extra_positions: tuple[Position, ...]
    differing_positions: tuple[DeadlineMismatch, ...]

    @property
    def is_equal(self) -> bool:
        """True if nothing is missing, extra or different."""
        return not (self.missing or self.extra or self.differing)

    @property
    def compared(self) -> int:
        """Positions that both the ledgers and the index have."""
        return self.expected - self.missing - self.too_recent


@dataclass(frozen=True, slots=True)
class NotCompared:
    """Subscription whose index cannot be read."""

    topic: str
    subscription: str
    expected: int
    """Expected positions, as in a comparison."""
    reason: str
    """Stable reason, as in errors."""
    message: str


@dataclass(frozen=True, slots=True)
class NumberedIndexes:
    """Indexes, each with the number of its subscription."""

    subscriber: Int64Array
    indexes: IndexColumns

    def __len__(self) -> int:
        return len(self.subscriber)

    @classmethod
    def concat(cls, parts: Sequence["NumberedIndexes"]) -> "NumberedIndexes":
        """Return all rows of all parts, in that order."""
        subscribers = [part.subscriber for part in parts]
        return cls(
            np.concatenate([np.empty(0, np.int64), *subscribers]),
            IndexColumns.concat([part.indexes for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class ComparisonRules:
    """Facts that a comparison needs of each subscription."""

    cutoff_ms: int
    """Deadlines at or before it are due, on both sides."""
    is_compared: BoolArray
    """False for subscriptions whose index could not be read."""
    tails: PositionColumns
    """For each subscription: positions from here on are never missing. ``ABOVE_ALL`` applies no such limit."""
    ends: PositionColumns
    """For each subscription, the position behind the last entry that was read: from here on, none is extra."""
    unread: Mapping[int, PositionBitmap]
    """By number, where there are any: positions that the ledgers may have but that cannot be read are never extra."""


ABOVE_ALL: Final = Position(INT63_MAX, ENTRY_ID_MAX + 1)
"""Above every position."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Positions of both sides, each once, ascending by subscription and position."""

    subscriber: Int64Array
    positions: PositionColumns
    ledger_ms: Int64Array
    """Deadline in the ledgers, -1 if they lack the position."""
    index_ms: Int64Array
    """Deadline in the index, -1 if it lacks the position."""
    findings: Mapping[Finding, BoolArray]

    def counts(self, subscriber_count: int) -> Int64Array:
        """Return the positions of each kind and subscription, as [finding, subscriber]."""
        return np.array(
            [np.bincount(self.subscriber[self.findings[one]], minlength=subscriber_count) for one in Finding], np.int64
        )

    def listed(self, finding: Finding, listed_max: int = LISTED_MAX) -> NDArray[np.intp]:
        """Return the first rows of a kind, at most ``listed_max`` for each subscription."""
        rows = np.flatnonzero(self.findings[finding])
        subscriber = self.subscriber[rows]
        before = np.arange(len(rows)) - np.searchsorted(subscriber, subscriber, side="left")
        return rows[before < listed_max]


def compare(expected: NumberedIndexes, found: NumberedIndexes, rules: ComparisonRules) -> Compared:
    """Compare all subscriptions.

    Args:
        expected: pending indexes of the ledgers; in any order, of repeats the earliest deadline counts. Those that are
            due are left out.
        found: indexes of the live index, in the same way.
        rules: of all subscriptions.
    Cost: O(n log n).
    """
    ours, theirs = _to_compare(expected, rules), _to_compare(found, rules)
    both = NumberedIndexes.concat([ours, theirs])
    deadline, ledger, entry = both.indexes.deliver_at_ms, both.indexes.ledger_id, both.indexes.entry_id
    order = np.lexsort((deadline, entry, ledger, both.subscriber))
    subscriber, ledger, entry = both.subscriber[order], ledger[order], entry[order]
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (np.diff(subscriber) != 0) | (np.diff(ledger) != 0) | (np.diff(entry) != 0)
    position = np.cumsum(begins) - 1
    is_ours = order < len(ours)
    ledger_ms = _earliest(position[is_ours], deadline[order[is_ours]], int(begins.sum()))
    index_ms = _earliest(position[~is_ours], deadline[order[~is_ours]], int(begins.sum()))
    subscriber, positions = subscriber[begins], PositionColumns(ledger[begins], entry[begins])

    here, there = ledger_ms != _ABSENT, index_ms != _ABSENT
    lacking = here & ~there
    recent = lacking & _at_or_above(positions, rules.tails.take(subscriber))
    unknown = there & ~here
    newer = unknown & _at_or_above(positions, rules.ends.take(subscriber))
    return Compared(
        subscriber,
        positions,
        ledger_ms,
        index_ms,
        {
            Finding.EXPECTED: here,
            Finding.FOUND: there,
            Finding.MISSING: lacking & ~recent,
            Finding.EXTRA: _without_unread(unknown & ~newer, subscriber, positions, rules.unread),
            Finding.DIFFERING: here & there & (ledger_ms != index_ms),
            Finding.TOO_RECENT: recent,
            Finding.NEWER: newer,
        },
    )


def _to_compare(rows: NumberedIndexes, rules: ComparisonRules) -> NumberedIndexes:
    which = rules.is_compared[rows.subscriber] & (rows.indexes.deliver_at_ms > rules.cutoff_ms)
    return rows if which.all() else NumberedIndexes(rows.subscriber[which], rows.indexes.take(which))


def _earliest(position: Int64Array, deadline: Int64Array, count: int) -> Int64Array:
    """Return the first deadline of each of ``count`` positions; both columns ascend by position, then deadline."""
    earliest = np.full(count, _ABSENT, np.int64)
    earliest[position[::-1]] = deadline[::-1]  # the last assignment wins
    return earliest


def _at_or_above(positions: PositionColumns, limits: PositionColumns) -> BoolArray:
    above: BoolArray = (positions.ledger_id > limits.ledger_id) | (
        (positions.ledger_id == limits.ledger_id) & (positions.entry_id >= limits.entry_id)
    )
    return above


def _without_unread(
    extra: BoolArray, subscriber: Int64Array, positions: PositionColumns, unread: Mapping[int, PositionBitmap]
) -> BoolArray:
    for number, rows in _rows_of(subscriber, unread):
        extra[rows] &= ~unread[number].contains(positions.take(rows))
    return extra


def _rows_of(subscriber: Int64Array, numbers: Mapping[int, PositionBitmap]) -> Iterator[tuple[int, slice]]:
    """Yield the rows of each of some subscriptions that has any; the rows ascend by subscription."""
    for number in numbers:
        first, end = np.searchsorted(subscriber, [number, number + 1]).tolist()
        if first < end:
            yield number, slice(first, end)
