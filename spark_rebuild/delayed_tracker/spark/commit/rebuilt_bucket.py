"""A bucket made of staged parts, read when somebody stores it."""

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
    """What is stored of a bucket. Of the segments only those at hand are in memory."""

    metadata: bytes
    """Entry 0 of the snapshot."""
    summary: bytes
    """For the catalogue: ``delayed_tracker.storage.summary``."""
    bounds: SegmentBounds
    parts: Sequence[StagedPart]

    def segments(self) -> Iterator[bytes]:
        """Entries 1 and up, in time order, verified by the time the last one has come.

        Raises:
            StagedWorkInvalid: they are not what was staged.
        """
        for part in self.parts:
            yield from part.segments()


@dataclass(frozen=True, slots=True, eq=False)
class RebuiltBucket:
    """One bucket, ready to be stored."""

    first: Position
    last: Position
    index_count: int
    bits: PositionBitmap
    """The positions in it; nobody changes them."""
    staging: Staging
    parts: Sequence[PartMade]
    """In order of deadlines."""

    @property
    def metadata_bytes(self) -> int:
        """Size of entry 0."""
        return sum(part.metadata_bytes for part in self.parts)

    @property
    def snapshot_bytes(self) -> int:
        """Size of all entries together."""
        return self.metadata_bytes + sum(part.segment_bytes for part in self.parts)

    def open(self) -> BucketContent:
        """Read all but the segments.

        Raises:
            StagedWorkInvalid: a part is gone or damaged, or they are not what was counted.
            StagingUnavailable: a part cannot be read now.
        """
        parts = [self.staging.open(part.key) for part in self.parts]
        bounds = SegmentBounds.concat([part.bounds for part in parts])
        metadata = b"".join(part.metadata for part in parts)
        counted = sum(part.index_count for part in parts)
        if counted != self.index_count:
            raise StagedWorkInvalid(
                f"bucket {self.first} to {self.last} was counted with {self.index_count} indexes and staged with "
                f"{counted}; run the job again"
            )
        summary = encode_summary(bounds, self.bits, self.snapshot_bytes)
        return BucketContent(metadata, summary, bounds, parts)
