"""A set of positions: one 32-bit roaring bitmap of entry ids for each ledger, and the number of positions.

This is the membership of one bucket. The number changes only when a bit changes, and :meth:`check` recomputes it.
"""

# ruff: noqa: SLF001  (sets of one class look into each other)
import struct
from array import array
from collections.abc import Iterator
from typing import Final

import numpy as np
from pyroaring import BitMap

from delayed_tracker.core.kernels.compiled import position_order
from delayed_tracker.core.values.columns import INT63_MAX, BoolArray, Int64Array, Position, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput, InvariantViolation

_HEADER = struct.Struct("<I")
_LEDGER = struct.Struct("<QI")
_PROBES = 8
_FEW = 32  # up to here one step of Python for each entry is faster than a bitmap of them
_LEDGER_BYTES = 190  # a dict slot, a key, a BitMap object and its allocations
_CONTAINER_BYTES = 75  # an entry in the directory, and the overhead of an allocation
_CONTAINER_BITS = 65_536
_LIST_ENTRIES_MAX = 4_096  # of a container that may be a list
_RUN_BYTES = 4
_SPLITS_MAX = 32  # more bits than this removed at once turn a container of runs into another kind


def entry_bitmap(entry_id: Int64Array) -> BitMap:
    """Return a bitmap of a column of entry ids; any order, repeats allowed."""
    values = entry_id.astype(np.uint32)
    if len(values) > _PROBES:
        # Ascending values are inserted five times faster. A few probes detect most cases; a wrong guess costs only
        # time.
        probes = values[:: len(values) // _PROBES].tolist()
        if probes != sorted(probes):
            values.sort()
    # pyroaring reads an array('I') five times faster than an ndarray.
    return BitMap(array("I", values.tobytes()))


def bitmap_entries(bitmap: BitMap) -> Int64Array:
    """Return the entry ids of a bitmap, ascending."""
    return np.frombuffer(bitmap.to_array(), np.uint32).astype(np.int64)


def _compact(bitmap: BitMap) -> BitMap:
    """Return a run-optimised copy whose bytes depend on its entries alone.

    Where a list and runs take the same bytes, CRoaring leaves a container as it is: here it becomes a list.
    """
    compact = bitmap.copy()
    if compact.get_statistics()["n_run_containers"]:
        first, last = compact.min(), compact.max()
        while True:
            start = first - first % _CONTAINER_BITS
            end = start + _CONTAINER_BITS
            if compact.range_cardinality(start, end) <= _LIST_ENTRIES_MAX:
                entries = (bitmap & BitMap(range(start, end))).to_array()
                compact.remove_range(start, end)
                compact |= BitMap(entries)
            if end > last:
                break
            first = compact.next_set_bit(end)
    compact.run_optimize()
    return compact


def by_ledger(ledger_id: Int64Array) -> Iterator[tuple[int, slice | Int64Array]]:
    """Yield each distinct ledger with its row numbers; one slice if there is only one ledger."""
    if not len(ledger_id):
        return
    first = ledger_id[0]
    if ledger_id[-1] == first and (ledger_id == first).all():
        yield int(first), slice(0, len(ledger_id))
        return
    order = np.argsort(ledger_id, kind="stable")
    starts = _starts(ledger_id[order])
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        rows = order[start:end]
        yield int(ledger_id[rows[0]]), rows


def _starts(ledger_id: Int64Array) -> list[int]:
    """Return the row where each ledger of a sorted, non-empty column begins. ``np.diff`` takes four times as long."""
    return [0, *(np.flatnonzero(ledger_id[1:] != ledger_id[:-1]) + 1).tolist()]


def entries_by_ledger(positions: PositionColumns) -> Iterator[tuple[int, BitMap]]:
    """Yield each distinct ledger with a bitmap of its entries; any order, repeats allowed. O(n)."""
    ledger, entry = positions.ledger_id, positions.entry_id
    if not len(ledger):
        return
    if ledger[0] == ledger[-1] and (ledger == ledger[0]).all():
        yield int(ledger[0]), entry_bitmap(entry)
        return
    order = position_order(np.ascontiguousarray(ledger), np.ascontiguousarray(entry))
    ledgers, entries = ledger[order], entry[order].astype(np.uint32)
    starts = _starts(ledgers)
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(ledgers[start]), BitMap(array("I", entries[start:end].tobytes()))


# Shared by empty sets, of which an idle tracker has three: the first ledger replaces it.
_NO_LEDGERS: Final[dict[int, BitMap]] = {}


class PositionBitmap:
    """Mutable set of positions. One owner; not thread-safe, reads included."""

    __slots__ = ("_by_ledger", "_count", "_lent")

    def __init__(self) -> None:
        self._by_ledger = _NO_LEDGERS
        self._count = 0
        self._lent: dict[int, BitMap] | None = None
        """The directory that :meth:`lend` shared: neither it nor a bitmap in it is changed."""

    def __len__(self) -> int:
        """Return the number of positions. O(1)."""
        return self._count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositionBitmap) and self._by_ledger == other._by_ledger

    __hash__ = None  # type: ignore[assignment]  # mutable

    @classmethod
    def of(cls, positions: PositionColumns) -> "PositionBitmap":
        """Return the set of the given positions."""
        bits = cls()
        bits.add(positions)
        return bits

    @classmethod
    def from_bitmaps(cls, by_ledger: dict[int, BitMap]) -> "PositionBitmap":
        """Take over bitmaps by ledger; empty ones are dropped."""
        bits = cls()
        bits._by_ledger = {ledger: bitmap for ledger, bitmap in by_ledger.items() if bitmap}
        bits._count = sum(len(bitmap) for bitmap in bits._by_ledger.values())
        return bits

    def bitmaps(self) -> Iterator[tuple[int, BitMap]]:
        """Yield (ledger id, bitmap), ascending by ledger; the bitmaps still belong to this set."""
        for ledger in sorted(self._by_ledger):
            yield ledger, self._by_ledger[ledger]

    def bitmap_of(self, ledger_id: int) -> BitMap | None:
        """Return the bitmap of one ledger, which still belongs to this set, or None. O(1)."""
        return self._by_ledger.get(ledger_id)

    def ledgers(self) -> list[int]:
        """Return the ledgers with at least one position, in no order."""
        return list(self._by_ledger)

    @property
    def ledger_count(self) -> int:
        """Number of ledgers with a position. O(1)."""
        return len(self._by_ledger)

    def has(self, position: Position) -> bool:
        """Return True if the position is in the set. O(1)."""
        bitmap = self._by_ledger.get(position.ledger_id)
        return bitmap is not None and position.entry_id in bitmap

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return a mask of the positions that are in the set. O(n), and a bitmap intersection for each ledger."""
        found = np.zeros(len(positions), np.bool_)
        if not self._count:
            return found
        for ledger, rows in by_ledger(positions.ledger_id):
            bitmap = self._by_ledger.get(ledger)
            if bitmap is None:
                continue
            entries = positions.entry_id[rows]
            if len(entries) <= _FEW:
                found[rows] = [entry in bitmap for entry in entries.tolist()]
                continue
            wanted = entry_bitmap(entries)
            hits = wanted & bitmap
            if len(hits) == len(wanted):
                found[rows] = True
            elif hits:
                present = bitmap_entries(hits)
                slots = np.minimum(np.searchsorted(present, entries), len(present) - 1)
                found[rows] = present[slots] == entries
        return found

    def add(self, positions: PositionColumns) -> int:
        """Add positions; those already present change nothing. Return the number of new ones."""
        before = self._count
        for ledger, entries in entries_by_ledger(positions):
            bitmap = self._writable(ledger)
            if bitmap is None:
                self._by_ledger[ledger] = entries
                self._count += len(entries)
                continue
            size = len(bitmap)
            bitmap |= entries
            self._count += len(bitmap) - size
        return self._count - before

    def add_above(self, ledger_id: int, entry_id: Int64Array) -> None:
        """Add entries of one ledger that ascend and lie above all its entries in this set."""
        first, last = int(entry_id[0]), int(entry_id[-1])
        bitmap = self._writable(ledger_id)
        if bitmap is None:
            bitmap = self._by_ledger[ledger_id] = BitMap()
        assert not bitmap or bitmap.max() < first
        if last - first == len(entry_id) - 1:
            bitmap.add_range(first, last + 1)
        else:
            bitmap |= BitMap(array("I", entry_id.astype(np.uint32).tobytes()))
        self._count += len(entry_id)

    def last_entry(self, ledger_id: int) -> int:
        """Return the highest entry of a ledger, -1 if it has none in this set. O(1)."""
        bitmap = self._by_ledger.get(ledger_id)
        return -1 if bitmap is None else bitmap.max()

    def remove_entries(self, ledger_id: int, entries: BitMap) -> int:
        """Remove entries of one ledger; absent ones change nothing. Return the number of entries removed."""
        if ledger_id not in self._by_ledger:
            return 0
        bitmap = self._writable(ledger_id)
        assert bitmap is not None
        before, size = self._count, len(bitmap)
        bitmap -= entries
        self._settle(ledger_id, size)
        return before - self._count

    def remove(self, positions: PositionColumns) -> int:
        """Remove positions; absent ones change nothing. Return the number of positions removed."""
        before = self._count
        for ledger, rows in by_ledger(positions.ledger_id):
            bitmap = self._writable(ledger)
            if bitmap is None:
                continue
            size = len(bitmap)
            entries = positions.entry_id[rows]
            if len(entries) <= _FEW:
                for entry in entries.tolist():
                    bitmap.discard(entry)
            else:
                bitmap -= entry_bitmap(entries)
            self._settle(ledger, size)
        return before - self._count

    def remove_through(self, position: Position) -> int:
        """Remove all positions at or below ``position``. Return the number of positions removed. O(ledgers)."""
        before = self._count
        bitmap = self._writable(position.ledger_id)
        for ledger in [ledger for ledger in self._by_ledger if ledger < position.ledger_id]:
            self._count -= len(self._by_ledger.pop(ledger))
        if bitmap is not None and position.entry_id >= 0:
            size = len(bitmap)
            bitmap.remove_range(0, min(position.entry_id, 2**32 - 1) + 1)
            self._settle(position.ledger_id, size)
        return before - self._count

    def update(self, other: "PositionBitmap") -> int:
        """Add all positions of another set. Return the number of new ones."""
        before = self._count
        for ledger, theirs in other._by_ledger.items():
            ours = self._writable(ledger)
            if ours is None:
                self._by_ledger[ledger] = theirs.copy()
                self._count += len(theirs)
            else:
                size = len(ours)
                ours |= theirs
                self._count += len(ours) - size
        return self._count - before

    def subtract(self, other: "PositionBitmap") -> int:
        """Remove all positions of another set. Return the number of positions removed."""
        before = self._count
        for ledger in [ledger for ledger in self._by_ledger if ledger in other._by_ledger]:
            bitmap = self._writable(ledger)
            assert bitmap is not None
            size = len(bitmap)
            bitmap -= other._by_ledger[ledger]
            self._settle(ledger, size)
        return before - self._count

    def intersection_count(self, other: "PositionBitmap") -> int:
        """Return the number of positions that both sets hold. O(ledgers of the set that has fewer)."""
        few, many = sorted((self._by_ledger, other._by_ledger), key=len)
        return sum(bitmap.intersection_cardinality(many[ledger]) for ledger, bitmap in few.items() if ledger in many)

    def lend(self) -> "PositionBitmap":
        """Return the same set for reading until :meth:`end_loan`; later changes of this set do not affect it. O(1).

        The bitmaps are shared. The first change of a bitmap copies it, and the first change of any copies the directory
        of ledgers. The set that was lent must not be changed.
        """
        lent = PositionBitmap()
        lent._by_ledger = self._lent = self._by_ledger
        lent._count = self._count
        return lent

    def end_loan(self) -> None:
        """End the loan: nothing reads what was lent, and changes are made in place again.

        O(1). Without a loan nothing happens.
        """
        self._lent = None

    def _writable(self, ledger: int) -> BitMap | None:
        """Return the bitmap of a ledger, or None, after copying it and the directory if they are lent."""
        lent = self._lent
        if self._by_ledger is lent or not self._by_ledger:
            self._by_ledger = self._by_ledger.copy()
        bitmap = self._by_ledger.get(ledger)
        if lent is not None and bitmap is not None and bitmap is lent.get(ledger):
            bitmap = self._by_ledger[ledger] = bitmap.copy()
        return bitmap

    def _settle(self, ledger: int, size_before: int) -> None:
        bitmap = self._by_ledger[ledger]
        size = len(bitmap)
        self._count -= size_before - size
        if not size:
            del self._by_ledger[ledger]
        elif size_before.bit_length() > size.bit_length():
            # CRoaring keeps the room of what was removed. Given back whenever a ledger has halved, it is at most twice of
            # what the entries take, and a ledger remembers nothing for that.
            bitmap.shrink_to_fit()

    def clear(self) -> int:
        """Remove all positions. Return the number of positions removed."""
        count, self._count = self._count, 0
        self._by_ledger = _NO_LEDGERS
        return count

    def copy(self) -> "PositionBitmap":
        """Return an independent copy. O(bitmap bytes)."""
        twin = PositionBitmap()
        twin._by_ledger = {ledger: bitmap.copy() for ledger, bitmap in self._by_ledger.items()}
        twin._count = self._count
        return twin

    def first(self) -> Position | None:
        """Return the lowest position, or None. O(ledgers)."""
        if not self._by_ledger:
            return None
        ledger = min(self._by_ledger)
        return Position(ledger, self._by_ledger[ledger].min())

    def last(self) -> Position | None:
        """Return the highest position, or None. O(ledgers)."""
        if not self._by_ledger:
            return None
        ledger = max(self._by_ledger)
        return Position(ledger, self._by_ledger[ledger].max())

    def to_columns(self) -> PositionColumns:
        """Return all positions, ascending."""
        ledgers, entries = [], []
        for ledger, bitmap in self.bitmaps():
            entries.append(bitmap_entries(bitmap))
            ledgers.append(np.full(len(bitmap), ledger, np.int64))
        none = np.empty(0, np.int64)
        return PositionColumns(np.concatenate(ledgers or [none]), np.concatenate(entries or [none]))

    def run_optimize(self) -> None:
        """Re-encode runs of entries compactly, in place; the set stays the same. It must not be lent."""
        assert self._lent is None
        for bitmap in self._by_ledger.values():
            bitmap.run_optimize()

    def serialize(self) -> bytes:
        """Return bytes that :meth:`deserialize` reads; equal sets have equal bytes, however they came about.

        u32 ledger count, then per ledger ascending u64 ledger id, u32 length, RoaringBitmap portable bytes (run
        optimised); all little-endian.
        """
        parts = [_HEADER.pack(len(self._by_ledger))]
        for ledger, bitmap in self.bitmaps():
            encoded = _compact(bitmap).serialize()
            parts += (_LEDGER.pack(ledger, len(encoded)), encoded)
        return b"".join(parts)

    @classmethod
    def deserialize(cls, stored: bytes) -> "PositionBitmap":
        """Return the set that :meth:`serialize` wrote; empty bytes are the empty set.

        Raises:
            InvalidInput: the bytes are cut short, too long, or hold an invalid bitmap.
        """
        by_ledger: dict[int, BitMap] = {}
        if not stored:
            return cls()
        try:
            (ledger_count,) = _HEADER.unpack_from(stored, 0)
            offset = _HEADER.size
            previous = -1
            for _ in range(ledger_count):
                ledger, size = _LEDGER.unpack_from(stored, offset)
                if not previous < ledger <= INT63_MAX:
                    raise InvalidInput(
                        "position bitmap", f"ledger {ledger}", f"give ledgers from 0 to {INT63_MAX}, ascending"
                    )
                previous = ledger
                offset += _LEDGER.size
                if not size or offset + size > len(stored):  # given no bytes, pyroaring reads one and raises IndexError
                    raise InvalidInput("position bitmap", f"{len(stored)} bytes", "the bytes are cut short")
                bitmap = BitMap.deserialize(stored[offset : offset + size])
                offset += size
                by_ledger[ledger] = bitmap
        except (struct.error, ValueError) as error:
            raise InvalidInput("position bitmap", f"{len(stored)} bytes", "the bytes are not a bitmap") from error
        if offset != len(stored):
            raise InvalidInput("position bitmap", f"{len(stored)} bytes", f"only {offset} of them belong to it")
        return cls.from_bitmaps(by_ledger)

    @property
    def nbytes(self) -> int:
        """Memory of all bitmaps in bytes, within some 10 % (measured as resident memory). O(ledgers)."""
        total = _LEDGER_BYTES * len(self._by_ledger)
        for bitmap in self._by_ledger.values():
            containers = bitmap.get_statistics()
            total += _CONTAINER_BYTES * containers["n_containers"]
            total += containers["n_bytes_array_containers"]
            total += containers["n_bytes_run_containers"]
            total += containers["n_bytes_bitset_containers"]
        return total

    @property
    def estimated_nbytes(self) -> int:
        """Estimate of :attr:`nbytes` from sizes alone, O(1): two bytes for each position, as in sparse containers."""
        return 2 * self._count + (_LEDGER_BYTES + _CONTAINER_BYTES) * len(self._by_ledger)

    def nbytes_since(self, ledger_bytes: float, ledger_positions: float) -> int:
        """Return an estimate of :attr:`nbytes` after some bits were removed since its measurement. O(1).

        The measured memory stays until twice of what is left takes less. Runs take more: removing a few bits from inside a
        run makes more runs, removing many turns them into an array or a bitset.

        Args:
            ledger_bytes: average memory of a ledger at the measurement, in bytes.
            ledger_positions: average number of positions of a ledger at the measurement.
        """
        ledgers = len(self._by_ledger)
        containers = ledgers * (1 + int(ledger_positions) // _CONTAINER_BITS)
        measured = int(ledger_bytes * ledgers)
        gone = max(0, int(ledger_positions * ledgers) - self._count)
        if gone <= _SPLITS_MAX * containers:
            return measured + _RUN_BYTES * gone
        overhead = _LEDGER_BYTES * ledgers + _CONTAINER_BYTES * containers
        with_lists = max(measured, overhead + min(2 * self._count, containers * _CONTAINER_BITS // 8))
        # An entry of a list has two bytes, and a list at most twice the room that its entries take.
        return min(with_lists, overhead + 4 * self._count)

    def check(self) -> None:
        """Raise InvariantViolation unless the size is the number of bits and no bitmap is empty."""
        actual = sum(len(bitmap) for bitmap in self._by_ledger.values())
        if actual != self._count:
            raise InvariantViolation(f"a position set counts {self._count} but holds {actual} bits")
        if any(not bitmap for bitmap in self._by_ledger.values()):
            raise InvariantViolation("a position set keeps an empty bitmap")
