"""Counters of the service: plain integers, read without a lock by ``GetTrackerStats`` and by the metrics."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from operator import attrgetter


@dataclass(slots=True)
class EffectCounters:
    """Counts of one tracker, which never decrease. A registry keeps the sum over all its trackers, open or closed."""

    handed_out: int = 0
    """Positions that polls took. A position taken twice counts twice."""
    snapshots_stored: int = 0
    snapshots_failed: int = 0
    snapshots_split: int = 0
    """Buckets that were stored in pieces, because an entry would have been larger than the storage takes."""
    snapshots_merged: int = 0
    """Merges that replaced several snapshots by one."""
    merges_failed: int = 0
    """Merges that changed nothing."""
    segment_loads: int = 0
    segment_loads_failed: int = 0
    snapshots_deleted: int = 0
    deletes_failed: int = 0
    results_forgotten: int = 0
    """Results of effects that the core had forgotten, because of a clear meanwhile."""
    storage_retries: int = 0
    orphans_swept: int = 0
    """Orphans, left by a crash, that a recovery deleted."""
    orphans_left: int = 0
    """Snapshots in no catalogue that could not be deleted now. The next recovery sweeps them."""
    checkpoints_failed: int = 0
    """Closes that could not record consumed positions. These positions return as duplicates."""
    log_records_corrupt: int = 0
    """Records of the add log that failed their checksum or did not decode. The dispatcher offers everything again."""
    add_logs_missing: int = 0
    """Recoveries of a tracker whose catalogue belongs to another add log. The dispatcher offers again what no snapshot has."""
    snapshots_missing: int = 0
    """Catalogued snapshots that were missing. Their buckets are dropped and a replay is required."""
    snapshots_corrupt: int = 0
    """Snapshots that failed their checksum or did not decode. Their buckets are dropped and a replay is required."""
    summaries_unreadable: int = 0
    """Catalogue summaries that did not decode.

    A recovery or a checkpoint then reads the snapshot.
    """

    def add(self, other: "EffectCounters") -> None:
        """Add the counts of another object to these."""
        for counter in fields(self):
            setattr(self, counter.name, getattr(self, counter.name) + getattr(other, counter.name))

    @classmethod
    def total(cls, parts: Iterable["EffectCounters"]) -> "EffectCounters":
        """Return the sum of one or more objects."""
        columns = zip(*map(attrgetter(*(counter.name for counter in fields(cls))), parts), strict=True)
        return cls(*map(sum, columns))
