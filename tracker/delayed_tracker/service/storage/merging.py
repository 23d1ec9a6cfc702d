"""Making one snapshot of several: what is read of the sources, and what the merged snapshot is made of.

Two passes over the same segments, a few of each source at a time. The first finds where the merged segments begin and
end and encodes their metadata, because a snapshot begins with it; the second encodes the segments themselves, which go
to the storage as they come. Memory holds what is read at once, one merged segment and the metadata, whose size is
bounded; the rows of a bucket are never in memory together.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass

from delayed_tracker.core.engine.effects import MergeSnapshots, MergeSource
from delayed_tracker.core.rules.merge_streams import Needed, StreamMerge
from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_cutter import WholeSegments
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.storage.codec.codec import decode_segments, encode_metadata, encode_segments
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound

READ_BYTES = 64 * 2**10
"""What one read of a source aims at. With half of it, a merge takes 40 % more processor time."""
READ_SEGMENTS_MAX = 1_024

ReadSegments = Callable[[int, int, int], Awaitable[list[bytes]]]
"""Entries of a bucket from the first to the last, both included."""


class MergeSourceLost(DelayedTrackerError):
    """A snapshot that was to be merged is missing or corrupt; the cause says which of the two."""

    reason = "MERGE_SOURCE_LOST"

    def __init__(self, bucket_id: int, cause: DelayedTrackerError) -> None:
        super().__init__(f"bucket {bucket_id} cannot be merged: {cause.message}")
        self.bucket_id = bucket_id
        self.is_missing = isinstance(cause, SnapshotNotFound)


class MergeTooLarge(DelayedTrackerError):
    """The merged snapshot's metadata would not fit one entry."""

    reason = "MERGE_TOO_LARGE"


@dataclass(frozen=True, slots=True)
class MergePlan:
    """What the first pass finds out."""

    metadata: bytes
    """Entry 0 of the merged snapshot."""
    bounds: SegmentBounds
    stored: PositionBitmap
    """The positions of the merged snapshot."""


class SnapshotMerge:
    """The content of one merged snapshot, as often as it is asked for."""

    def __init__(
        self, effect: MergeSnapshots, access: StorageAccess, read: ReadSegments, *, metadata_bytes_max: int
    ) -> None:
        self.segment_bytes = 0
        """Bytes of the segments that :meth:`segments` has given since it was last begun."""
        self._effect = effect
        self._access = access
        self._read = read
        self._metadata_bytes_max = metadata_bytes_max

    async def plan(self) -> MergePlan:
        """The first pass.

        Raises:
            MergeSourceLost: a source is missing or corrupt.
            MergeTooLarge: the metadata exceeds its limit; the pass ends at once.
            StorageUnavailable: a source could not be read now.
        """
        metadata = bytearray()
        bounds: list[SegmentBounds] = []
        async with aclosing(self._merged()) as merged:
            async for part in merged:
                metadata += await self._access.offload(encode_metadata, part.indexes, part.bounds)
                if len(metadata) > self._metadata_bytes_max:
                    raise MergeTooLarge(
                        f"the metadata of buckets {[source.bucket_id for source in self._effect.sources]} merged "
                        f"exceeds {self._metadata_bytes_max} bytes; they stay as they are"
                    )
                bounds.append(part.bounds)
        stored = PositionBitmap()
        for source in self._effect.sources:
            stored.update(source.live)
        return MergePlan(bytes(metadata), SegmentBounds.concat(bounds), stored)

    async def segments(self) -> AsyncGenerator[bytes, None]:
        """The second pass: the merged segments, encoded; raises as :meth:`plan` does."""
        self.segment_bytes = 0
        async with aclosing(self._merged()) as merged:
            async for part in merged:
                for segment in await self._access.offload(encode_segments, part.indexes, part.bounds):
                    self.segment_bytes += len(segment)
                    yield segment

    async def _merged(self) -> AsyncGenerator[WholeSegments, None]:
        effect = self._effect
        merge = StreamMerge(
            [source.live for source in effect.sources], step_ms=effect.step_ms, count_max=effect.count_max
        )
        readers = [_SourceReader(source, self._read) for source in effect.sources]
        outcome = merge.advance()
        with closing(self._access.loads.share()) as share:
            while outcome is not None:
                fed: list[tuple[int, int, Sequence[bytes]]] = []
                if isinstance(outcome, Needed):
                    fed = [
                        (number, readers[number].bucket_id, await readers[number].read_on())
                        for number in outcome.sources
                    ]
                else:
                    share.hold(merge.row_count + len(outcome.indexes))
                    yield outcome
                outcome = await self._access.offload(_go_on, merge, fed)
                share.hold(merge.row_count)


class _SourceReader:
    """Where the reading of one source stands."""

    def __init__(self, source: MergeSource, read: ReadSegments) -> None:
        self.bucket_id = source.bucket_id
        self._segment_count = source.segment_count
        self._read = read
        self._read_count = 0
        self._read_bytes = 0
        self._at_once = 1

    async def read_on(self) -> Sequence[bytes]:
        """The next segments, none at the end: as many as READ_BYTES hold, judged by those so far."""
        if self._read_count == self._segment_count:
            return ()
        first = self._read_count + 1
        last = min(self._read_count + self._at_once, self._segment_count)
        try:
            entries = await self._read(self.bucket_id, first, last)
        except (SnapshotNotFound, SnapshotCorrupt) as error:
            raise MergeSourceLost(self.bucket_id, error) from error
        self._read_count = last
        self._read_bytes += sum(map(len, entries))
        fitting = READ_BYTES * self._read_count // max(1, self._read_bytes)
        self._at_once = max(1, min(2 * self._at_once, fitting, READ_SEGMENTS_MAX))
        return entries


def _go_on(merge: StreamMerge, fed: Sequence[tuple[int, int, Sequence[bytes]]]) -> WholeSegments | Needed | None:
    """Feed what was read, nothing being a source's end, and advance."""
    for number, bucket_id, entries in fed:
        try:
            if entries:
                merge.feed(number, decode_segments(entries))
            else:
                merge.end(number)
        except (SnapshotCorrupt, InvalidInput) as error:
            raise MergeSourceLost(bucket_id, error) from error
    return merge.advance()
