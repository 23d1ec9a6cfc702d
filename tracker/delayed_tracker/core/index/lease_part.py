"""A part of a lease: rows that were leased together, or joined later, and those of them that are outstanding."""

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns, Int64Array, Position
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_ROW_BYTES = 24
_BITS_BYTES = 2
_END_BYTES = 8
_PART_BYTES = 1_400
"""An entry in both tables, three arrays and the objects around them, without rows and bits."""


class LeasePart:
    """Rows with one lease id; those in ``bits`` are outstanding. All have one expiry, until parts are joined.

    A lease is one such part, until some of its positions are extended.
    """

    __slots__ = ("_bits", "ends_ms", "expires_at_ms", "indexes", "lease_id", "nbytes", "part")

    def __init__(
        self,
        lease_id: int,
        part: int,
        expires_at_ms: int,
        indexes: IndexColumns,
        ends_ms: Int64Array | None = None,
    ) -> None:
        self.lease_id = lease_id
        self.part = part
        """Distinguishes parts that end at the same moment."""
        self.expires_at_ms = expires_at_ms
        """First expiry, in elapsed time, as every time of a lease: a step of the wall clock ends no lease."""
        self.indexes = indexes
        self.ends_ms = ends_ms
        """Expiry of each row, ascending; None if all have the first."""
        # Most leases end whole: the bits are built when a part of the lease is needed.
        self._bits: PositionBitmap | None = None
        row_bytes = _ROW_BYTES + _BITS_BYTES + (0 if ends_ms is None else _END_BYTES)
        self.nbytes = _PART_BYTES + row_bytes * len(indexes)
        """Memory of its rows and bits, in bytes. All of it is freed when the whole part has ended."""

    @classmethod
    def joined(cls, number: int, parts: list["LeasePart"]) -> "LeasePart":
        """Return one part with the outstanding rows of some of one lease, at least one row; each keeps its expiry."""
        rows = IndexColumns.concat([part.outstanding() for part in parts])
        ends_ms = np.concatenate([part.outstanding_ends_ms() for part in parts])
        order = np.argsort(ends_ms, kind="stable")
        return cls(parts[0].lease_id, number, int(ends_ms[order[0]]), rows.take(order), ends_ms[order])

    def __len__(self) -> int:
        """Return the number of positions that are outstanding."""
        return len(self.indexes) if self._bits is None else len(self._bits)

    @property
    def is_whole(self) -> bool:
        """True if every row is certainly still leased."""
        return self._bits is None

    @property
    def bits(self) -> PositionBitmap:
        """Positions that are outstanding; owned by this part."""
        if self._bits is None:
            self._bits = PositionBitmap.of(self.indexes.positions)
        return self._bits

    def outstanding(self) -> IndexColumns:
        """Return the rows that are still leased."""
        if len(self) == len(self.indexes):
            return self.indexes
        return self.indexes.take(self.bits.contains(self.indexes.positions))

    def outstanding_ends_ms(self) -> Int64Array:
        """Return the expiry of each row that is still leased."""
        if self.ends_ms is None:
            return np.full(len(self), self.expires_at_ms, np.int64)
        if len(self) == len(self.indexes):
            return self.ends_ms
        return self.ends_ms[self.bits.contains(self.indexes.positions)]

    def expiry_of(self, position: Position) -> int:
        """Return the expiry of a position that is outstanding."""
        if self.ends_ms is None:
            return self.expires_at_ms
        is_it = (self.indexes.ledger_id == position.ledger_id) & (self.indexes.entry_id == position.entry_id)
        return int(self.ends_ms[is_it][0])

    def release(self, chosen: PositionBitmap) -> IndexColumns:
        """End the lease of the chosen positions that are outstanding; return their rows."""
        rows = self.outstanding()
        released = rows.take(chosen.contains(rows.positions))
        self.bits.subtract(chosen)
        return released

    def end_through(self, elapsed_ms: int) -> tuple[IndexColumns, Int64Array]:
        """End the lease of the rows of a joined part that expire by then; return those outstanding, and their expiries."""
        assert self.ends_ms is not None
        ended = slice(0, int(np.searchsorted(self.ends_ms, elapsed_ms, side="right")))
        rows, ends_ms = self.indexes.take(ended), self.ends_ms[ended]
        held = self.bits.contains(rows.positions)
        rows = rows.take(held)
        self.bits.remove(rows.positions)
        self._drop_rows(ended.stop)
        return rows, ends_ms[held]

    def begin_at_first_outstanding(self) -> None:
        """Drop the rows of a joined part before the first that is outstanding, and expire with that one."""
        assert self.ends_ms is not None
        first = Position(int(self.indexes.ledger_id[0]), int(self.indexes.entry_id[0]))
        if not self.bits.has(first):
            self._drop_rows(int(self.bits.contains(self.indexes.positions).argmax()))
        self.expires_at_ms = int(self.ends_ms[0])

    def _drop_rows(self, count: int) -> None:
        assert self.ends_ms is not None
        self.indexes, self.ends_ms = self.indexes.take(slice(count, None)), self.ends_ms[count:]

    def check(self) -> None:
        """Raise InvariantViolation unless each outstanding position has one row, and rows with an expiry each ascend."""
        self.bits.check()
        if len(self.outstanding()) != len(self.bits):
            raise InvariantViolation(f"lease {self.lease_id} has bits without rows")
        if self.ends_ms is not None and (
            len(self.ends_ms) != len(self.indexes)
            or self.expires_at_ms != self.ends_ms[0]
            or (self.ends_ms[1:] < self.ends_ms[:-1]).any()
        ):
            raise InvariantViolation(f"lease {self.lease_id} has rows whose expiries are out of order")
