"""Content of a merged snapshot, made from the segments of its sources.

A merge reads the same segments twice, a few of each source at a time. The first pass computes the bounds of the merged
segments and encodes their metadata, because a snapshot begins with it. The second pass encodes the segments and sends
each to the storage at once. Memory holds the segments of one read, one merged segment, and the metadata, whose size is
bounded. It never holds all rows of a bucket.
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
from delayed_tracker.storage.codec.codec import MetadataEncoder, decode_segments, encode_segments
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound

READ_BYTES = 64 * 2**10
"""Target size of one read of a source. With half of it, a merge takes 40 % more processor time."""
READ_SEGMENTS_MAX = 1_024

ReadSegments = Callable[[int, int, int], Awaitable[list[bytes]]]
"""Reads entries of a bucket. Arguments: bucket id, first entry, last entry (inclusive)."""


class MergeSourceLost(DelayedTrackerError):
    """A source of a merge is missing or corrupt; ``is_missing`` distinguishes the two."""

    reason = "MERGE_SOURCE_LOST"

    def __init__(self, bucket_id: int, cause: DelayedTrackerError) -> None:
        super().__init__(f"bucket {bucket_id} cannot be merged: {cause.message}")
        self.bucket_id = bucket_id
        self.is_missing = isinstance(cause, SnapshotNotFound)


class MergeUnfit(DelayedTrackerError):
    """A foreign source has its segments out of time order, or a position without a row, as Pulsar may have written it."""

    reason = "MERGE_UNFIT"


class MergeTooLarge(DelayedTrackerError):
    """The metadata of the merged snapshot would not fit in one entry."""

    reason = "MERGE_TOO_LARGE"


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Result of the first pass."""

    metadata: bytes
    """Entry 0 of the merged snapshot."""
    bounds: SegmentBounds
    stored: PositionBitmap
    """Positions of the merged snapshot."""


@dataclass(frozen=True, slots=True)
class MergedSnapshot:
    """A merged snapshot that is stored, and that the catalogue does not name yet."""

    bucket_id: int
    plan: MergePlan
    length: int
    """Bytes of all its entries."""
    summary: bytes


class SnapshotMerge:
    """Content of one merged snapshot. Each call of :meth:`plan` or :meth:`segments` reads the sources again."""

    def __init__(
        self,
        effect: MergeSnapshots,
        access: StorageAccess,
        read: ReadSegments,
        *,
        codec: SnapshotCodec,
        metadata_bytes_max: int,
    ) -> None:
        self.segment_bytes = 0
        """Bytes of the segments that the last call of :meth:`segments` has yielded."""
        self._effect = effect
        self._access = access
        self._read = read
        self._codec = codec
        self._metadata_bytes_max = metadata_bytes_max

    async def plan(self) -> MergePlan:
        """Run the first pass.

        Raises:
            MergeSourceLost: a source is missing or corrupt.
            MergeUnfit: a source cannot be merged.
            MergeTooLarge: the metadata exceeds its limit; the pass ends at once.
            StorageUnavailable: a source could not be read now.
        """
        encoder = MetadataEncoder(self._codec)
        async with aclosing(self._merged()) as merged:
            async for part in merged:
                await self._access.offload(encoder.add, part.indexes, part.bounds)
                self._require_room(encoder.size)
        stored = PositionBitmap()
        for source in self._effect.sources:
            stored.update(source.live)
        metadata = await self._access.offload(encoder.finish, stored)
        self._require_room(len(metadata))
        return MergePlan(metadata, encoder.bounds, stored)

    def _require_room(self, metadata_bytes: int) -> None:
        if metadata_bytes > self._metadata_bytes_max:
            raise MergeTooLarge(
                f"the metadata of buckets {[source.bucket_id for source in self._effect.sources]} merged "
                f"exceeds {self._metadata_bytes_max} bytes; they stay as they are"
            )

    async def segments(self) -> AsyncGenerator[bytes, None]:
        """Run the second pass: yield the merged segments, encoded. Raises the errors of :meth:`plan`."""
        self.segment_bytes = 0
        async with aclosing(self._merged()) as merged:
            async for part in merged:
                for segment in await self._access.offload(encode_segments, self._codec, part.indexes, part.bounds):
                    self.segment_bytes += len(segment)
                    yield segment

    async def _merged(self) -> AsyncGenerator[WholeSegments, None]:
        effect = self._effect
        merge = StreamMerge(
            [source.live for source in effect.sources],
            step_ms=effect.step_ms,
            count_max=effect.count_max,
            rows_min=self._codec.segment_rows_min,
        )
        readers = [_SourceReader(source, self._read) for source in effect.sources]
        outcome = merge.advance()
        with closing(self._access.loads.share()) as share:
            while outcome is not None:
                fed: list[tuple[int, MergeSource, Sequence[bytes]]] = []
                if isinstance(outcome, Needed):
                    fed = [
                        (number, effect.sources[number], await readers[number].read_on()) for number in outcome.sources
                    ]
                else:
                    share.hold(merge.row_count + len(outcome.indexes))
                    yield outcome
                outcome = await self._access.offload(_go_on, merge, fed)
                share.hold(merge.row_count)


class _SourceReader:
    """Reader of one source, with its place in it."""

    def __init__(self, source: MergeSource, read: ReadSegments) -> None:
        self.bucket_id = source.bucket_id
        self._segment_count = source.segment_count
        self._read = read
        self._read_count = 0
        self._read_bytes = 0
        self._at_once = 1

    async def read_on(self) -> Sequence[bytes]:
        """Return the next segments; an empty sequence at the end.

        The number of segments is chosen so that they have about READ_BYTES, estimated from the segments read so far.
        """
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


def _go_on(
    merge: StreamMerge, fed: Sequence[tuple[int, MergeSource, Sequence[bytes]]]
) -> WholeSegments | Needed | None:
    """Feed the entries that were read and advance. An empty sequence is the end of its source."""
    for number, source, entries in fed:
        try:
            if entries:
                merge.feed(number, decode_segments(entries))
            else:
                merge.end(number)
        except InvalidInput as error:
            if source.is_foreign:
                raise MergeUnfit(f"bucket {source.bucket_id} stays as it is: {error.message}") from error
            raise MergeSourceLost(source.bucket_id, error) from error
        except SnapshotCorrupt as error:
            raise MergeSourceLost(source.bucket_id, error) from error
    return merge.advance()
