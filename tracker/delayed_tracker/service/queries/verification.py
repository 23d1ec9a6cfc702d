"""Reads every snapshot of one tracker and compares it with the catalogue and with the tracked positions.

Nothing is changed. The tracker need not be open: then its snapshots are only compared with the catalogue. Snapshots are
read a few segments at a time, while the tracker continues to work. A bucket that was merged or drained during the
verification is left out. A snapshot counts as an orphan only if it has no catalogue entry, still exists at the end, and
is not being stored or deleted.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey, TrackerNotOpen
from delayed_tracker.service.queries.segment_reader import SegmentReader, batch_end
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.codec.codec import SnapshotMetadata
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageFormatUnsupported
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, StoredSnapshot
from delayed_tracker.storage.summary import decode_summary

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Verdict:
    """Result for one snapshot: the numbers read, and the problems found."""

    bucket_id: int
    segment_count: int = 0
    index_count: int = 0
    byte_count: int = 0
    problems: list[str] = field(default_factory=list)
    """One sentence for each problem."""

    def expect(self, holds: bool, problem: str) -> None:
        """Add a problem unless ``holds`` is true."""
        if not holds:
            self.problems.append(problem)


@dataclass(frozen=True, slots=True)
class Verification:
    """Verdicts by bucket id, and the bucket ids of snapshots that no catalogue entry names."""

    verdicts: list[Verdict]
    orphans: list[int]


class SnapshotVerification:
    """One verification of one tracker.

    Args:
        registry: has the tracker, which need not be loaded.
        key: of the tracker.
    """

    def __init__(self, registry: TrackerRegistry, key: TrackerKey) -> None:
        self._registry = registry
        self._key = key
        self._access = registry.access
        host = registry.loaded(key)
        self._counters = EffectCounters() if host is None else host.counters

    async def run(self) -> Verification:
        """Verify everything.

        Raises:
            StorageUnavailable: try again.
            ShuttingDown: no more calls are accepted.
            TrackerNotOpen: the tracker was never opened.
        """
        self._registry.require_serving()
        state = await self._catalogue()
        if not state.epoch and self._registry.loaded(self._key) is None:
            raise TrackerNotOpen(self._key, stored=False)
        verdicts = [
            Verdict(bucket_id, problems=["Its catalogue entry fails its checksum."]) for bucket_id in state.corrupt
        ]
        for entry in state.entries:
            verdict = Verdict(entry.bucket_id)
            await self._verify(entry, verdict)
            verdicts.append(verdict)
        # A snapshot stored or deleted meanwhile is in flight at one of these two moments, or missing in the second
        # list.
        stored = await self._stored()
        in_flight = [self._registry.in_flight(self._key)]
        relied_on = self._tracked().keys()
        now = await self._catalogue()
        catalogued = {entry.bucket_id for entry in now.entries}.union(now.corrupt)
        tracked = self._tracked()
        in_flight.append(self._registry.in_flight(self._key))
        left = set(await self._stored())
        known = {verdict.bucket_id for verdict in verdicts}
        # Buckets that left the catalogue meanwhile were merged or drained, so their verdicts mean nothing.
        verdicts = [verdict for verdict in verdicts if verdict.bucket_id in catalogued]
        verdicts += [
            Verdict(bucket_id, problems=["The tracker relies on it, but the catalogue does not name it."])
            for bucket_id, bits in tracked.items()
            if bits and bucket_id in relied_on and bucket_id not in catalogued | known
        ]
        orphans = [
            snapshot.bucket_id
            for snapshot in stored
            if snapshot in left
            and snapshot.bucket_id not in catalogued.union(tracked)
            and not any(one.accounts_for(snapshot) for one in in_flight)
        ]
        return Verification(sorted(verdicts, key=lambda verdict: verdict.bucket_id), orphans)

    async def _attempt(self, operation: Callable[[], Awaitable[Answer]]) -> Answer:
        async with self._access.slots:
            return await self._access.attempt(operation, self._counters)

    async def _catalogue(self) -> CatalogueState:
        return await self._attempt(lambda: self._access.storage.list(*self._key))

    async def _stored(self) -> list[StoredSnapshot]:
        return await self._attempt(lambda: self._access.storage.list_bucket_snapshots(*self._key))

    def _tracked(self) -> dict[int, PositionBitmap]:
        """Return the tracked positions of each stored bucket; empty unless the tracker is open."""
        host = self._registry.loaded(self._key)
        return host.core_for_reading().remaining() if host is not None and host.state is HostState.READY else {}

    async def _verify(self, entry: CatalogueEntry, verdict: Verdict) -> None:
        reader = SegmentReader(self._access, entry.bucket_id, self._counters)
        try:
            metadata = await reader.metadata()
            held = await self._verify_segments(reader, metadata, verdict)
            length = verdict.byte_count = await reader.length()
        except SnapshotNotFound as error:
            verdict.problems.append(f"It is missing, or part of it: {error.message}.")
            return
        except SnapshotCorrupt as error:
            verdict.problems.append(f"It is damaged: {error.message}.")
            return
        _verify_summary(entry, metadata.bounds, held, length, verdict)
        tracked = self._tracked().get(entry.bucket_id)
        if tracked is not None:
            missing = len(tracked) - tracked.intersection_count(held)
            verdict.expect(not missing, f"{missing} tracked positions are not in it.")

    async def _verify_segments(
        self, reader: SegmentReader, metadata: SnapshotMetadata, verdict: Verdict
    ) -> PositionBitmap:
        """Read every segment; return the positions found."""
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
                fault = _segment_fault(rows, bounds, metadata.segment_bits[segment], segment)
                verdict.expect(not fault, f"Segment {segment}: {fault}.")
                repeated = len(rows) - held.add(rows.positions)
                verdict.expect(not repeated, f"Segment {segment} repeats {repeated} positions.")
            first = last + 1
        return held


def _segment_fault(rows: IndexColumns, bounds: SegmentBounds, bits: PositionBitmap, segment: int) -> str:
    """Return the first contradiction between a segment's rows and the snapshot's metadata; empty if there is none."""
    count = int(bounds.count[segment])
    if len(rows) != count:
        return f"it has {len(rows)} rows where the metadata counts {count}"
    if PositionBitmap.of(rows.positions) != bits:
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
    for name, ours, theirs in (
        ("row counts", summary.bounds.count, bounds.count),
        ("first deadlines", summary.bounds.min_deliver_at_ms, bounds.min_deliver_at_ms),
        ("last deadlines", summary.bounds.max_deliver_at_ms, bounds.max_deliver_at_ms),
    ):
        verdict.expect(np.array_equal(ours, theirs), f"The catalogue's {name} are not those of its metadata.")
    verdict.expect(summary.bits == held, "The catalogue's bitmap is not that of its rows.")
    verdict.expect(
        summary.snapshot_bytes == length, f"It has {length} bytes where the catalogue says {summary.snapshot_bytes}."
    )
