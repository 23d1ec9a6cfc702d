"""Segments read for somebody who looks, not for delivery: nothing is kept, nothing changes in the tracker."""

from collections.abc import Sequence

from delayed_tracker.core.values.columns import IndexColumns, Int64Array
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.storage.codec.codec import SnapshotMetadata, decode_metadata, decode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt

READ_INDEXES_MAX = 50_000
"""Whole segments of up to about this many rows are read at a time: what bounds the memory of a look."""


class SegmentReader:
    """Reads one bucket's snapshot as one of the storage's bounded number of operations."""

    def __init__(self, access: StorageAccess, bucket_id: int, counters: EffectCounters) -> None:
        self.bucket_id = bucket_id
        self._access = access
        self._counters = counters

    async def metadata(self) -> SnapshotMetadata:
        """Bounds and positions of every segment. Raises SnapshotNotFound, SnapshotCorrupt or StorageUnavailable."""
        storage = self._access.storage
        async with self._access.slots:
            stored = await self._access.attempt(
                lambda: storage.get_bucket_snapshot_metadata(self.bucket_id), self._counters
            )
        return await self._access.offload(decode_metadata, stored)

    async def length(self) -> int:
        """Payload bytes of the snapshot. Raises SnapshotNotFound or StorageUnavailable."""
        storage = self._access.storage
        async with self._access.slots:
            return await self._access.attempt(
                lambda: storage.get_bucket_snapshot_length(self.bucket_id), self._counters
            )

    async def entries(self, first: int, last: int) -> list[bytes]:
        """Segments ``first`` to ``last`` (0-based, inclusive) as they are stored; errors as for :meth:`metadata`."""
        storage = self._access.storage
        async with self._access.slots:
            return await self._access.attempt(
                lambda: storage.get_bucket_snapshot_segments(self.bucket_id, first + 1, last + 1), self._counters
            )

    async def rows(self, first: int, last: int) -> IndexColumns:
        """The rows of segments ``first`` to ``last``, in order; errors as for :meth:`metadata`."""
        return await self.decode(await self.entries(first, last))

    async def decode(self, entries: Sequence[bytes]) -> IndexColumns:
        """The rows of stored segments. Raises SnapshotCorrupt."""
        try:
            return await self._access.offload(decode_segments, entries)
        except SnapshotCorrupt as error:
            raise SnapshotCorrupt(f"bucket {self.bucket_id}: {error.message}") from error


def batch_end(counts: Int64Array, first: int, *, rows_max: int = READ_INDEXES_MAX) -> int:
    """The last of the segments from ``first`` on that are read together: about ``rows_max`` rows, at least one."""
    total = 0
    for segment in range(first, len(counts)):
        total += int(counts[segment])
        if total > rows_max:
            return max(first, segment - 1)
    return len(counts) - 1
