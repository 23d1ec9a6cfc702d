"""What this process is doing to the snapshots of one tracker: what a look at the storage must not mistake for rubbish."""

from collections.abc import Iterable
from dataclasses import dataclass

from delayed_tracker.core.engine.effects import Effect, MergeSnapshots, StoreSnapshot
from delayed_tracker.storage.protocol import StoredSnapshot


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Snapshots without a catalogue entry that are accounted for.

    A snapshot that is being stored has an id in the storage before anybody here knows it; what is known is the epoch it
    is stored under. So while something is being stored, no snapshot of that epoch counts as an orphan.
    """

    storing_epochs: frozenset[int] = frozenset()
    deleting: frozenset[int] = frozenset()
    """Out of the catalogue, or about to be, and not yet out of the storage."""
    sweeping: bool = False
    """The tracker is being recovered, cleared or deleted: whatever has no entry is about to go."""

    def accounts_for(self, snapshot: StoredSnapshot) -> bool:
        """Whether a snapshot without a catalogue entry may be one of these."""
        return self.sweeping or snapshot.epoch in self.storing_epochs or snapshot.bucket_id in self.deleting


def storing_epochs(effects: Iterable[Effect]) -> frozenset[int]:
    """The epochs under which these effects store snapshots."""
    return frozenset(effect.epoch for effect in effects if isinstance(effect, StoreSnapshot | MergeSnapshots))
