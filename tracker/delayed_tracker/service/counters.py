"""What the shell counts: plain integers, read by ``GetTrackerStats`` and by the metrics without a lock."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(slots=True)
class EffectCounters:
    """Counts of one tracker; a registry keeps the sum over all it ever had. They only rise."""

    handed_out: int = 0
    """Positions that polls took, each as often as it was taken."""
    snapshots_stored: int = 0
    snapshots_failed: int = 0
    snapshots_merged: int = 0
    """Merges that put one snapshot in the place of several."""
    merges_failed: int = 0
    """Merges that left everything as it was."""
    segment_loads: int = 0
    segment_loads_failed: int = 0
    snapshots_deleted: int = 0
    deletes_failed: int = 0
    results_forgotten: int = 0
    """Results whose effect the core had forgotten (a clear came between)."""
    storage_retries: int = 0
    orphans_swept: int = 0
    """Snapshots in no catalogue, left by a crash, deleted at recovery."""
    orphans_left: int = 0
    """Snapshots in no catalogue that could not be deleted now; the next recovery sweeps them."""
    checkpoints_failed: int = 0
    """Closes that could not record what was consumed: those positions come back as duplicates."""
    snapshots_missing: int = 0
    """Catalogued snapshots that were gone: pointer dropped, replay required."""
    snapshots_corrupt: int = 0
    """Snapshots that failed their checksum or did not decode: dropped, replay required."""
    summaries_unreadable: int = 0
    """Catalogue summaries that did not decode: the snapshot was read instead, or not checkpointed at a close."""

    def add(self, other: "EffectCounters") -> None:
        """Add another's counts to these."""
        for counter in fields(self):
            setattr(self, counter.name, getattr(self, counter.name) + getattr(other, counter.name))

    @classmethod
    def total(cls, parts: Iterable["EffectCounters"]) -> "EffectCounters":
        """The sum of at least one."""
        columns = zip(*map(attrgetter(*(counter.name for counter in fields(cls))), parts), strict=True)
        return cls(*map(sum, columns))
