"""Bucket made of staged parts, which are read when the bucket is stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.spark.commit.staged_part import StagedPart
from delayed_tracker.spark.commit.staging import PartMade, Staging
from delayed_tracker.spark.errors import StagedWorkInvalid
from delayed_tracker.storage.summary import encode_summary


@dataclass(frozen=True, slots=True)
class BucketContent:
    """Stored content of a bucket. Only the segments being read are in memory."""

    metadata: bytes
    """Entry 0 of the snapshot."""
    summary: bytes
    """Summary for the catalogue: ``delayed_tracker.storage.summary``."""
    bounds: SegmentBounds
    parts: Sequence[StagedPart]

    def segments(self) -> Iterator[bytes]:
        """Yield entries 1 and up, in time order; they are verified once the last one is yielded.

        Raises:
            StagedWorkInvalid: they differ from what was staged.
        """
        return segments_of(self.parts)


@dataclass(frozen=True, slots=True)
class StagedBucket:
    """Parts of one bucket, of which a task can make its snapshot."""

    first: Position
    last: Position
    index_count: int
    staging: Staging
    parts: Sequence[PartMade]
    """Parts in order of deadlines."""

    def open(self) -> list[StagedPart]:
        """Read everything but the segments.

        Raises:
            StagedWorkInvalid: a part is gone or damaged, or the parts differ from the counts and were removed: entries
                that were skipped while counting were read while staging, or the other way round.
            StagingUnavailable: a part cannot be read now.
        """
        parts = [self.staging.open(part.key) for part in self.parts]
        counted = sum(part.index_count for part in parts)
        if counted != self.index_count:
            # The next run would find them by their names, and use them again.
            self.staging.remove([part.key for part in self.parts])
            raise StagedWorkInvalid(
                f"bucket {self.first} to {self.last} was counted with {self.index_count} indexes and staged with "
                f"{counted}; run the job again"
            )
        return parts


@dataclass(frozen=True, slots=True, eq=False)
class RebuiltBucket:
    """One bucket, ready to be stored."""

    first: Position
    last: Position
    index_count: int
    bits: PositionBitmap
    """Positions in the bucket; never modified."""
    staging: Staging
    parts: Sequence[PartMade]
    """Parts in order of deadlines."""

    @property
    def metadata_bytes(self) -> int:
        """Size of entry 0 in bytes."""
        return sum(part.metadata_bytes for part in self.parts)

    @property
    def snapshot_bytes(self) -> int:
        """Size of all entries together in bytes."""
        return self.metadata_bytes + sum(part.segment_bytes for part in self.parts)

    @property
    def staged(self) -> StagedBucket:
        """The parts alone."""
        return StagedBucket(self.first, self.last, self.index_count, self.staging, self.parts)

    def open(self) -> BucketContent:
        """Read everything but the segments.

        Raises:
            StagedWorkInvalid: a part is gone or damaged, or the parts differ from the counts.
            StagingUnavailable: a part cannot be read now.
        """
        parts = self.staged.open()
        bounds = SegmentBounds.concat([part.bounds for part in parts])
        summary = encode_summary(bounds, self.bits, self.snapshot_bytes)
        return BucketContent(metadata_of(parts), summary, bounds, parts)


def metadata_of(parts: Sequence[StagedPart]) -> bytes:
    """Return entry 0 of the snapshot of all parts."""
    return b"".join(part.metadata for part in parts)


def segments_of(parts: Sequence[StagedPart]) -> Iterator[bytes]:
    """Yield entries 1 and up of the snapshot of all parts, in time order; they are verified once the last one is yielded.

    Raises:
        StagedWorkInvalid: they differ from what was staged.
    """
    for part in parts:
        yield from part.segments()
