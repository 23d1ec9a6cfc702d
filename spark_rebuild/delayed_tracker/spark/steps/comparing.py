"""Comparing what ledgers say is still to be delivered with an index that is in use: what is missing, extra, different.

What is due by now is left out on both sides: it is on its way. What is too recent to fill a bucket is missed nowhere, for
it may wait to be offered.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap

LISTED_MAX: Final = 10_000
"""Positions of one kind that are listed; all are counted."""


class LiveIndex(Protocol):
    """An index in use."""

    def read(self, topic: str, subscription: str) -> IndexColumns:
        """All that one subscription is still to get, in any order; a tracker that is not there has nothing.

        Raises:
            IndexNotReadable: of this subscription; others may be readable.
        """


@dataclass(frozen=True, slots=True)
class Moved:
    """A position with one deadline in the ledgers and another in the index."""

    position: Position
    ledger_ms: int
    index_ms: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """One subscription."""

    topic: str
    subscription: str
    expected: int
    """Positions that the ledgers say are pending and not due, those too recent for a bucket included."""
    found: int
    """Positions in the index that are not due."""
    missing: int
    extra: int
    differing: int
    too_recent: int
    """Positions of the ledgers that the index lacks and that fill no bucket yet: the dispatcher offers them again."""
    replay_from: Position | None
    """The position from which it offers, when it opens the tracker; None if all is in buckets."""
    missing_positions: tuple[Position, ...]
    extra_positions: tuple[Position, ...]
    differing_positions: tuple[Moved, ...]

    @property
    def is_equal(self) -> bool:
        """Whether nothing is missing, extra or different."""
        return not (self.missing or self.extra or self.differing)

    @property
    def compared(self) -> int:
        """Positions that both the ledgers and the index have."""
        return self.expected - self.missing - self.too_recent


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A subscription whose index cannot be read."""

    topic: str
    subscription: str
    expected: int
    """As in a comparison."""
    reason: str
    """A stable word, as errors have it."""
    message: str


def positions_of(indexes: IndexColumns) -> int:
    """Count the positions of indexes, repeats once."""
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
        expected: what the ledgers say, without what is due; any order, repeats have one deadline.
        found: what the index has; any order.
        tail_first: from this position on nothing is missed; None misses everything.
        cutoff_ms: deadlines at or before it are due.
        replay_from: the position from which a dispatcher offers again what is in no bucket, for the answer.
        unread: what the ledgers may have there, and nobody can read: it is not extra.
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
        differing_positions=tuple(Moved(*row) for row in moved),
    )


def _one_each(indexes: IndexColumns) -> IndexColumns:
    """In the order of positions, each once: with the earliest of its deadlines."""
    order = np.lexsort((indexes.deliver_at_ms, indexes.entry_id, indexes.ledger_id))
    ordered = indexes.take(order)
    repeats = np.zeros(len(ordered), np.bool_)
    repeats[1:] = (np.diff(ordered.ledger_id) == 0) & (np.diff(ordered.entry_id) == 0)
    return ordered.take(~repeats)


def _keys(first: IndexColumns, second: IndexColumns) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A number for each position of both: entry ids have 32 bits, and ledgers are numbered to fit above them."""
    _, number = np.unique(np.concatenate([first.ledger_id, second.ledger_id]), return_inverse=True)
    keys = (number.astype(np.int64) << 32) | np.concatenate([first.entry_id, second.entry_id])
    return keys[: len(first)], keys[len(first) :]


def _before(position: Position) -> Position:
    return Position(position.ledger_id, position.entry_id - 1)


def _positions(indexes: IndexColumns) -> tuple[Position, ...]:
    ledgers: Sequence[int] = indexes.ledger_id[:LISTED_MAX].tolist()
    entries: Sequence[int] = indexes.entry_id[:LISTED_MAX].tolist()
    return tuple(map(Position, ledgers, entries))
