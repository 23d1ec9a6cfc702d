"""Indexes and positions as parallel columns: the only form in which many of them are passed.

An index is (deliver_at_ms, ledger_id, entry_id). Columns are one-dimensional ``int64`` arrays of equal length; entry
ids fit 32 bits because snapshot bitmaps do (PIP-195, RoaringBitmap). The core never writes to columns that it is given.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delayed_tracker.core.kernels.compiled import delivery_order
from delayed_tracker.core.values.errors import OFFSETS_REPORTED_MAX, InvalidInput

Int64Array = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

ENTRY_ID_MAX: Final = 2**32 - 1
INT63_MAX: Final = 2**63 - 1


class Position(NamedTuple):
    """Place of one entry: ledger, then entry; in the order of the topic. Entry -1 is "before the first entry"."""

    ledger_id: int
    entry_id: int

    def __str__(self) -> str:
        return f"{self.ledger_id}:{self.entry_id}"


BEFORE_ALL: Final = Position(-1, -1)
"""A mark-delete position below every entry: nothing is acknowledged."""


def before(position: Position) -> Position:
    """Return the cursor position after which the next entry of the ledger is this one."""
    return Position(position.ledger_id, position.entry_id - 1)


def require_cursor_position(field: str, position: Position) -> None:
    """Raise InvalidInput, naming the field, for a ledger below 0 or an entry below -1."""
    if position.ledger_id < 0 or position.entry_id < -1:
        raise InvalidInput(field, str(position), "give a ledger from 0 and an entry from -1")


def _frozen(values: Int64Array) -> Int64Array:
    view = values.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True, slots=True)
class PositionColumns:
    """Positions as two parallel columns, in the order the caller gave them."""

    ledger_id: Int64Array
    entry_id: Int64Array

    def __len__(self) -> int:
        return len(self.ledger_id)

    def __iter__(self) -> Iterator[Position]:
        """Yield position by position: for tests and printing, never on a hot path."""
        for ledger_id, entry_id in zip(self.ledger_id.tolist(), self.entry_id.tolist(), strict=True):
            yield Position(ledger_id, entry_id)

    def take(self, where: NDArray[np.intp] | BoolArray | slice) -> "PositionColumns":
        """Return the rows selected by a mask, an index array or a slice."""
        return PositionColumns(self.ledger_id[where], self.entry_id[where])

    def ascend(self) -> bool:
        """Return True if each row lies strictly above its predecessor."""
        ledger, entry = self.ledger_id, self.entry_id
        if len(ledger) < 2:  # as most adds are, and numpy has a fixed cost
            return True
        step = ledger[1:] - ledger[:-1]
        return bool(((step > 0) | ((step == 0) & (entry[1:] > entry[:-1]))).all())

    def at_or_below(self, position: Position) -> BoolArray:
        """Return a mask of the rows at or below a position."""
        ledger, entry = position
        if not len(self) or ledger < int(self.ledger_id.min()):
            return np.zeros(len(self), np.bool_)
        through: BoolArray = (self.ledger_id < ledger) | ((self.ledger_id == ledger) & (self.entry_id <= entry))
        return through

    def repeats(self) -> BoolArray:
        """Return a mask of the rows whose position is also in an earlier row."""
        repeated = np.zeros(len(self), np.bool_)
        if self.ascend():
            return repeated
        order = np.lexsort((self.entry_id, self.ledger_id))  # stable: equal positions keep their order
        ledger, entry = self.ledger_id[order], self.entry_id[order]
        repeated[order[1:]] = (ledger[1:] == ledger[:-1]) & (entry[1:] == entry[:-1])
        return repeated

    def first_rows(self) -> NDArray[np.intp]:
        """Return for each row the first row that has its position."""
        order = np.lexsort((self.entry_id, self.ledger_id))  # stable: the first row comes first
        ledger, entry = self.ledger_id[order], self.entry_id[order]
        begins = np.ones(len(order), np.bool_)
        begins[1:] = (ledger[1:] != ledger[:-1]) | (entry[1:] != entry[:-1])
        first = np.empty(len(order), np.intp)
        first[order] = order[begins][np.cumsum(begins) - 1]
        return first

    @classmethod
    def concat(cls, parts: Sequence["PositionColumns"]) -> "PositionColumns":
        """Return all rows of all parts, at least one, in that order; copies unless there is exactly one part."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.ledger_id for part in parts]), np.concatenate([part.entry_id for part in parts])
        )

    @classmethod
    def of(cls, positions: Iterable[tuple[int, int]]) -> "PositionColumns":
        """Return columns of (ledger_id, entry_id) pairs, validated."""
        pairs = list(positions)
        return position_columns([pair[0] for pair in pairs], [pair[1] for pair in pairs])


