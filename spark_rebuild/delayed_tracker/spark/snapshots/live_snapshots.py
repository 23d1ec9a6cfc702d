"""Pending rows of trackers in the snapshots of a storage, read piece by piece in synchronous code."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyspark.sql.datasource import InputPartition

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.spark.commit.owned_storage import OwnedStorage
from delayed_tracker.spark.snapshots.live_buckets import (
    BucketPiece,
    LostBucket,
    TrackerBuckets,
    live_buckets,
    lost_bucket,
    read_rows,
)
from delayed_tracker.spark.source.ledger_splits import packed
from delayed_tracker.storage.concurrent import all_answers
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound

PART_BYTES: Final = 1 << 24
"""Stored bytes that one task reads, about: some 800,000 rows."""
_TRACKERS_AT_ONCE: Final = 16


@dataclass
class SnapshotPart(InputPartition):
    """Pieces of buckets for one task."""

    pieces: tuple[BucketPiece, ...]


@dataclass
class LostPart(InputPartition):
    """Buckets that planning found unreadable."""

    lost: tuple[LostBucket, ...]


class LiveSnapshots(OwnedStorage):
    """The live buckets of the storage of a URL; a context manager, as :class:`OwnedStorage`."""

    def trackers(self) -> list[tuple[str, str]]:
        """Return every (topic, subscription) that has a catalogue, ascending. Raises StorageUnavailable."""
        return self._run(self._storage.trackers())

    def plan(self, trackers: Sequence[tuple[str, str]], *, part_bytes: int = PART_BYTES) -> Iterator[TrackerBuckets]:
        """Yield the live buckets of each tracker, in order; the bitmaps of some trackers are in memory at a time.

        Raises: as :func:`live_buckets`.
        """
        for start in range(0, len(trackers), _TRACKERS_AT_ONCE):
            yield from self._run(self._plan(trackers[start : start + _TRACKERS_AT_ONCE], part_bytes))

    async def _plan(self, trackers: Sequence[tuple[str, str]], part_bytes: int) -> list[TrackerBuckets]:
        reads = [partial(live_buckets, self._storage, *tracker, piece_bytes=part_bytes) for tracker in trackers]
        return await all_answers(reads, at_once=_TRACKERS_AT_ONCE)

    def read(self, pieces: Iterable[BucketPiece]) -> Iterator[tuple[BucketPiece, IndexColumns | LostBucket]]:
        """Yield the pending rows of pieces, request by request; of a piece that cannot be read to its end, why.

        Raises:
            StorageUnavailable: try again.
        """
        for piece in pieces:
            gone = PositionBitmap.deserialize(piece.gone)
            for first, last in piece.reads:
                try:
                    yield piece, self._run(read_rows(self._storage, piece, gone, first, last))
                except (SnapshotNotFound, SnapshotCorrupt) as error:
                    yield piece, lost_bucket(piece.topic, piece.subscription, piece.bucket_id, error)
                    break

    def pending(self, topic: str, subscription: str) -> Iterator[IndexColumns | LostBucket]:
        """Yield the pending rows of one tracker, piece by piece, and what cannot be read. Raises StorageUnavailable."""
        for tracker in self.plan([(topic, subscription)]):
            yield from tracker.lost
            for _, rows in self.read(tracker.pieces):
                yield rows


def parts_of(planned: Iterable[TrackerBuckets], *, part_bytes: int = PART_BYTES) -> list[InputPartition]:
    """Return the parts to read: one for the pieces of each task, and one for what is lost."""
    pieces: list[BucketPiece] = []
    lost: list[LostBucket] = []
    for tracker in planned:
        pieces += tracker.pieces
        lost += tracker.lost
    parts: list[InputPartition] = [SnapshotPart(group) for group in packed(pieces, part_bytes)]
    if lost:
        parts.append(LostPart(tuple(lost)))
    return parts
