"""Positions of leases that have ended, so that a late ack of them is accepted.

    held ──expires──▶ remembered ──leased again, cancelled, added again, nacked, rescheduled──▶ forgotten
                           └──────10 minutes, or 1 M positions: oldest first──────────────────────▲

A position is remembered for at most one lease: the last that held it. A bitmap contains the remembered positions, so
that adds and polls of other positions need no search. Blocks of rows, sorted by position, store the lease and the time
of its end. Each block is younger than all blocks before it. Adjacent blocks are joined, as in the levels of a
log-structured merge tree, but only up to a size that is sorted in a few milliseconds: no call waits for a million rows.

A bitmap for each lease would be smaller for large leases, but would take 700 bytes a position for leases of one
position.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from delayed_tracker.core.kernels.compiled import position_order
from delayed_tracker.core.values.columns import BoolArray, Int64Array, Position, PositionColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.sorted_positions import SortedPositions

_ROW_BYTES = 24
_BLOCK_ROWS_MAX = 65_536
"""Blocks are joined up to this number of rows. Two neighbours that are larger together stay apart."""
_BLOCKS_MAX = 128
"""Above this number of blocks all adjacent blocks that fit are joined: forgotten rows leave small blocks behind."""
_UNSORTED_MAX = 256
"""Leases that may end before their rows become a block. A block for each small lease would cost 0.1 ms."""
_SLACK = 16
"""Rows that are too old or too many are dropped when they are a 16th of the whole, so that each pass drops enough."""
_FORGOTTEN = 0


class _Block:
    """Rows of ended leases, ascending by position.

    A forgotten row stays, with the lease id ``_FORGOTTEN``, until enough rows are forgotten to copy the rest.
    """

    __slots__ = ("_positions", "ended_ms", "first_ended_ms", "lease_id", "remembered_count")

    def __init__(self, positions: PositionColumns, lease_id: Int64Array, ended_ms: Int64Array) -> None:
        """Take at least one row; the positions ascend."""
        self._positions = SortedPositions(positions)
        self.lease_id = lease_id
        self.ended_ms = ended_ms
        self.first_ended_ms = int(ended_ms.min())
        self.remembered_count = len(lease_id)

    @classmethod
    def joined(cls, parts: Sequence[tuple[PositionColumns, Int64Array, Int64Array]]) -> "_Block":
        """Return a block with the rows of all parts, which may be in any order. O(n)."""
        positions = PositionColumns.concat([part[0] for part in parts])
        order = position_order(*map(np.ascontiguousarray, (positions.ledger_id, positions.entry_id)))
        lease_id, ended_ms = (np.concatenate([part[place] for part in parts])[order] for place in (1, 2))
        return cls(positions.take(order), lease_id, ended_ms)

    def __len__(self) -> int:
        return len(self.lease_id)

    def rows(self, where: BoolArray) -> tuple[PositionColumns, Int64Array, Int64Array]:
        """Return positions, lease ids and end times of the rows selected by a mask."""
        return self._positions.take(where), self.lease_id[where], self.ended_ms[where]

    @property
    def is_remembered(self) -> BoolArray:
        """Mask of the rows that are not forgotten."""
        remembered: BoolArray = self.lease_id != _FORGOTTEN
        return remembered

    def find(self, positions: PositionColumns) -> Int64Array:
        """Return for each position the row that remembers it, or -1. O(m log n)."""
        rows = self._positions.find(positions)
        return np.where(self.lease_id[rows] != _FORGOTTEN, rows, -1)

    def forget(self, rows: Int64Array | BoolArray) -> None:
        """Mark rows as forgotten. O(block)."""
        self.lease_id[rows] = _FORGOTTEN
        self.remembered_count = int(np.count_nonzero(self.lease_id))


class EndedLeases:
    """Positions that ended leases of this epoch handed out, until they are forgotten.

    Args:
        kept_ms: time that a position is remembered after the end of its lease.
        positions_max: maximum of remembered positions; above it the oldest are forgotten first.
    """

    __slots__ = ("_bits", "_blocks", "_kept_ms", "_positions_max", "_unsorted")

    def __init__(self, *, kept_ms: int, positions_max: int) -> None:
        self._kept_ms = kept_ms
        self._positions_max = positions_max
        self.clear()

    def clear(self) -> None:
        """Forget all positions."""
        self._bits = PositionBitmap()
        self._blocks: tuple[_Block, ...] = ()
        # One part for each lease that has ended since the last sort, oldest first.
        self._unsorted: tuple[tuple[PositionColumns, Int64Array, Int64Array], ...] = ()

    def __len__(self) -> int:
        """Return the number of remembered positions, including expired ones that no sweep has dropped. O(1)."""
        return len(self._bits)

    @property
    def nbytes(self) -> int:
        """Approximate memory of rows and bits, in bytes. O(blocks)."""
        if not self._bits:
            return 0
        row_count = sum(map(len, self._blocks)) + sum(len(ended_ms) for _, _, ended_ms in self._unsorted)
        return _ROW_BYTES * row_count + self._bits.estimated_nbytes

    def remember(self, lease_id: int, positions: PositionColumns, ended_ms: int | Int64Array) -> None:
        """Remember the positions that a lease held when it ended.

        Amortised O(n log n); one call sorts a few blocks at most.

        Args:
            lease_id: id of the lease, 1 or more.
            positions: distinct; none of them is remembered.
            ended_ms: in elapsed time, one for all or one for each, ascending; not before that of the previous call.
        """
        count = len(positions)
        if not count:
            return
        self._bits.add(positions)
        part = (positions, np.full(count, lease_id, np.int64), np.full(count, ended_ms, np.int64))
        self._unsorted = (*self._unsorted, part)
        if len(self._unsorted) >= _UNSORTED_MAX or sum(len(part[1]) for part in self._unsorted) >= _BLOCK_ROWS_MAX:
            self._sort()
        if len(self._bits) > self._positions_max:
            self._drop_oldest(len(self._bits) - self._positions_max + self._positions_max // _SLACK)

    def forget(self, positions: PositionColumns) -> None:
        """Forget positions, remembered or not. O(n) for those that are not."""
        if not self._bits:
            return
        remembered = self._bits.contains(positions)
        if not remembered.any():
            return
        for block, rows, _ in self._found(positions, remembered):
            block.forget(rows)
        self._bits.remove(positions.take(remembered))
        self._drop_forgotten()

    def forget_through(self, position: Position) -> None:
        """Forget every position at or below ``position``. O(n), and O(1) if none of them is remembered."""
        first = self._bits.first()
        if first is None or first > position:
            return
        self._sort()
        for block in self._blocks:
            positions, _, _ = block.rows(np.ones(len(block), np.bool_))
            block.forget(positions.at_or_below(position))
        self._bits.remove_through(position)
        self._drop_forgotten()

    def handed_out_by(self, lease_id: int, positions: PositionColumns, elapsed_ms: int) -> BoolArray:
        """Return a mask of the positions that this ended lease was the last to hold and that are remembered.

        O(m log n).
        """
        answer = np.zeros(len(positions), np.bool_)
        for block, rows, asked in self._found(positions, self._bits.contains(positions)):
            is_its = block.lease_id[rows] == lease_id
            answer[asked] = is_its & (block.ended_ms[rows] > elapsed_ms - self._kept_ms)
        return answer

    def _found(self, positions: PositionColumns, among: BoolArray) -> Iterator[tuple[_Block, Int64Array, Int64Array]]:
        """Yield the rows of remembered positions: block by block, with the offsets of their positions."""
        asked = np.flatnonzero(among)
        if len(asked):
            self._sort()
        for block in reversed(self._blocks):  # most late acks come soon after the end of the lease
            if not len(asked):
                return
            rows = block.find(positions.take(asked))
            found = rows >= 0
            if found.any():
                yield block, rows[found], asked[found]
                asked = asked[~found]

    def next_sweep_ms(self) -> int | None:
        """Return the elapsed time at which :meth:`sweep` has something to drop; None if nothing is remembered. O(1)."""
        if self._blocks:
            first_ended_ms = self._blocks[0].first_ended_ms
        elif self._unsorted:
            first_ended_ms = int(self._unsorted[0][2][0])
        else:
            return None
        return first_ended_ms + self._kept_ms + self._kept_ms // _SLACK

    def sweep(self, elapsed_ms: int) -> None:
        """Drop rows that are too old to count. O(1) before :meth:`next_sweep_ms`, else O(rows dropped + a block)."""
        sweep_ms = self.next_sweep_ms()
        if sweep_ms is None or elapsed_ms < sweep_ms:
            return
        self._sort()
        oldest_ms = elapsed_ms - self._kept_ms
        blocks: list[_Block] = []
        for block in self._blocks:
            if block.first_ended_ms > oldest_ms:
                blocks.append(block)
                continue
            is_over = block.ended_ms <= oldest_ms
            self._bits.remove(block.rows(is_over & block.is_remembered)[0])
            keep = ~is_over & block.is_remembered
            if keep.any():
                blocks.append(_Block(*block.rows(keep)))
        self._blocks = tuple(blocks)

    def _drop_oldest(self, drop_count: int) -> None:
        self._sort()
        blocks = list(self._blocks)
        while drop_count:
            block = blocks[0]
            keep = block.is_remembered
            if drop_count < block.remembered_count:
                rows = np.flatnonzero(keep)
                oldest = rows[np.argpartition(block.ended_ms[rows], drop_count)[:drop_count]]
                keep[oldest] = False
                gone = np.zeros(len(block), np.bool_)
                gone[oldest] = True
                blocks[0] = _Block(*block.rows(keep))
            else:
                gone = keep
                del blocks[0]
            self._bits.remove(block.rows(gone)[0])
            drop_count -= int(gone.sum())
        self._blocks = tuple(blocks)

    def _drop_forgotten(self) -> None:
        """Copy the remaining rows of each block that is mostly forgotten."""
        if not self._bits:
            self.clear()
        elif any(2 * block.remembered_count < len(block) for block in self._blocks):
            self._blocks = tuple(
                block if 2 * block.remembered_count >= len(block) else _Block(*block.rows(block.is_remembered))
                for block in self._blocks
                if block.remembered_count
            )

    def _sort(self) -> None:
        """Put the rows of recently ended leases into blocks. O(n), and sometimes the cost of joining blocks."""
        if not self._unsorted:
            return
        blocks = [*self._blocks, _Block.joined(self._unsorted)]
        self._unsorted = ()
        while len(blocks) > 1 and len(blocks[-2]) <= 2 * len(blocks[-1]) and _may_join(*blocks[-2:]):
            blocks[-2:] = [_joined(*blocks[-2:])]
        if len(blocks) > _BLOCKS_MAX:
            joined: list[_Block] = []
            for block in blocks:
                if joined and _may_join(joined[-1], block):
                    joined[-1] = _joined(joined[-1], block)
                else:
                    joined.append(block)
            blocks = joined
        self._blocks = tuple(blocks)

    def check(self, leased: PositionBitmap) -> None:
        """Raise InvariantViolation unless each remembered position has one row, within bounds, and none is leased."""
        self._bits.check()
        parts = [block.rows(block.is_remembered) for block in self._blocks]
        if [len(part[1]) for part in parts] != [block.remembered_count for block in self._blocks]:
            raise InvariantViolation("a block of ended leases counts other rows than it remembers")
        rows = PositionBitmap()
        count = sum(rows.add(part[0]) for part in (*parts, *self._unsorted))
        if count != sum(len(part[1]) for part in (*parts, *self._unsorted)) or rows != self._bits:
            raise InvariantViolation("the remembered positions are not those that have a row, and one only")
        if count > self._positions_max:
            raise InvariantViolation(f"{count} positions of ended leases are remembered, above the limit")
        if leased.intersection_count(self._bits):
            raise InvariantViolation("a leased position is remembered for a lease that has ended")
        if any(2 * block.remembered_count < len(block) for block in self._blocks):
            raise InvariantViolation("a block of ended leases keeps mostly what is forgotten")
        ends = [ended_ms for _, _, ended_ms in (*parts, *self._unsorted)]
        if any(older.max() > younger.min() for older, younger in pairwise(ends)):
            raise InvariantViolation("the rows of ended leases are out of order")
        if any(block.first_ended_ms > block.ended_ms.min() for block in self._blocks):
            raise InvariantViolation("a row of an ended lease would outlive its time")


def _may_join(older: _Block, younger: _Block) -> bool:
    return older.remembered_count + younger.remembered_count <= _BLOCK_ROWS_MAX


def _joined(older: _Block, younger: _Block) -> _Block:
    return _Block.joined([block.rows(block.is_remembered) for block in (older, younger)])
