"""Settings of a rebuild as one frozen value; the session, the target and the progress report are passed separately."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerKind, TrackerLimits

INDEXES_PER_TASK: Final = 250_000


@dataclass(frozen=True, slots=True)
class RebuildSettings:
    """Settings of one job."""

    source: Mapping[str, str]
    """Options of the format ``pulsar_ledger``: url, metadata, topic, topicsPattern, openLedgers, onError, ..."""
    now_ms: int
    """Time at which all indexes are offered. Messages that are due then are left to the dispatcher."""
    staging: str = ""
    """URL or directory that the driver and all executors can reach; may be empty in a dry run."""
    subscriptions: tuple[str, ...] = ()
    """Subscriptions; each is taken from all topics that have it. If empty, all subscriptions of each topic but the
    cursors of Pulsar itself.
    """
    ignore_acks: bool = False
    """Accept every delayed message, as a new subscription would. Then named subscriptions need not exist."""
    limits: TrackerLimits = field(default_factory=TrackerLimits)
    """Limits of the trackers: the same as those of the service that will open them."""
    metadata_bytes_max: int = 4 * 2**20
    """The service's ``snapshotMetadataBytesMax``: buckets whose merged metadata would be larger are not merged."""
    whole_ledgers: bool = False
    """True for buckets as brokers keep them: they end with a ledger whatever their size, and the last one may be small."""
    indexes_per_task: int = INDEXES_PER_TASK
    """Approximate number of indexes that one task sorts and encodes; larger buckets are divided."""

    def digest(self) -> str:
        """Return a digest, in hexadecimal, of all that determines staged work but the time."""
        rest = replace(self, source=dict(sorted(self.source.items())), now_ms=0, staging="")
        return hashlib.sha256(repr(rest).encode()).hexdigest()

    def __post_init__(self) -> None:
        """Reject invalid values."""
        for name in ("metadata_bytes_max", "indexes_per_task"):
            value = getattr(self, name)
            if value < 1:
                raise InvalidInput(name, value, "give 1 or more")
        if self.now_ms < 0:
            raise InvalidInput("now_ms", self.now_ms, "give milliseconds since 1970-01-01 UTC")
        if self.limits.kind is TrackerKind.IN_MEMORY:
            raise InvalidInput(
                "delayedDeliveryTrackerFactoryClassName", "in-memory", "that tracker stores nothing; give bucket"
            )
