"""Compares one snapshot with itself and with its catalogue entry: every segment is read and decoded, nothing is changed.

The service verifies a tracker that works meanwhile (``service/queries/verification.py``), the maintenance a storage that
is at rest (``checking.py``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import IndexColumns, Int64Array
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageFormatUnsupported
from delayed_tracker.storage.protocol import CatalogueEntry
from delayed_tracker.storage.summary import decode_summary

READ_INDEXES_MAX: Final = 50_000
"""Maximum rows of one read; a larger segment is read alone. It bounds the memory of a reader."""


def batch_end(counts: Int64Array, first: int, *, rows_max: int = READ_INDEXES_MAX) -> int:
    """Return the last segment of a read that begins at ``first``: at most ``rows_max`` rows, or one segment."""
    total = 0
    for segment in range(first, len(counts)):
        total += int(counts[segment])
        if total > rows_max:
            return max(first, segment - 1)
    return len(counts) - 1


class SnapshotReader(Protocol):
    """Reads the parts of one snapshot. Each call may raise SnapshotNotFound, SnapshotCorrupt or StorageUnavailable."""

    async def metadata(self) -> SnapshotMetadata:
        """Return the bounds and positions of every segment."""
        ...

    async def entries(self, first: int, last: int) -> list[bytes]:
        """Return segments ``first`` to ``last`` (0-based, inclusive) as they are stored."""
        ...

    async def decode(self, entries: Sequence[bytes]) -> IndexColumns:
        """Return the rows of stored segments."""
        ...

    async def length(self) -> int:
        """Return the payload bytes of the snapshot."""
        ...


@dataclass(slots=True)
class Verdict:
    """Result for one snapshot: the numbers read, and the problems found."""

    bucket_id: int
    segment_count: int = 0
    index_count: int = 0
    byte_count: int = 0
    problems: list[str] = field(default_factory=list)
    """One sentence for each problem."""
    is_lost: bool = False
    """True if rows of it cannot be read, or not be trusted; otherwise only its catalogue entry can be wrong."""

    def expect(self, holds: bool, problem: str) -> None:
        """Add a problem unless ``holds`` is true."""
        if not holds:
            self.problems.append(problem)

    def expect_rows(self, holds: bool, problem: str) -> None:
        """Add a problem of the snapshot itself unless ``holds`` is true."""
        self.expect(holds, problem)
        self.is_lost |= not holds


async def verify_snapshot(entry: CatalogueEntry, reader: SnapshotReader, verdict: Verdict) -> PositionBitmap | None:
    """Read a snapshot whole and compare it with its metadata and its catalogue entry.

    Args:
        entry: of the catalogue.
        reader: of its snapshot, which is read a few segments at a time.
        verdict: gets the numbers and the problems.
    Returns: the positions found; None if the snapshot is missing or damaged.
    Raises:
        StorageUnavailable: try again.
    """
    try:
        metadata = await reader.metadata()
        held = await verify_segments(reader, metadata, verdict)
        length = verdict.byte_count = await reader.length()
    except SnapshotNotFound as error:
        verdict.expect_rows(False, f"It is missing, or part of it: {error.message}.")
        return None
    except SnapshotCorrupt as error:
        verdict.expect_rows(False, f"It is damaged: {error.message}.")
        return None
    _verify_summary(entry, metadata.bounds, held, length, verdict)
    return held


async def verify_segments(reader: SnapshotReader, metadata: SnapshotMetadata, verdict: Verdict) -> PositionBitmap:
    """Read every segment and compare it with the snapshot's metadata; return the positions found.

    Args:
        reader: of the snapshot, which is read a few segments at a time.
        metadata: of the snapshot.
        verdict: gets the numbers and the problems.
    Raises:
        SnapshotNotFound, SnapshotCorrupt, StorageUnavailable: of the reader.
    """
    bounds = metadata.bounds
    held = PositionBitmap()
    first = 0
    while first < len(bounds):
        last = batch_end(bounds.count, first)
        stored = await reader.entries(first, last)
        for segment, encoded in enumerate(stored, start=first):
            verdict.byte_count += len(encoded)
            rows = await reader.decode([encoded])
            verdict.segment_count += 1
            verdict.index_count += len(rows)
            fault = _segment_fault(rows, metadata, segment)
            verdict.expect_rows(not fault, f"Segment {segment}: {fault}.")
            repeated = len(rows) - held.add(rows.positions)
            verdict.expect_rows(not repeated, f"Segment {segment} repeats {repeated} positions.")
        first = last + 1
    if metadata.union is not None:
        verdict.expect_rows(held == metadata.union, "Its positions are not those of the bitmap in its metadata.")
    return held


def _segment_fault(rows: IndexColumns, metadata: SnapshotMetadata, segment: int) -> str:
    """Return the first contradiction between a segment's rows and the snapshot's metadata; empty if there is none."""
    bounds = metadata.bounds
    count = int(bounds.count[segment])
    if len(rows) != count:
        return f"it has {len(rows)} rows where the metadata counts {count}"
    if metadata.segment_bits is not None and PositionBitmap.of(rows.positions) != metadata.segment_bits[segment]:
        return "its positions are not those of its bitmap in the metadata"
    if not count:
        return "it is empty"
    deadlines = rows.deliver_at_ms
    least, most = int(bounds.min_deliver_at_ms[segment]), int(bounds.max_deliver_at_ms[segment])
    if (int(deadlines.min()), int(deadlines.max())) != (least, most):
        return f"its deadlines span {deadlines.min()} to {deadlines.max()}, in the metadata {least} to {most}"
    if bool((np.diff(deadlines) < 0).any()):
        return "its deadlines do not ascend"
    return ""


def _verify_summary(
    entry: CatalogueEntry, bounds: SegmentBounds, held: PositionBitmap, length: int, verdict: Verdict
) -> None:
    lowest, highest = held.first(), held.last()
    inside = lowest is not None and highest is not None and entry.first <= lowest and highest <= entry.last
    verdict.expect(inside, f"Its positions {lowest} to {highest} leave the catalogue's {entry.first} to {entry.last}.")
    try:
        PositionBitmap.deserialize(entry.consumed)
    except InvalidInput:
        verdict.problems.append("The consumed positions in the catalogue do not decode; they come back as duplicates.")
    if not entry.summary:
        return  # written by another program, which stores no summary
    try:
        summary = decode_summary(entry.summary)
    except (SnapshotCorrupt, StorageFormatUnsupported) as error:
        verdict.problems.append(f"The catalogue's summary of it does not decode: {error.message}.")
        return
    found, expected = summary.groups.bounds, SegmentGroups.in_groups_of(bounds, summary.groups.each).bounds
    for name, ours, theirs in (
        ("row counts", found.count, expected.count),
        ("first deadlines", found.min_deliver_at_ms, expected.min_deliver_at_ms),
        ("last deadlines", found.max_deliver_at_ms, expected.max_deliver_at_ms),
    ):
        verdict.expect(np.array_equal(ours, theirs), f"The catalogue's {name} are not those of its metadata.")
    verdict.expect(summary.bits == held, "The catalogue's bitmap is not that of its rows.")
    verdict.expect(
        summary.snapshot_bytes == length, f"It has {length} bytes where the catalogue says {summary.snapshot_bytes}."
    )
