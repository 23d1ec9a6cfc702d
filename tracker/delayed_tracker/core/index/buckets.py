"""Buckets: each tracked position has its one bit in one of them (mutable, late, or sealed).

A bucket begins in memory (its copies are runs), is frozen when it is sealed, and ends as a snapshot whose segments are
loaded when they are nearly due. The object and its bits stay the same: sealing moves nothing.
"""

from dataclasses import dataclass, field
from typing import Final

from delayed_tracker.core.index.packed_bounds import PackedBounds
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from delayed_tracker.core.values.errors import InvariantViolation
from delayed_tracker.core.values.last_deadlines import LastDeadlines
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState

_SNAPSHOT_BYTES = 2_200
"""Memory of a stored bucket without bits and segments: its range, its segment columns and its entries in the queues."""


# Shared by empty buckets, of which an idle tracker has two: the first ledger replaces it.
_NO_LEDGERS: Final[dict[int, None]] = {}


@dataclass(slots=True)
class MemoryCopies:
    """Copies of a bucket in memory that no longer agree with the bits.

    A bit can be cleared while its copy stays in a run: a removed copy. If the position is added again, the old copy
    must not be handed out under the new bit. Such positions are therefore listed with the deadline that counts.
    """

    open_run: Run | None = None
    """Run that adds go to; None after it was sorted for a hand-out."""
    removed: PositionBitmap | None = None
    """Positions without a bit that still have a copy; None if there are none, as in most trackers."""
    rescheduled: LastDeadlines | None = None
    """Current deadlines of positions that also have an older copy; None if there are none."""
    removed_count: int = 0
    """Upper bound of the removed copies in the runs: there are at most as many copies as bits plus this."""
    last_ledger_id: int = -1
    """Highest ledger ever added."""
    first_change: int = 0
    """Number of the change that put the first rows in, for the add log; 0 if there is no log."""

    def note_removed(self, positions: PositionColumns) -> None:
        """Record that the copies of these positions stay in the runs without a bit."""
        if self.removed is None:
            self.removed = PositionBitmap()
        self.removed.add(positions)
        self.note_trimmed(len(positions))

    def note_trimmed(self, count: int) -> None:
        """Count removed copies whose positions cannot be added again: they are below mark-delete.

        Before it falls, the copies are dropped.
        """
        self.removed_count += count
        if self.open_run is not None:
            self.open_run.suspect = True

    def note_added(self, indexes: IndexColumns) -> None:
        """Record the new deadlines of positions that still have an older copy."""
        if not self.removed:
            return
        again = indexes.take(self.removed.contains(indexes.positions))
        if len(again):
            self.rescheduled = self.rescheduled or LastDeadlines()
            self.rescheduled.put(again)

    def forget_removed(self) -> None:
        """Reset the records after all runs were rebuilt without removed copies."""
        self.removed = None
        self.rescheduled = None
        self.removed_count = 0


@dataclass(slots=True)
class SnapshotSegments:
    """Stored side of a sealed bucket: its segments in groups (``SegmentGroups``), and how far they are loaded."""

    bucket_id: int
    bounds: PackedBounds
    snapshot_bytes: int
    next_group: int = 0
    """First group of segments that is neither loaded nor being loaded."""
    is_foreign: bool = False
    """True if Pulsar wrote the snapshot: its bitmaps may contain positions that no segment has."""
    load_effect_id: int | None = None
    load_first: int = 0
    """First group of the load in flight."""

    @property
    def nbytes(self) -> int:
        """Memory of the data about the segments, in bytes. O(1)."""
        return _SNAPSHOT_BYTES + self.bounds.nbytes

    @property
    def first_unloaded(self) -> int:
        """First group whose rows are not in memory yet."""
        return self.next_group if self.load_effect_id is None else self.load_first

    @property
    def unloaded_count(self) -> int:
        """Rows in groups that are not in memory yet."""
        return self.bounds.row_count(self.first_unloaded, len(self.bounds))

    @property
    def next_min_ms(self) -> int | None:
        """First deadline that is not in memory yet, or None if all rows are."""
        if self.first_unloaded >= len(self.bounds):
            return None
        return self.bounds.earliest_ms(self.first_unloaded)


