"""Which of many positions are in a set, whatever their order: the bitmaps of all ledgers as one frozen table.

pyroaring answers for one ledger at a time, and for many entries only by an intersection: a thousand positions out of
twenty ledgers are twenty bitmaps and twenty intersections, whatever is in them. Copied into their portable bytes, which
takes half a microsecond for each, the bitmaps can be read by one kernel: a probe and a bit for each position.
"""

from collections.abc import Iterable
from typing import Self

import numpy as np
from pyroaring import BitMap

from delayed_tracker.core.kernels.compiled import contained, container_table
from delayed_tracker.core.values.columns import BoolArray, PositionColumns


class PositionLookup:
    """An immutable set of positions, as large as the bitmaps it was copied from."""

    __slots__ = ("_octets", "_table", "position_count")

    def __init__(self, bitmaps: dict[int, bytes], position_count: int) -> None:
        """Of so many positions, as portable bytes by ledger. O(bytes)."""
        self._octets = np.frombuffer(b"".join(bitmaps.values()), np.uint8)
        begins = np.cumsum([0, *map(len, bitmaps.values())])[:-1]
        self._table = container_table(self._octets, begins, np.fromiter(bitmaps, np.int64, len(bitmaps)))
        self.position_count = position_count
        """How many positions are in it."""

    @classmethod
    def of(cls, bitmaps: Iterable[tuple[int, BitMap]], *, bytes_max: int) -> Self | None:
        """Copy bitmaps by ledger, none of them twice; None if they are larger than ``bytes_max`` together. O(bytes)."""
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
        """Memory it takes, O(1)."""
        return self._octets.nbytes + self._table.nbytes

    def contains(self, positions: PositionColumns) -> BoolArray:
        """For each position, whether it is in the set. O(n)."""
        return contained(
            self._octets,
            self._table,
            np.ascontiguousarray(positions.ledger_id),
            np.ascontiguousarray(positions.entry_id),
        )