@dataclass(frozen=True, slots=True)
class IndexColumns:
    """Delayed-message indexes as three parallel columns."""

    deliver_at_ms: Int64Array
    ledger_id: Int64Array
    entry_id: Int64Array

    def __len__(self) -> int:
        return len(self.deliver_at_ms)

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Return an iterator over (deliver_at_ms, ledger_id, entry_id): for tests and printing, never on a hot path."""
        return iter(zip(self.deliver_at_ms.tolist(), self.ledger_id.tolist(), self.entry_id.tolist(), strict=True))

    @property
    def positions(self) -> PositionColumns:
        """The same rows without their deadlines; shares memory."""
        return PositionColumns(self.ledger_id, self.entry_id)

    def take(self, where: NDArray[np.intp] | BoolArray | slice) -> "IndexColumns":
        """Return the rows selected by a mask, an index array or a slice."""
        return IndexColumns(self.deliver_at_ms[where], self.ledger_id[where], self.entry_id[where])

    def sorted(self) -> "IndexColumns":
        """Return the rows in delivery order: (deliver_at_ms, ledger_id, entry_id) ascending. O(n)."""
        columns = (self.deliver_at_ms, self.ledger_id, self.entry_id)
        return self.take(delivery_order(*map(np.ascontiguousarray, columns)))

    def ascend(self) -> bool:
        """Return True if the rows are already in delivery order, repeats allowed. O(n)."""
        deadline, ledger, entry = self.deliver_at_ms, self.ledger_id, self.entry_id
        entries: BoolArray = entry[1:] >= entry[:-1]
        ledgers: BoolArray = (ledger[1:] > ledger[:-1]) | ((ledger[1:] == ledger[:-1]) & entries)
        return bool(((deadline[1:] > deadline[:-1]) | ((deadline[1:] == deadline[:-1]) & ledgers)).all())

    def copy(self) -> "IndexColumns":
        """Return the same rows in memory of their own: a slice would keep the whole array that it was cut from."""
        return IndexColumns(self.deliver_at_ms.copy(), self.ledger_id.copy(), self.entry_id.copy())

    def repeat_predecessors(self) -> BoolArray:
        """Return a mask of the rows that equal the row before; in sorted rows these are all repeats."""
        repeated = np.zeros(len(self), np.bool_)
        repeated[1:] = (
            (self.deliver_at_ms[1:] == self.deliver_at_ms[:-1])
            & (self.ledger_id[1:] == self.ledger_id[:-1])
            & (self.entry_id[1:] == self.entry_id[:-1])
        )
        return repeated

    @classmethod
    def empty(cls) -> "IndexColumns":
        """Return columns without rows."""
        none = np.empty(0, np.int64)
        return cls(none, none, none)

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, int]]) -> "IndexColumns":
        """Return columns of (deliver_at_ms, ledger_id, entry_id) rows, validated."""
        table = list(rows)
        return index_columns([r[0] for r in table], [r[1] for r in table], [r[2] for r in table])

    @classmethod
    def concat(cls, parts: Sequence["IndexColumns"]) -> "IndexColumns":
        """Return all rows of all parts, in that order; copies unless there is exactly one part."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty()
        return cls(
            np.concatenate([part.deliver_at_ms for part in parts]),
            np.concatenate([part.ledger_id for part in parts]),
            np.concatenate([part.entry_id for part in parts]),
        )


def _column(field: str, values: ArrayLike, maximum: int) -> Int64Array:
    try:
        raw = np.asarray(values)
        if raw.size == 0:
            raw = raw.astype(np.int64)
        elif raw.dtype.kind == "f" and not isinstance(values, np.ndarray):
            # numpy makes floats of integers that have no 64-bit type in common, such as 1 and 2^64-1.
            raw = np.asarray(values, object)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(field, type(values).__name__, "give a flat sequence of integers") from error
    if raw.ndim != 1:
        raise InvalidInput(field, f"{raw.ndim} dimensions", "give a flat sequence of integers")
    if raw.dtype.kind not in "iu":
        # Python integers beyond 64 bits arrive as objects: report them by offset like any other bad value.
        if raw.dtype.kind == "O" and all(isinstance(value, int) for value in raw):
            bad = np.flatnonzero([not 0 <= value <= maximum for value in raw])
        else:
            raise InvalidInput(field, str(raw.dtype), "give integers")
    elif raw.dtype.kind == "u":
        bad = np.flatnonzero(raw > maximum)
    else:
        bad = np.flatnonzero((raw < 0) | (raw > maximum))
    if len(bad):
        raise InvalidInput(
            field,
            int(raw[bad[0]]),
            f"give integers from 0 to {maximum}",
            offsets=[int(offset) for offset in bad[:OFFSETS_REPORTED_MAX]],
            offset_count=len(bad),
        )
    return _frozen(raw.astype(np.int64, copy=False))


def _require_equal_lengths(columns: dict[str, Int64Array]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise InvalidInput(next(iter(columns)), given, "give columns of equal length")


def index_columns(deliver_at_ms: ArrayLike, ledger_id: ArrayLike, entry_id: ArrayLike) -> IndexColumns:
    """Return three columns, checked, as one value.

    Args:
        deliver_at_ms: wall-clock deadlines in milliseconds, 0 to 2^63-1.
        ledger_id: 0 to 2^63-1.
        entry_id: 0 to 2^32-1.
    Returns: read-only ``int64`` columns; shares memory with int64 input.
    Raises:
        InvalidInput: unequal lengths, or values out of range (by column and offset); nothing was applied.
    Cost: O(n).
    """
    columns = {
        "deliver_at_ms": _column("deliver_at_ms", deliver_at_ms, INT63_MAX),
        "ledger_id": _column("ledger_id", ledger_id, INT63_MAX),
        "entry_id": _column("entry_id", entry_id, ENTRY_ID_MAX),
    }
    _require_equal_lengths(columns)
    return IndexColumns(**columns)


def position_columns(ledger_id: ArrayLike, entry_id: ArrayLike) -> PositionColumns:
    """Return two columns, checked, as one value; ranges, errors and cost as for :func:`index_columns`."""
    columns = {
        "ledger_id": _column("ledger_id", ledger_id, INT63_MAX),
        "entry_id": _column("entry_id", entry_id, ENTRY_ID_MAX),
    }
    _require_equal_lengths(columns)
    return PositionColumns(**columns)
