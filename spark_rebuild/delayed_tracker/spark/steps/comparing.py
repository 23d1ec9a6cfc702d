"""Comparison of the pending messages of the ledgers with a live index: missing, extra and different positions.

Messages that are due now are left out on both sides, because they are being delivered. Messages too recent to fill a
bucket are never missing, because they may not have been offered yet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap

LISTED_MAX: Final = 10_000
"""Largest number of positions of one kind that are listed; all are counted."""


class LiveIndex(Protocol):
    """Index of a tracker that is in use."""

    def read(self, topic: str, subscription: str) -> IndexColumns:
        """Return all pending indexes of one subscription, in any order; none if the tracker does not exist.

        Raises:
            IndexNotReadable: for this subscription; others may be readable.
        """


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


def positions_of(indexes: IndexColumns) -> int:
    """Count the positions of indexes; repeats count once."""
    return len(_one_each(indexes))


def compare(
    topic: str,
    subscription: str,
    expected: IndexColumns,
    found: IndexColumns,
    *,
    tail_first: Position | None,
    cutoff_ms: int,
    replay_from: Position | None = None,
    unread: PositionBitmap | None = None,
) -> Comparison:
    """Compare one subscription.

    Args:
        topic: its name.
        subscription: its name.
        expected: pending indexes of the ledgers that are not due; in any order, repeats have one deadline.
        found: indexes of the live index, in any order.
        tail_first: positions from here on are never missing; None applies no such limit.
        cutoff_ms: deadlines at or before it are due.
        replay_from: position from which the dispatcher offers again what no bucket contains; copied to the result.
        unread: positions that the ledgers may have but that cannot be read; they are never extra.
    Cost: O(n log n).
    """
    expected = _one_each(expected)
    found = _one_each(found.take(found.deliver_at_ms > cutoff_ms))
    here, there = _keys(expected, found)
    both, at_expected, at_found = np.intersect1d(here, there, assume_unique=True, return_indices=True)
    lacking = missing = ~np.isin(here, both, assume_unique=True)
    if tail_first is not None:
        missing = lacking & expected.positions.at_or_below(_before(tail_first))
    extra = ~np.isin(there, both, assume_unique=True)
    if unread is not None:
        extra &= ~unread.contains(found.positions)
    differ = expected.deliver_at_ms[at_expected] != found.deliver_at_ms[at_found]
    ours, theirs = expected.take(at_expected[differ]), found.take(at_found[differ])
    moved = zip(_positions(ours), ours.deliver_at_ms.tolist(), theirs.deliver_at_ms.tolist(), strict=False)
    return Comparison(
        topic=topic,
        subscription=subscription,
        expected=len(expected),
        found=len(found),
        missing=int(missing.sum()),
        extra=int(extra.sum()),
        differing=int(differ.sum()),
        too_recent=int(lacking.sum() - missing.sum()),
        replay_from=replay_from,
        missing_positions=_positions(expected.take(missing)),
        extra_positions=_positions(found.take(extra)),
        differing_positions=tuple(DeadlineMismatch(*row) for row in moved),
    )


def _one_each(indexes: IndexColumns) -> IndexColumns:
    """Return the indexes in the order of positions, each position once with its earliest deadline."""
    order = np.lexsort((indexes.deliver_at_ms, indexes.entry_id, indexes.ledger_id))
    ordered = indexes.take(order)
    repeats = np.zeros(len(ordered), np.bool_)
    repeats[1:] = (np.diff(ordered.ledger_id) == 0) & (np.diff(ordered.entry_id) == 0)
    return ordered.take(~repeats)


def _keys(first: IndexColumns, second: IndexColumns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a unique number for each position of both: entry ids take 32 bits, ledger numbers the bits above."""
    _, number = np.unique(np.concatenate([first.ledger_id, second.ledger_id]), return_inverse=True)
    keys = (number.astype(np.int64) << 32) | np.concatenate([first.entry_id, second.entry_id])
    return keys[: len(first)], keys[len(first) :]


def _before(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id - 1)


def _positions(indexes: IndexColumns) -> tuple[Position, ...]:
    ledgers: Sequence[int] = indexes.ledger_id[:LISTED_MAX].tolist()
    entries: Sequence[int] = indexes.entry_id[:LISTED_MAX].tolist()
    return tuple(map(Position, ledgers, entries))
