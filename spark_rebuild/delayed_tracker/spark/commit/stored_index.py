"""Index in a snapshot storage, read while no service has the storage open."""

from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.spark.commit.owned_storage import OwnedStorage
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.protocol import CatalogueEntry


class StoredIndex(OwnedStorage):
    """``LiveIndex`` in a storage, such as ``sqlite:PATH``; a context manager.

    Args:
        url: of the storage.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.lost: list[str] = []
        """Snapshots that the catalogue names and that cannot be read; their indexes count as missing."""

    def read(self, topic: str, subscription: str) -> IndexColumns:
        """Return the indexes of a subscription; see ``LiveIndex``. Raises StorageUnavailable."""
        return self._run(self._read(topic, subscription))

    async def _read(self, topic: str, subscription: str) -> IndexColumns:
        state = await self._storage.list(topic, subscription)
        self.lost += [f"bucket {bucket_id}: its catalogue entry is damaged" for bucket_id in state.corrupt]
        known = [state.mark_delete, *(entry.mark_delete for entry in state.entries)]
        mark_delete = max((position for position in known if position is not None), default=BEFORE_ALL)
        buckets = []
        for entry in state.entries:
            try:
                rows = await self._rows(entry)
            except (SnapshotNotFound, SnapshotCorrupt) as error:
                self.lost.append(f"bucket {entry.bucket_id}: {error.message}")
                continue
            gone = rows.positions.at_or_below(mark_delete) | _consumed(entry).contains(rows.positions)
            buckets.append(rows.take(~gone))
        return IndexColumns.concat(buckets)

    async def _rows(self, entry: CatalogueEntry) -> IndexColumns:
        metadata = decode_metadata(await self._storage.get_bucket_snapshot_metadata(entry.bucket_id))
        count = len(metadata.bounds)
        if not count:
            return IndexColumns.empty()
        return decode_segments(await self._storage.get_bucket_snapshot_segments(entry.bucket_id, 1, count))


def _consumed(entry: CatalogueEntry) -> PositionBitmap:
    try:
        return PositionBitmap.deserialize(entry.consumed) if entry.consumed else PositionBitmap()
    except InvalidInput:
        # As in recovery: the consumed indexes come back as duplicates.
        return PositionBitmap()
