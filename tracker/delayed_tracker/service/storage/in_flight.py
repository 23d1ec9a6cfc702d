"""Snapshots of one tracker that this process is storing or deleting. The orphan check excludes them."""

from collections.abc import Iterable
from dataclasses import dataclass

from delayed_tracker.core.engine.effects import Effect, MergeSnapshots, StoreSnapshot
from delayed_tracker.storage.protocol import StoredSnapshot


@dataclass(frozen=True, slots=True)
class SnapshotsInFlight:
    """Snapshots in flight, which have no catalogue entry and are not orphans.

    The storage chooses the id of a snapshot that is being stored, and the service learns it at the end. Only the epoch
    is known before. So while an effect stores a snapshot, no snapshot of the effect's epoch counts as an orphan.
    """

    storing_epochs: frozenset[int] = frozenset()
    deleting: frozenset[int] = frozenset()
    """Bucket ids that were removed from the catalogue, or are about to be, and whose snapshots may still be in the
    storage.
    """
    sweeping: bool = False
    """True if the tracker is being recovered, cleared or deleted, which deletes every snapshot without a catalogue
    entry.
    """

    def accounts_for(self, snapshot: StoredSnapshot) -> bool:
        """Return True if a snapshot without a catalogue entry may be one of these."""
        return self.sweeping or snapshot.epoch in self.storing_epochs or snapshot.bucket_id in self.deleting


def storing_epochs(effects: Iterable[Effect]) -> frozenset[int]:
    """Return the epochs under which these effects store snapshots."""
    return frozenset(effect.epoch for effect in effects if isinstance(effect, StoreSnapshot | MergeSnapshots))
