"""Membership test for many positions in any order: the bitmaps of all ledgers as one frozen table.

pyroaring tests one ledger at a time, and many entries only by an intersection: a thousand positions of twenty ledgers
take twenty bitmaps and twenty intersections, whatever their content. A copy of a bitmap's portable bytes takes half a
microsecond. One kernel then reads the copies: a probe and a bit for each position.
"""

from collections.abc import Iterable
from typing import Self

import numpy as np
from pyroaring import BitMap

from delayed_tracker.core.kernels.compiled import contained, container_table
from delayed_tracker.core.values.columns import BoolArray, PositionColumns


class PositionLookup:
    """Immutable set of positions, as large as the bitmaps it was copied from."""

    __slots__ = ("_octets", "_table", "position_count")

    def __init__(self, bitmaps: dict[int, bytes], position_count: int) -> None:
        """Build the set from portable bytes by ledger, which contain ``position_count`` positions. O(bytes)."""
        self._octets = np.frombuffer(b"".join(bitmaps.values()), np.uint8)
        begins = np.cumsum([0, *map(len, bitmaps.values())])[:-1]
        self._table = container_table(self._octets, begins, np.fromiter(bitmaps, np.int64, len(bitmaps)))
        self.position_count = position_count
        """Positions in the set."""

    @classmethod
    def of(cls, bitmaps: Iterable[tuple[int, BitMap]], *, bytes_max: int) -> Self | None:
        """Copy the bitmaps of distinct ledgers; return None if they exceed ``bytes_max`` together. O(bytes)."""
        copied: dict[int, bytes] = {}
        position_count = 0
        for ledger, bitmap in bitmaps:
            copied[ledger] = bitmap.serialize()
            position_count += len(bitmap)
            bytes_max -= len(copied[ledger])
            if bytes_max < 0:
                return None
        return cls(copied, position_count)

    @property
    def nbytes(self) -> int:
        """Memory of the set, in bytes. O(1)."""
        return self._octets.nbytes + self._table.nbytes

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return a mask of the positions that are in the set. O(n)."""
        return contained(
            self._octets,
            self._table,
            np.ascontiguousarray(positions.ledger_id),
            np.ascontiguousarray(positions.entry_id),
        )
