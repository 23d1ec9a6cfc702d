"""All buckets of a tracker: the tracked positions, and the bucket that has the bit of each."""

from collections.abc import Iterable, Iterator
from typing import Self

import numpy as np
from pyroaring import BitMap

from delayed_tracker.core.index.buckets import Bucket
from delayed_tracker.core.kernels.compiled import contained, container_table
from delayed_tracker.core.values.columns import BEFORE_ALL, BoolArray, Int64Array, Position, PositionColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.ordered_map import OrderedMap
from delayed_tracker.core.values.position_bitmap import PositionBitmap, by_ledger, entries_by_ledger
from delayed_tracker.core.values.verb_results import BucketState

_ASKED_PER_LISTING = 16
"""Number of tested positions, for each ledger index entry, that makes a lookup worth building.

For positions in order the copies then cost as much as the lookup saves; at random, much less.
"""
_LISTINGS_PER_LEDGER = 2
_LISTINGS_SPARE = 64
"""An open bucket is listed under at most so many ledgers for each that has bits, and so many more."""
_LOOKUP_LISTINGS_MAX = 1_024
_LOOKUP_BYTES_MAX = 4 << 20
"""Above either limit a lookup would take over a millisecond or much memory; ledgers are then searched one by one."""


class PositionLookup:
    """Immutable set of positions, as large as the bitmaps it was copied from.

    It tests many positions in any order, with the bitmaps of all ledgers as one table. pyroaring tests one ledger at a
    time, and many entries only by an intersection: a thousand positions of twenty ledgers take twenty bitmaps and twenty
    intersections, whatever their content. A copy of a bitmap's portable bytes takes half a microsecond. One kernel then
    reads the copies: a probe and a bit for each position.
    """

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


