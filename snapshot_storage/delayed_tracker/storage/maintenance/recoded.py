"""A storage read as if all its snapshots were in Pulsar's codec, for a copy that Pulsar's tools can take further.

Segments stay as they are cut. Nothing is changed; every columnar snapshot is read once more to know its length in the
other codec, which its catalogue entry names.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterable, Sequence
from dataclasses import dataclass

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec import pulsar
from delayed_tracker.storage.codec.codec import codec_of, decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageFormatUnsupported
from delayed_tracker.storage.maintenance.verification import batch_end
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, Mark, SnapshotStore, StoredSnapshot
from delayed_tracker.storage.summary import decode_summary


@dataclass(frozen=True, slots=True)
class _Recoded:
    """A snapshot in Pulsar's codec, without its segments."""

    metadata: bytes
    length: int


class RecodedSnapshots:
    """View of a storage; a ``SnapshotStore``. Writes go through unchanged.

    Args:
        storage: is started.
    """

    def __init__(self, storage: SnapshotStore) -> None:
        self._storage = storage
        self._lengths: dict[int, int] = {}
        """Length of each columnar snapshot in Pulsar's codec, by bucket id; snapshots do not change."""

    async def start(self) -> None:
        """See ``BucketSnapshotStorage``."""
        await self._storage.start()

    async def close(self) -> None:
        """See ``BucketSnapshotStorage``."""
        await self._storage.close()

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """See ``BucketSnapshotStorage``."""
        return await self._storage.create_bucket_snapshot(
            metadata, segments, bucket_key=bucket_key, topic=topic, cursor=cursor, epoch=epoch
        )

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Return entry 0 in Pulsar's codec."""
        return (await self._recoded(bucket_id)).metadata

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last`` in Pulsar's codec."""
        entries = await self._storage.get_bucket_snapshot_segments(bucket_id, first, last)
        return await asyncio.to_thread(_in_pulsar_codec, entries)

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the payload bytes of all entries in Pulsar's codec."""
        if bucket_id in self._lengths:
            return self._lengths[bucket_id]
        return (await self._recoded(bucket_id)).length

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """See ``BucketSnapshotStorage``."""
        await self._storage.delete_bucket_snapshot(bucket_id)

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """See ``BucketSnapshotStorage``."""
        return await self._storage.list_bucket_snapshots(topic, cursor)

    async def trackers(self) -> list[tuple[str, str]]:
        """See ``SnapshotCatalogue``."""
        return await self._storage.trackers()

    async def replace(
        self,
        topic: str,
        cursor: str,
        *,
        remove: Sequence[int],
        add: Sequence[CatalogueEntry],
        epoch: int,
        writer: str = "",
        mark_delete: Position | None = None,
        mark: Mark | None = None,
    ) -> CatalogueState | None:
        """See ``SnapshotCatalogue``."""
        state = await self._storage.replace(
            topic,
            cursor,
            remove=remove,
            add=add,
            epoch=epoch,
            writer=writer,
            mark_delete=mark_delete,
            mark=mark,
        )
        return None if state is None else await self._state(state)

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """See ``SnapshotCatalogue``."""
        await self._storage.forget(topic, cursor, epoch=epoch, writer=writer)

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Return the catalogue, with summaries that name the lengths in Pulsar's codec."""
        return await self._state(await self._storage.list(topic, cursor))

    async def _state(self, state: CatalogueState) -> CatalogueState:
        return dataclasses.replace(state, entries=tuple([await self._entry(entry) for entry in state.entries]))

    async def _entry(self, entry: CatalogueEntry) -> CatalogueEntry:
        if not entry.summary:
            return entry
        try:
            length = await self.get_bucket_snapshot_length(entry.bucket_id)
            summary = decode_summary(entry.summary)
        except (SnapshotNotFound, SnapshotCorrupt, StorageFormatUnsupported):
            return entry  # who reads the snapshot is told
        if summary.snapshot_bytes == length:
            return entry
        return dataclasses.replace(entry, summary=dataclasses.replace(summary, snapshot_bytes=length).encoded())

    async def _recoded(self, bucket_id: int) -> _Recoded:
        stored = await self._storage.get_bucket_snapshot_metadata(bucket_id)
        if codec_of(stored) is SnapshotCodec.PULSAR:
            return _Recoded(stored, await self._storage.get_bucket_snapshot_length(bucket_id))
        decoded = await asyncio.to_thread(decode_metadata, stored)
        bounds, held = decoded.bounds, PositionBitmap()
        metadata = bytearray()
        length = first = 0
        while first < len(bounds):
            last = batch_end(bounds.count, first)
            entries = await self._storage.get_bucket_snapshot_segments(bucket_id, first + 1, last + 1)
            part, part_bytes = await asyncio.to_thread(_metadata_of, entries, bounds.take(slice(first, last + 1)), held)
            metadata += part
            length += part_bytes
            first = last + 1
        if held != decoded.positions():
            raise SnapshotCorrupt(
                "its positions are not those of the bitmap in its metadata; rebuild it from the ledgers"
            )
        self._lengths[bucket_id] = len(metadata) + length
        return _Recoded(bytes(metadata), len(metadata) + length)


def _in_pulsar_codec(entries: Sequence[bytes]) -> list[bytes]:
    return [
        entry if codec_of(entry) is SnapshotCodec.PULSAR else pulsar.encode_segment(decode_segments([entry]))
        for entry in entries
    ]


def _metadata_of(entries: Sequence[bytes], bounds: SegmentBounds, held: PositionBitmap) -> tuple[bytes, int]:
    """Return the metadata of some segments in Pulsar's codec, and the bytes of the segments there; add their positions.

    Raises:
        SnapshotCorrupt: they have other rows than their metadata says, or a position for the second time.
    """
    rows = decode_segments(entries)
    if len(rows) != int(bounds.count.sum()) or held.add(rows.positions) != len(rows):
        raise SnapshotCorrupt(
            f"segments have {len(rows)} rows, or one of them twice, where the metadata counts {int(bounds.count.sum())}; "
            "rebuild it from the ledgers"
        )
    firsts, lasts = rows.deliver_at_ms[bounds.starts[:-1]], rows.deliver_at_ms[bounds.starts[1:] - 1]
    if not (np.array_equal(firsts, bounds.min_deliver_at_ms) and np.array_equal(lasts, bounds.max_deliver_at_ms)):
        raise SnapshotCorrupt(
            "the deadlines of its segments are not those of its metadata; rebuild it from the ledgers"
        )
    return pulsar.encode_metadata(rows, bounds), sum(map(len, pulsar.encode_segments(rows, bounds)))
