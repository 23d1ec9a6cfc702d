"""Leases: due positions that a poll returned, until they are acknowledged, given back, or expire.

The bit of a leased position stays set in its bucket. Leases go beyond PIP-195: the answer of a poll crosses a network,
and a lost answer must not lose its messages.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from delayed_tracker.core.index.ended_leases import EndedLeases
from delayed_tracker.core.index.lease_part import LeasePart
from delayed_tracker.core.values.columns import (
    BEFORE_ALL,
    BoolArray,
    IndexColumns,
    Int64Array,
    Position,
    PositionColumns,
)
from delayed_tracker.core.values.errors import InvalidInput, InvariantViolation
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.ordered_map import OrderedMap
from delayed_tracker.core.values.position_bitmap import PositionBitmap

_NOTHING_ENDED: Final = EndedLeases(kept_ms=1, positions_max=1)
"""Shared by all trackers without an expired lease; only read."""


@dataclass(frozen=True, slots=True)
class LeaseAck:
    """Positions of one lease to acknowledge."""

    lease_id: int
    positions: PositionColumns | None
    """None: all positions of the lease, if it still holds ``held_count`` of them."""
    held_count: int = 0


_NO_LEASES: Final[dict[int, list[LeasePart]]] = {}  # shared by idle trackers: the first entry replaces it


class LeaseTable:
    """All leases, by id and by expiry; ``bits`` is the union of their positions."""

    __slots__ = (
        "_bits",
        "_dropped_count",
        "_dropped_through",
        "_ended",
        "_expiries",
        "_last_id",
        "_last_part",
        "_leases",
        "_limits",
        "_parts_bytes",
        "_unlisted",
        "_unlisted_count",
    )

    def __init__(self, limits: TrackerLimits) -> None:
        self._limits = limits
        # Created when the first lease expires: most trackers are idle.
        self._ended: EndedLeases | None = None
        self._leases = _NO_LEASES
        self._expiries: OrderedMap[tuple[int, int], LeasePart] = OrderedMap()
        self._last_id = 0
        self._last_part = 0
        # Dropped positions are removed from a lease when it is read, and from all leases when enough were dropped.
        self._dropped_through = BEFORE_ALL
        self._dropped_count = 0
        self._parts_bytes = 0
        self._bits = PositionBitmap()
        # Leases, by part, that are not yet in the union: most end before it is needed.
        self._unlisted: dict[int, LeasePart] | None = None
        self._unlisted_count = 0

    @property
    def ended(self) -> EndedLeases:
        """Positions that leases held when they expired."""
        return _NOTHING_ENDED if self._ended is None else self._ended

    @property
    def nbytes(self) -> int:
        """Approximate memory of all leases, in bytes.

        O(1), plus adding the leases granted since the last read of ``bits``.
        """
        return self._parts_bytes + self.bits.estimated_nbytes + self.ended.nbytes

    @property
    def listed_nbytes(self) -> int:
        """Like ``nbytes``, but without the bits of leases that are not yet in the union. O(1)."""
        return self._parts_bytes + self._bits.estimated_nbytes + self.ended.nbytes

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def leased_count(self) -> int:
        """Positions leased now. O(1)."""
        return len(self._bits) + self._unlisted_count

    @property
    def defers(self) -> bool:
        """True if some lease has no bits yet."""
        return any(lease.is_whole for lease in self._expiries.values())

    @property
    def bits(self) -> PositionBitmap:
        """Leased positions; owned by this table. O(1), plus adding the leases granted since the last read."""
        self._list_all()
        return self._bits

    def _list_all(self) -> None:
        """Add the leases granted since the last time to the union."""
        if self._unlisted:
            self._bits.add(PositionColumns.concat([lease.indexes.positions for lease in self._unlisted.values()]))
            self._unlisted, self._unlisted_count = None, 0

    @property
    def last_id(self) -> int:
        """Highest id that was issued, by this table or an earlier one."""
        return self._last_id

    def number_after(self, last_id: int) -> None:
        """Treat all ids up to ``last_id`` as issued, by an earlier table of this tracker."""
        self._last_id = max(self._last_id, last_id)

    def grant(self, indexes: IndexColumns, expires_at_ms: int) -> int:
        """Lease rows that are not leased; return the id of the lease, higher than all before."""
        self.ended.forget(indexes.positions)
        self._last_id += 1
        self._begin(self._last_id, indexes.copy(), expires_at_ms)
        return self._last_id

    def _begin(self, lease_id: int, indexes: IndexColumns, expires_at_ms: int) -> None:
        """Begin a part of a lease. It keeps ``indexes``, so they must not be a slice of what was handed out together."""
        self._last_part += 1
        lease = LeasePart(lease_id, self._last_part, expires_at_ms, indexes)
        self._file(lease)
        if self._unlisted is None:
            self._unlisted = {}
        self._unlisted[lease.part] = lease
        self._unlisted_count += len(indexes)

    def _file(self, lease: LeasePart) -> None:
        self._parts_bytes += lease.nbytes
        if not self._leases:
            self._leases = {}
        self._leases.setdefault(lease.lease_id, []).append(lease)
        self._expiries[lease.expires_at_ms, lease.part] = lease

    def end_whole(self, lease_id: int, positions: PositionColumns) -> bool:
        """End a lease if ``positions`` are its positions, in the order of the hand-out.

        Returns: False if they are not; then nothing has changed.
        """
        parts = self._leases.get(lease_id, ())
        if len(parts) != 1 or not parts[0].is_whole:
            return False
        (lease,) = parts
        if (
            not np.array_equal(lease.indexes.entry_id, positions.entry_id)
            or not np.array_equal(lease.indexes.ledger_id, positions.ledger_id)
            or positions.at_or_below(self._dropped_through).any()
        ):
            return False
        self._end_untouched(lease)
        return True

    def _end_untouched(self, lease: LeasePart) -> None:
        if self._unlisted is not None and self._unlisted.pop(lease.part, None) is not None:
            self._unlisted_count -= len(lease.indexes)
        else:
            self._bits.remove(lease.indexes.positions)
        self._end(lease)

    def divide(self, lease_id: int, parts: Sequence[IndexColumns]) -> list[int]:
        """Split a lease that was just granted into one for each part of its rows; return their ids."""
        (lease,) = self._leases[lease_id]
        self._end_untouched(lease)
        self._begin(lease_id, parts[0].copy(), lease.expires_at_ms)
        return [lease_id, *(self.grant(part, lease.expires_at_ms) for part in parts[1:])]

    def require_issued(self, lease_id: int) -> None:
        """Raise InvalidInput for an id that was never issued."""
        if not 1 <= lease_id <= self._last_id:
            raise InvalidInput("lease_id", lease_id, "give the lease id of a poll's answer")

    def held_by(self, lease_id: int, positions: PositionColumns) -> BoolArray:
        """Return a mask of the positions that are outstanding under this lease; an ended lease holds none."""
        held = np.zeros(len(positions), np.bool_)
        for lease in self._leases.get(lease_id, ()):
            lease.bits.remove_through(self._dropped_through)
            held |= lease.bits.contains(positions)
        return held

    def classify(self, lease_id: int, positions: PositionColumns) -> tuple[BoolArray, BoolArray, BoolArray]:
        """Return masks: held by this lease, by another, by none. A repeat of a held position is in none of them.

        Raises: InvalidInput for a lease id never given out.
        """
        self.require_issued(lease_id)
        held = self.held_by(lease_id, positions)
        leased = self.bits.contains(positions)
        return held & ~positions.repeats(), leased & ~held, ~held & ~leased

    def of(self, lease_id: int) -> IndexColumns:
        """Return the rows outstanding under a lease; none if it has ended."""
        self._trim_all()
        return IndexColumns.concat([lease.outstanding() for lease in self._leases.get(lease_id, ())])

    def positions_of(self, ack: LeaseAck) -> PositionColumns | None:
        """Return the positions that an ack names; None if it means a whole lease that holds another number of them."""
        if ack.positions is not None:
            return ack.positions
        positions = self.of(ack.lease_id).positions
        return positions if len(positions) == ack.held_count else None

    def release(self, lease_id: int, positions: PositionColumns) -> IndexColumns:
        """End the lease of positions that it holds; return their rows."""
        chosen = PositionBitmap.of(positions)
        released = []
        for lease in list(self._leases[lease_id]):
            lease.bits.remove_through(self._dropped_through)
            if lease.bits.intersection_count(chosen):
                released.append(lease.release(chosen))
                self._settle(lease)
        self.bits.subtract(chosen)
        return IndexColumns.concat(released)

    def extend(self, lease_id: int, positions: PositionColumns, expires_at_ms: int) -> None:
        """Give positions that a lease holds a new expiry; the others keep theirs. Amortised O(rows of the parts that hold them)."""
        rows = self.release(lease_id, positions)
        self._begin(lease_id, rows, expires_at_ms)
        self._join_small_parts(lease_id)

    def _join_small_parts(self, lease_id: int) -> None:
        """Join small parts of a lease, until each is larger than all smaller ones together.

        Their number stays logarithmic. Positions that are extended one by one would leave a part for each, and every later
        call of the lease visits all its parts.
        """
        parts = sorted(self._leases[lease_id], key=len)
        smaller = join_count = 0
        for number, part in enumerate(parts, 1):
            if len(part) <= smaller:
                join_count = number
            smaller += len(part)
        if not join_count:
            return
        self._list_all()
        self._last_part += 1
        joined = LeasePart.joined(self._last_part, parts[:join_count])
        for part in parts[:join_count]:
            self._end(part)
        self._file(joined)

    def holder(self, position: Position) -> LeasePart | None:
        """Return the lease that holds a position, or None. O(leases)."""
        if not self.bits.has(position):
            return None
        return next(lease for parts in self._leases.values() for lease in parts if lease.bits.has(position))

    def next_expiry_ms(self) -> int | None:
        """Return the elapsed time at which the first lease ends, or None. O(1)."""
        return self._expiries.first()[0][0] if self._expiries else None

    def expire(self, elapsed_ms: int) -> list[IndexColumns]:
        """End every lease that has expired by ``elapsed_ms``; return the rows that were outstanding."""
        returned = []
        while self._expiries and self._expiries.first()[0][0] <= elapsed_ms:
            lease = self._expiries.first()[1]
            lease.bits.remove_through(self._dropped_through)
            if lease.ends_ms is None:
                rows = lease.outstanding()
                self.bits.subtract(lease.bits)
                self._end(lease)
                self._remember(lease.lease_id, rows.positions, lease.expires_at_ms)
            else:
                rows = self._expire_rows(lease, elapsed_ms)
            returned.append(rows)
        return returned

    def _expire_rows(self, lease: LeasePart, elapsed_ms: int) -> IndexColumns:
        """End the first rows of a joined part, the first to expire of all, and return them.

        They are remembered in the order of their ends, so those that expire after another part wait for it.
        """
        del self._expiries[lease.expires_at_ms, lease.part]
        if self._expiries:
            elapsed_ms = min(elapsed_ms, self._expiries.first()[0][0])
        self._expiries[lease.expires_at_ms, lease.part] = lease
        rows, ends_ms = lease.end_through(elapsed_ms)
        self.bits.remove(rows.positions)
        self._settle(lease)
        self._remember(lease.lease_id, rows.positions, ends_ms)
        return rows

    def _remember(self, lease_id: int, positions: PositionColumns, ended_ms: int | Int64Array) -> None:
        if self._ended is None:
            limits = self._limits
            self._ended = EndedLeases(kept_ms=limits.late_ack_ms, positions_max=limits.late_ack_positions_max)
        self._ended.remember(lease_id, positions, ended_ms)

    def release_all(self) -> list[IndexColumns]:
        """End every lease; return the rows that were outstanding."""
        returned = self.outstanding()
        self.clear()
        return returned

    def drop_through(self, position: Position) -> None:
        """Forget leased positions at or below ``position``; they are not leased again before :meth:`clear`. Amortised O(positions)."""
        self.ended.forget_through(position)
        self._dropped_through = max(self._dropped_through, position)
        self._dropped_count += self.bits.remove_through(position)
        if self._dropped_count >= len(self._leases):
            self._trim_all()

    def _trim_all(self) -> None:
        if not self._dropped_count:
            return
        self._dropped_count = 0
        for lease in list(self._expiries.values()):
            lease.bits.remove_through(self._dropped_through)
            self._settle(lease)

    def outstanding(self) -> list[IndexColumns]:
        """Return the rows of every lease that are still leased."""
        self._trim_all()
        return [lease.outstanding() for parts in self._leases.values() for lease in parts]

    def clear(self) -> None:
        """Forget all leases, including ended ones; ids continue to rise."""
        self._ended = None
        self._leases.clear()
        self._expiries.clear()
        self._dropped_through, self._dropped_count = BEFORE_ALL, 0
        self._parts_bytes = 0
        self._bits = PositionBitmap()
        self._unlisted, self._unlisted_count = None, 0

    def _settle(self, lease: LeasePart) -> None:
        """End a part that holds nothing more; let a joined one expire with the first row that is left."""
        if not lease.bits:
            self._end(lease)
        elif lease.ends_ms is not None:
            del self._expiries[lease.expires_at_ms, lease.part]
            lease.begin_at_first_outstanding()
            self._expiries[lease.expires_at_ms, lease.part] = lease

    def _end(self, lease: LeasePart) -> None:
        del self._expiries[lease.expires_at_ms, lease.part]
        self._parts_bytes -= lease.nbytes
        parts = self._leases[lease.lease_id]
        parts.remove(lease)
        if not parts:
            del self._leases[lease.lease_id]

    def check(self) -> None:
        """Raise InvariantViolation unless leases are disjoint, not empty, and found under their expiry."""
        union = PositionBitmap()
        for lease_id, parts in self._leases.items():
            if not parts or not 1 <= lease_id <= self._last_id:
                raise InvariantViolation(f"lease {lease_id} is empty, or has an id that was never given out")
            for lease in parts:
                self._check_part(lease, lease_id)
                bits = lease.bits.copy()
                bits.remove_through(self._dropped_through)
                if not bits and not self._dropped_count:
                    raise InvariantViolation(f"lease {lease_id} holds nothing")
                if union.update(bits) != len(bits):
                    raise InvariantViolation(f"lease {lease_id} holds a position of another lease")
        self.bits.check()
        self.ended.check(self.bits)
        if union != self.bits:
            raise InvariantViolation("the leased positions are not those that the leases hold")
        if len(self._expiries) != sum(map(len, self._leases.values())):
            raise InvariantViolation("an expiry stands for a lease that has ended")
        if self._parts_bytes != sum(lease.nbytes for parts in self._leases.values() for lease in parts):
            raise InvariantViolation(f"{self._parts_bytes} bytes are counted for the leases, they hold others")

    def _check_part(self, lease: LeasePart, lease_id: int) -> None:
        lease.check()
        if lease.lease_id != lease_id or not 1 <= lease.part <= self._last_part:
            raise InvariantViolation(f"a part of lease {lease.lease_id} is filed under {lease_id}")
        if not lease.bits and not self._dropped_count:  # an empty lease is removed when all leases are trimmed
            raise InvariantViolation(f"lease {lease_id} holds nothing")
        if self._expiries.get((lease.expires_at_ms, lease.part)) is not lease:
            raise InvariantViolation(f"lease {lease_id} has lost its expiry: it would never return")
