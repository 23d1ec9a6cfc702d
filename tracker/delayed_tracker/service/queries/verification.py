"""Reads every snapshot of one tracker and compares it with the catalogue and with the tracked positions.

Nothing is changed. The tracker need not be open: then its snapshots are only compared with the catalogue. Snapshots are
read a few segments at a time, while the tracker continues to work. A bucket that was merged or drained during the
verification is left out. A snapshot counts as an orphan only if it has no catalogue entry, still exists at the end, and
is not being stored or deleted.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.service.counters import EffectCounters
from delayed_tracker.service.errors import TrackerKey, TrackerNotOpen
from delayed_tracker.service.queries.segment_reader import SegmentReader
from delayed_tracker.service.trackers.components import HostState
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.maintenance.verification import Verdict, verify_snapshot
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, StoredSnapshot

Answer = TypeVar("Answer")


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
        host = registry.find_host(key)
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
        if not state.epoch and self._registry.find_host(self._key) is None:
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
        host = self._registry.find_host(self._key)
        return host.core_for_reading().remaining() if host is not None and host.state is HostState.READY else {}

    async def _verify(self, entry: CatalogueEntry, verdict: Verdict) -> None:
        held = await verify_snapshot(entry, SegmentReader(self._access, entry.bucket_id, self._counters), verdict)
        tracked = self._tracked().get(entry.bucket_id)
        if held is not None and tracked is not None:
            missing = len(tracked) - tracked.intersection_count(held)
            verdict.expect(not missing, f"{missing} tracked positions are not in it.")