@dataclass(slots=True, eq=False)
class Bucket:
    """A bucket: a set of bits, and the place of its copies. Exactly one of ``memory`` and ``snapshot`` is set."""

    key: int
    state: BucketState
    bits: PositionBitmap = field(default_factory=PositionBitmap)
    memory: MemoryCopies | None = field(default_factory=MemoryCopies)
    snapshot: SnapshotSegments | None = None
    ledgers: dict[int, None] = field(default_factory=lambda: _NO_LEDGERS)
    """Ledgers under which the ledger index lists this bucket. Not a set: an empty set takes more memory."""
    first: Position | None = None
    last: Position | None = None
    """Range at the time of sealing, inclusive; None while the bucket is open for adds."""
    sealed_count: int = 0
    ledger_bytes: float | None = None
    """Average memory of the bitmap of one ledger, in bytes, at the last measurement (sealing, recovery)."""
    ledger_positions: float = 0.0
    """Average positions of one ledger at that time."""
    membership_bytes: int = 0
    """Memory of the bits at the last accounting, in bytes; 0 while the bucket is open for adds."""
    sealing_count: int = 0
    """Positions that no snapshot has, at the last accounting; 0 while the bucket is open for adds."""
    min_deliver_at_ms: int = 0
    max_deliver_at_ms: int = 0
    merging: bool = False
    """True while a merge reads its snapshot: the snapshot must stay until the merge has ended."""
    snapshot_lost: bool = False
    """True if its snapshot is missing or corrupt: the rest of its content is in memory only."""
    store_failures: int = 0
    """Times that its snapshot could not be stored, one after the other: it stays in memory until a retry succeeds."""

    def lies_outside(self, lowest: Position, highest: Position) -> bool:
        """Return True if the bucket certainly has nothing from ``lowest`` to ``highest``.

        A ledger that never rolls over has many buckets, most of them with other ranges.
        """
        return self.first is not None and self.last is not None and (self.last < lowest or highest < self.first)

    @property
    def is_open(self) -> bool:
        """True if adds may go to this bucket."""
        return self.state in (BucketState.MUTABLE, BucketState.LATE)

    @property
    def bits_bytes(self) -> int:
        """Approximate memory of the bits now, in bytes. O(1)."""
        if self.ledger_bytes is None:
            return self.bits.estimated_nbytes
        return self.bits.nbytes_since(self.ledger_bytes, self.ledger_positions)

    def enter(self, snapshot: SnapshotSegments) -> None:
        """Record that the copies are now in a snapshot of one segment or more."""
        self.state, self.memory, self.snapshot = BucketState.SEALED, None, snapshot
        bounds = snapshot.bounds.take(0, len(snapshot.bounds))
        self.sealed_count = int(bounds.count.sum())
        self.min_deliver_at_ms = int(bounds.min_deliver_at_ms.min())
        self.max_deliver_at_ms = int(bounds.max_deliver_at_ms.max())

    def check(self) -> None:
        """Raise InvariantViolation unless bits, range and the place of the copies agree with the state."""
        self.bits.check()
        if (self.memory is None) == (self.snapshot is None):
            raise InvariantViolation(f"bucket {self.key} is not in exactly one place")
        if (self.snapshot is not None) != (self.state is BucketState.SEALED):
            raise InvariantViolation(f"bucket {self.key} is {self.state.value} but its copies lie elsewhere")
        if self.is_open != (self.first is None):
            raise InvariantViolation(f"bucket {self.key} is {self.state.value} with a range of {self.first}")
        lowest, highest = self.bits.first(), self.bits.last()
        if (
            self.first is not None
            and self.last is not None
            and lowest is not None
            and highest is not None
            and not self.first <= lowest <= highest <= self.last
        ):
            raise InvariantViolation(
                f"bucket {self.key} holds {lowest} to {highest}, outside its range {self.first} to {self.last}"
            )
        if not set(self.bits.ledgers()) <= self.ledgers.keys():
            raise InvariantViolation(f"bucket {self.key} has bits in a ledger under which it is not listed")
        if self.memory is not None and highest is not None and highest.ledger_id > self.memory.last_ledger_id:
            raise InvariantViolation(f"bucket {self.key} has forgotten its highest ledger, {highest.ledger_id}")
        if self.snapshot is not None:
            self._check_segments(self.snapshot.bounds, self.snapshot.next_group)

    def _check_segments(self, packed: PackedBounds, next_group: int) -> None:
        bounds = packed.take(0, len(packed))
        if not 0 <= next_group <= len(bounds) or self.sealed_count != int(bounds.count.sum()):
            raise InvariantViolation(f"bucket {self.key} was sealed with {self.sealed_count} rows, its segments differ")
        if (self.min_deliver_at_ms, self.max_deliver_at_ms) != (
            int(bounds.min_deliver_at_ms.min()),
            int(bounds.max_deliver_at_ms.max()),
        ):
            raise InvariantViolation(f"bucket {self.key} announces deadlines that are not those of its segments")
