"""Checks a whole storage: each catalogue entry against its snapshot, and each snapshot against the catalogues.

Nothing is changed, so a shared storage may be in use meanwhile: a bucket that leaves the catalogue during the check is left
out, and a snapshot that no catalogue names counts as an orphan only if its epoch is an older one. Snapshots of the present
epoch may be on their way into the catalogue.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.storage.capabilities import FindsSnapshots
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot import SnapshotMetadata
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import SnapshotCorrupt, StorageFormatUnsupported
from delayed_tracker.storage.maintenance.claiming import Attempt
from delayed_tracker.storage.maintenance.copy_marker import require_no_unfinished_copy
from delayed_tracker.storage.maintenance.verification import Verdict, verify_snapshot
from delayed_tracker.storage.maintenance.working import Progress, Retries
from delayed_tracker.storage.protocol import CatalogueState, SnapshotStore

TRACKERS_AT_ONCE: Final = 8
_THREAD_BYTES_MIN: Final = 64 * 1024
"""Size from which on segments are decoded in a thread; a smaller one takes less time than the change of threads."""


@dataclass(slots=True)
class CheckedTracker:
    """Findings about one tracker."""

    topic: str
    cursor: str
    is_deleted: bool = False
    """True if the catalogue has no place for it any more; its epoch stays on record."""
    epoch: int = 0
    snapshot_count: int = 0
    """Snapshots that the catalogue names, readable or not."""
    segment_count: int = 0
    index_count: int = 0
    """Rows that were read, consumed ones included."""
    byte_count: int = 0
    problem: str = ""
    """Reason why its catalogue cannot be read, or that there is none; empty if there is one."""
    unsound: list[Verdict] = field(default_factory=list)
    """Verdicts on its snapshots with problems, ascending by bucket id."""
    orphans: list[int] = field(default_factory=list)
    """Snapshots of older epochs that its catalogue does not name, ascending."""

    @property
    def key(self) -> tuple[str, str]:
        """Topic and cursor."""
        return self.topic, self.cursor

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong."""
        return not (self.problem or self.unsound or self.orphans)


@dataclass(frozen=True, slots=True)
class StorageCheck:
    """Findings about a storage."""

    trackers: list[CheckedTracker]
    """All trackers that a catalogue or a snapshot has, ascending."""
    nameless: Sequence[str] = ()
    """Places with snapshots that no catalogue knows, and whose tracker cannot be told from their names."""

    @property
    def is_sound(self) -> bool:
        """True if nothing is wrong."""
        return not self.nameless and all(tracker.is_sound for tracker in self.trackers)


class StoredSnapshotReader:
    """Reads one snapshot of a storage; a ``SnapshotReader``. Long decoding runs in a thread."""

    def __init__(self, storage: SnapshotStore, bucket_id: int, attempt: Attempt) -> None:
        self._storage = storage
        self._bucket_id = bucket_id
        self._attempt = attempt

    async def metadata(self) -> SnapshotMetadata:
        """See ``SnapshotReader``."""
        read = partial(self._storage.get_bucket_snapshot_metadata, self._bucket_id)
        return await asyncio.to_thread(decode_metadata, await self._attempt(read))

    async def entries(self, first: int, last: int) -> list[bytes]:
        """See ``SnapshotReader``."""
        return await self._attempt(
            partial(self._storage.get_bucket_snapshot_segments, self._bucket_id, first + 1, last + 1)
        )

    async def decode(self, entries: Sequence[bytes]) -> IndexColumns:
        """See ``SnapshotReader``."""
        if sum(map(len, entries)) < _THREAD_BYTES_MIN:
            return decode_segments(entries)
        return await asyncio.to_thread(decode_segments, entries)

    async def length(self) -> int:
        """See ``SnapshotReader``."""
        return await self._attempt(partial(self._storage.get_bucket_snapshot_length, self._bucket_id))


async def check_storage(storage: SnapshotStore, *, progress: Progress, attempt: Attempt | None = None) -> StorageCheck:
    """Read every snapshot of a storage and compare it with its catalogue.

    Args:
        storage: is started.
        progress: called with trackers.
        attempt: performs each operation; repeats it by default.
    Raises:
        StorageFormatUnsupported: the storage is an unfinished copy.
        StorageUnavailable: try again.
    """
    attempt = attempt or Retries()
    await attempt(partial(require_no_unfinished_copy, storage))
    catalogued = set(await attempt(storage.trackers))
    keys = set(catalogued)
    nameless: Sequence[str] = ()
    if isinstance(storage, FindsSnapshots):
        places = await attempt(storage.snapshot_places)
        keys |= places.trackers
        nameless = places.nameless
    found = [CheckedTracker(*key, is_deleted=key not in catalogued) for key in sorted(keys)]
    done = 0

    async def check(tracker: CheckedTracker) -> None:
        nonlocal done
        await check_tracker(storage, tracker, attempt)
        done += 1
        progress(done, len(found))

    await for_each(found, check, at_once=TRACKERS_AT_ONCE)
    return StorageCheck(found, nameless)


async def check_tracker(storage: SnapshotStore, tracker: CheckedTracker, attempt: Attempt) -> None:
    """Check the catalogue and the snapshots of one tracker, and note what is found. Raises StorageUnavailable."""
    try:
        before = await attempt(partial(storage.list, *tracker.key))
        verdicts = [
            Verdict(bucket_id, problems=["Its catalogue entry fails its checksum."], is_lost=True)
            for bucket_id in before.corrupt
        ]
        for entry in before.entries:
            verdict = Verdict(entry.bucket_id)
            await verify_snapshot(entry, StoredSnapshotReader(storage, entry.bucket_id, attempt), verdict)
            verdicts.append(verdict)
        stored = await attempt(partial(storage.list_bucket_snapshots, *tracker.key))
        # Again: buckets that left the catalogue meanwhile were merged or drained, so their verdicts mean nothing.
        state = await attempt(partial(storage.list, *tracker.key))
    except (SnapshotCorrupt, StorageFormatUnsupported) as error:
        tracker.problem = f"Its catalogue cannot be read: {error.message}."
        return
    named = named_ids(state)
    tracker.epoch = state.epoch
    if not state.epoch:
        # The catalogue was lost, as each owner records its epoch before it stores anything.
        tracker.problem = f"No catalogue knows it, and it has {len(stored)} snapshots."
        return
    kept = named | named_ids(before)
    tracker.orphans = [each.bucket_id for each in stored if each.epoch < state.epoch and each.bucket_id not in kept]
    for verdict in verdicts:
        if verdict.bucket_id not in named:
            continue
        tracker.snapshot_count += 1
        tracker.segment_count += verdict.segment_count
        tracker.index_count += verdict.index_count
        tracker.byte_count += verdict.byte_count
        if verdict.problems:
            tracker.unsound.append(verdict)
    tracker.unsound.sort(key=lambda verdict: verdict.bucket_id)


def named_ids(state: CatalogueState) -> set[int]:
    """Return the bucket ids that a catalogue names, those of damaged entries included."""
    return {entry.bucket_id for entry in state.entries}.union(state.corrupt)
