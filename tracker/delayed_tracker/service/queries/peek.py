"""Positions that are due between two moments, in memory or not, without any side effect.

The query reads the tracker's state once. It then reads unloaded segments in the order of their first deadlines, until
no unread segment can begin before the last row of the answer. So memory is bounded by the answer and one read.
"""

import heapq
from dataclasses import dataclass

from delayed_tracker.core.inspect.inspection import UnloadedSegments
from delayed_tracker.core.values.columns import INT63_MAX, BoolArray, IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.queries.segment_reader import SegmentReader
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.verification import batch_end

PEEK_MESSAGES_MAX = 10_000
_LOOKS_MAX = 3
"""Attempts to read buckets that are merged or drained meanwhile."""


@dataclass(frozen=True, slots=True)
class Peeked:
    """Tracked rows in delivery order, a mask of the leased ones, and True if the window contains more rows."""

    indexes: IndexColumns
    leased: BoolArray
    truncated: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Deadlines in [from_ms, until_ms), and the maximum number of rows."""

    from_ms: int
    until_ms: int | None
    max_count: int

    def __post_init__(self) -> None:
        """Refuse values that a peek does not allow."""
        if self.from_ms < 0:
            raise InvalidInput("from_ms", self.from_ms, "give 0 or more")
        if self.until_ms is not None and self.until_ms <= self.from_ms:
            raise InvalidInput("until_ms", self.until_ms, "give more than from_ms, or leave it out")
        if not 1 <= self.max_count <= PEEK_MESSAGES_MAX:
            raise InvalidInput("max_messages", self.max_count, f"give 1 to {PEEK_MESSAGES_MAX}")

    @property
    def last_ms(self) -> int:
        """Last deadline of the window, in milliseconds since 1970, UTC."""
        return INT63_MAX if self.until_ms is None else self.until_ms - 1


async def peek(host: TrackerHost, access: StorageAccess, window: Window) -> Peeked:
    """Return the first rows of the window, as they were tracked at one moment.

    Raises:
        SnapshotNotFound, SnapshotCorrupt: a bucket that the tracker relies on cannot be read.
        StorageUnavailable: try again.
    """
    for looks_left in reversed(range(_LOOKS_MAX)):
        tracker = host.core_for_reading()
        loaded, leased = tracker.loaded_between(window.from_ms, window.until_ms)
        nearest = slice(0, window.max_count + 1)
        held = loaded.take(leased)
        try:
            found = await _with_unloaded(host, access, window, loaded.take(nearest), tracker.unloaded())
        except (SnapshotNotFound, SnapshotCorrupt):
            if not looks_left:
                raise
            continue
        shown = found.take(slice(0, window.max_count))
        return Peeked(shown, _leased_among(shown, held), len(found) > window.max_count)
    raise AssertionError("the last look returns or raises")


async def _with_unloaded(
    host: TrackerHost,
    access: StorageAccess,
    window: Window,
    best: IndexColumns,
    unloaded: list[UnloadedSegments],
) -> IndexColumns:
    """Return the first ``max_count`` + 1 rows of the window, from memory and from unloaded segments."""
    wanted = window.max_count + 1
    # (first deadline of the next group of segments to read, index of its bucket, index of the group)
    unread: list[tuple[int, int, int]] = []
    for which, bucket in enumerate(unloaded):
        group = int(bucket.bounds.max_deliver_at_ms.searchsorted(window.from_ms))
        if group < len(bucket.bounds):
            unread.append((int(bucket.bounds.min_deliver_at_ms[group]), which, group))
    heapq.heapify(unread)
    while unread:
        first_ms, which, group = heapq.heappop(unread)
        limit_ms = min(window.last_ms, int(best.deliver_at_ms[-1])) if len(best) == wanted else window.last_ms
        if first_ms > limit_ms:
            break
        bucket = unloaded[which]
        bounds = bucket.bounds
        within = int(bounds.min_deliver_at_ms.searchsorted(limit_ms, side="right"))
        end = min(batch_end(bounds.count, group, rows_max=wanted), within - 1)
        reader = SegmentReader(access, bucket.bucket_id, host.counters)
        rows = await reader.rows(int(bucket.starts[group]), int(bucket.starts[end + 1]) - 1)
        inside = (rows.deliver_at_ms >= window.from_ms) & (rows.deliver_at_ms <= window.last_ms)
        live = rows.take(inside & bucket.bits.contains(rows.positions))
        best = IndexColumns.concat([best, live]).sorted().take(slice(0, wanted))
        if end + 1 < len(bounds):
            heapq.heappush(unread, (int(bounds.min_deliver_at_ms[end + 1]), which, end + 1))
    return best


def _leased_among(rows: IndexColumns, leased: IndexColumns) -> BoolArray:
    return PositionBitmap.of(leased.positions).contains(rows.positions)
