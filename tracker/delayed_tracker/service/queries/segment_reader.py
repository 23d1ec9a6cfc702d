"""Reads segments for queries. Nothing is kept, and the tracker does not change."""

from collections.abc import Sequence

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.errors import SnapshotCorrupt


class SegmentReader:
    """Reader of one bucket's snapshot. Each read takes one of the storage's slots."""

    def __init__(self, access: StorageAccess, bucket_id: int, counters: EffectCounters) -> None:
        self.bucket_id = bucket_id
        self._access = access
        self._counters = counters

    async def metadata(self) -> SnapshotMetadata:
        """Return the bounds and positions of every segment.

        Raises:
            SnapshotNotFound, SnapshotCorrupt: the snapshot is missing or damaged.
            StorageUnavailable: try again.
        """
        storage = self._access.storage
        async with self._access.slots:
            stored = await self._access.attempt(
                lambda: storage.get_bucket_snapshot_metadata(self.bucket_id), self._counters
            )
        return await self._access.offload(decode_metadata, stored)

    async def length(self) -> int:
        """Return the payload bytes of the snapshot. Raises SnapshotNotFound or StorageUnavailable."""
        storage = self._access.storage
        async with self._access.slots:
            return await self._access.attempt(
                lambda: storage.get_bucket_snapshot_length(self.bucket_id), self._counters
            )

    async def entries(self, first: int, last: int) -> list[bytes]:
        """Return segments ``first`` to ``last`` (0-based, inclusive) as they are stored.

        Raises the errors of :meth:`metadata`.
        """
        storage = self._access.storage
        async with self._access.slots:
            return await self._access.attempt(
                lambda: storage.get_bucket_snapshot_segments(self.bucket_id, first + 1, last + 1), self._counters
            )

    async def rows(self, first: int, last: int) -> IndexColumns:
        """Return the rows of segments ``first`` to ``last``, in order. Raises the errors of :meth:`metadata`."""
        return await self.decode(await self.entries(first, last))

    async def decode(self, entries: Sequence[bytes]) -> IndexColumns:
        """Return the rows of stored segments. Raises SnapshotCorrupt."""
        try:
            return await self._access.offload(decode_segments, entries)
        except SnapshotCorrupt as error:
            raise SnapshotCorrupt(f"bucket {self.bucket_id}: {error.message}") from error