class Membership:
    """Buckets by key, an index from ledger to buckets, and the ranges of the sealed ones.

    Buckets are pairwise disjoint.

    Change the bits of its buckets only through these methods: a change makes the lookup obsolete.
    """

    __slots__ = ("_asked_count", "_by_ledger", "_lookup", "_next_key", "buckets", "listed_count", "ranges")

    def __init__(self) -> None:
        self.buckets: dict[int, Bucket] = {}
        self.ranges: OrderedMap[tuple[Position, int], Position] = OrderedMap()
        """(last position, bucket key) -> first position, of every bucket that is not open for adds. Only an index."""
        self._by_ledger: dict[int, list[Bucket]] = {}
        self._next_key = 1
        self.listed_count = 0
        """Entries of the ledger index: one for each pair of a bucket and a ledger."""
        self._lookup: PositionLookup | None = None
        """All bits as they are now; None until enough positions were tested."""
        self._asked_count = 0
        """Positions tested without a lookup since the last one was made."""

    def open_bucket(self, state: BucketState) -> Bucket:
        """Start an empty bucket that is open for adds."""
        return self._insert(Bucket(self._next_key, state))

    def insert_sealed(self, bucket: Bucket) -> Bucket:
        """Add a bucket built elsewhere (recovery) and give it its key."""
        self._lookup = None
        bucket.key = self._next_key
        self._insert(bucket)
        self.note_ledgers(bucket)
        self.note_range(bucket)
        return bucket

    def _insert(self, bucket: Bucket) -> Bucket:
        self.buckets[bucket.key] = bucket
        self._next_key += 1
        return bucket

    def note_ledgers(self, bucket: Bucket) -> None:
        """List the bucket under every ledger it has bits in. O(its ledgers)."""
        for ledger in bucket.bits.ledgers():
            self._note_ledger(bucket, ledger)

    def _note_ledger(self, bucket: Bucket, ledger: int) -> None:
        if ledger not in bucket.ledgers:
            if not bucket.ledgers:
                bucket.ledgers = {}
            bucket.ledgers[ledger] = None
            self.listed_count += 1
            self._by_ledger.setdefault(ledger, []).append(bucket)
            if (
                bucket.is_open
                and len(bucket.ledgers) > _LISTINGS_PER_LEDGER * bucket.bits.ledger_count + _LISTINGS_SPARE
            ):
                self._unlist_drained(bucket)

    def _unlist_drained(self, bucket: Bucket) -> None:
        """Forget the ledgers of an open bucket in which it has no bits any more. Half of them at least: amortised O(1)."""
        drained = [ledger for ledger in bucket.ledgers if bucket.bits.bitmap_of(ledger) is None]
        for ledger in drained:
            del bucket.ledgers[ledger]
            self._unlist(bucket, ledger)
        self.listed_count -= len(drained)

    def _unlist(self, bucket: Bucket, ledger: int) -> None:
        others = [other for other in self._by_ledger[ledger] if other is not bucket]
        if others:
            self._by_ledger[ledger] = others
        else:
            del self._by_ledger[ledger]

    def note_range(self, bucket: Bucket) -> None:
        """Enter the range that a bucket was sealed with."""
        assert bucket.first is not None
        assert bucket.last is not None
        self.ranges[bucket.last, bucket.key] = bucket.first

    def remove_bucket(self, bucket: Bucket) -> None:
        """Forget a bucket and its entries in the indexes."""
        self._lookup = None
        del self.buckets[bucket.key]
        if bucket.last is not None:
            del self.ranges[bucket.last, bucket.key]
        self.listed_count -= len(bucket.ledgers)
        for ledger in bucket.ledgers:
            self._unlist(bucket, ledger)

    def frontier(self) -> Position:
        """Return the highest sealed position: a position that is not above it is late. O(log buckets)."""
        return self.ranges.last()[0][0] if self.ranges else BEFORE_ALL

    def add(self, bucket: Bucket, positions: PositionColumns) -> int:
        """Set bits in a bucket that no other bucket has; return the number that were not set."""
        self._lookup = None
        added = bucket.bits.add(positions)
        for ledger, _ in by_ledger(positions.ledger_id):
            self._note_ledger(bucket, ledger)
        return added

    def contains(self, positions: PositionColumns) -> BoolArray:
        """Return a mask of the positions that any bucket contains.

        At random positions it is twenty times faster if nothing has changed since the last call.
        """
        if self._lookup is None and self._is_lookup_wanted(len(positions)):
            self._lookup = PositionLookup.of(self._bitmaps(), bytes_max=_LOOKUP_BYTES_MAX)
        if self._lookup is not None:
            return self._lookup.contains(positions)
        tracked = np.zeros(len(positions), np.bool_)
        for _, rows in self.locate(positions):
            tracked[rows] = True
        return tracked

    def _is_lookup_wanted(self, count: int) -> bool:
        """Return True if a lookup is worth building when ``count`` more positions are tested. O(1)."""
        self._asked_count += count
        if self._asked_count < _ASKED_PER_LISTING * self.listed_count:
            return False
        self._asked_count = 0
        return 0 < self.listed_count <= _LOOKUP_LISTINGS_MAX

    def _bitmaps(self) -> Iterator[tuple[int, BitMap]]:
        """Yield each ledger that has bits, with a bitmap of all of them. Read only."""
        for ledger, buckets in self._by_ledger.items():
            bitmaps = [bitmap for bucket in buckets if (bitmap := bucket.bits.bitmap_of(ledger)) is not None]
            if bitmaps:
                yield ledger, bitmaps[0] if len(bitmaps) == 1 else BitMap.union(*bitmaps)

    @property
    def lookup_bytes(self) -> int:
        """Memory of the lookup in bytes, 0 if there is none. O(1)."""
        return 0 if self._lookup is None else self._lookup.nbytes

    def locate(self, positions: PositionColumns) -> Iterator[tuple[Bucket, Int64Array]]:
        """Yield each bucket that has some of the positions, with their row numbers. Untracked positions are in none.

        A bucket is yielded once for each ledger.
        """
        for ledger, selection in by_ledger(positions.ledger_id):
            buckets = self._by_ledger.get(ledger)
            if buckets is None:
                continue
            rows = np.arange(selection.start, selection.stop) if isinstance(selection, slice) else selection
            entries = positions.entry_id[rows]
            lowest, highest = Position(ledger, int(entries.min())), Position(ledger, int(entries.max()))
            for bucket in buckets:
                if not len(rows):
                    break
                if bucket.lies_outside(lowest, highest):
                    continue
                here = bucket.bits.contains(positions.take(rows))
                if here.any():
                    yield bucket, rows[here]
                    rows = rows[~here]

    def forget(self, positions: PositionColumns) -> tuple[int, list[Bucket]]:
        """Clear the bits of positions in any bucket. Return the number that were set, and those buckets."""
        self._lookup = None
        forgotten = 0
        buckets: dict[int, Bucket] = {}
        for ledger, entries in entries_by_ledger(positions):
            lowest, highest = Position(ledger, entries.min()), Position(ledger, entries.max())
            for bucket in self._by_ledger.get(ledger, ()):
                if bucket.lies_outside(lowest, highest):
                    continue
                count = bucket.bits.remove_entries(ledger, entries)
                if count:
                    forgotten += count
                    buckets[bucket.key] = bucket
        return forgotten, list(buckets.values())

    def remove(self, bucket: Bucket, positions: PositionColumns) -> int:
        """Clear the bits of positions in one bucket; return the number that were set."""
        self._lookup = None
        return bucket.bits.remove(positions)

    def remove_through(self, bucket: Bucket, position: Position) -> int:
        """Clear all bits of a bucket at or below ``position``; return the number that were set. O(ledgers)."""
        self._lookup = None
        return bucket.bits.remove_through(position)

    def subtract(self, bucket: Bucket, bits: PositionBitmap) -> int:
        """Clear the bits of a set in one bucket; return the number that were set."""
        self._lookup = None
        return bucket.bits.subtract(bits)

    def last_entry(self, ledger_id: int) -> int:
        """Return the highest tracked entry of a ledger, -1 if it has none. O(buckets of the ledger)."""
        return max((bucket.bits.last_entry(ledger_id) for bucket in self._by_ledger.get(ledger_id, ())), default=-1)

    def add_above(self, bucket: Bucket, ledger_id: int, entry_id: Int64Array) -> None:
        """Set the bits of ascending entries above all tracked entries of a ledger."""
        self._lookup = None
        bucket.bits.add_above(ledger_id, entry_id)
        self._note_ledger(bucket, ledger_id)

    def ledger_ids(self) -> Int64Array:
        """Return the ledgers that have bits, and some that had, each once, in no order. O(ledgers)."""
        return np.fromiter(self._by_ledger, np.int64, len(self._by_ledger))

    def next_entry(self, ledger_id: int, first: int) -> int | None:
        """Return the lowest tracked entry of a ledger from ``first`` on, or None. O(buckets of the ledger)."""
        bitmaps = (bucket.bits.bitmap_of(ledger_id) for bucket in self._by_ledger.get(ledger_id, ()))
        return min(
            (bitmap.next_set_bit(first) for bitmap in bitmaps if bitmap is not None and bitmap.max() >= first),
            default=None,
        )

    def count_between(self, ledger_id: int, first: int, stop: int) -> int:
        """Return the number of tracked entries of a ledger in [first, stop). O(containers in the range)."""
        bitmaps = (bucket.bits.bitmap_of(ledger_id) for bucket in self._by_ledger.get(ledger_id, ()))
        return sum(bitmap.range_cardinality(first, stop) for bitmap in bitmaps if bitmap is not None)

    def entries_between(self, ledger_id: int, first: int, stop: int) -> BitMap:
        """Return a new bitmap of the tracked entries of a ledger in [first, stop). O(buckets of the ledger + result)."""
        found = BitMap()
        for bucket in self._by_ledger.get(ledger_id, ()):
            bitmap = bucket.bits.bitmap_of(ledger_id)
            if bitmap is None or bitmap.max() < first or bitmap.min() >= stop:
                continue
            if bitmap.min() < first or bitmap.max() >= stop:
                bitmap = bitmap & BitMap(range(max(first, bitmap.min()), min(stop, bitmap.max() + 1)))
            found |= bitmap
        return found

    def check(self) -> int:
        """Raise InvariantViolation unless buckets are sound, disjoint and listed; return the number of bits."""
        union = PositionBitmap()
        for key, bucket in self.buckets.items():
            bucket.check()
            if bucket.key != key:
                raise InvariantViolation(f"bucket {bucket.key} is filed under {key}")
            if union.update(bucket.bits) != len(bucket.bits):
                raise InvariantViolation(f"bucket {key} has a bit that another bucket has too")
        listed = sorted((ledger, bucket.key) for ledger, buckets in self._by_ledger.items() for bucket in buckets)
        if listed != sorted((ledger, bucket.key) for bucket in self.buckets.values() for ledger in bucket.ledgers):
            raise InvariantViolation("the ledger index does not list each bucket once under each of its ledgers")
        if self.listed_count != len(listed):
            raise InvariantViolation(f"{self.listed_count} places in the ledger index are counted, there are others")
        expected = {
            (bucket.last, bucket.key): bucket.first for bucket in self.buckets.values() if bucket.last is not None
        }
        if dict(self.ranges) != expected:
            raise InvariantViolation("the ranges are not those of the sealed buckets")
        if self._lookup is not None and (
            self._lookup.position_count != len(union) or not self._lookup.contains(union.to_columns()).all()
        ):
            raise InvariantViolation("bits were changed, and what was made to look them up was kept")
        return len(union)
