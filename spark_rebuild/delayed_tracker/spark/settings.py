"""What a rebuild is to do, in one frozen value; the session, the target and whoever shows progress come apart from it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
    """The one moment at which all indexes are offered: what is due then is left to the dispatcher."""
    staging: str = ""
    """URL or directory that the driver and all executors reach; needed unless nothing is written."""
    subscriptions: tuple[str, ...] = ()
    """Each is taken of the topics that have it; none given is all of each topic but Pulsar's own."""
    ignore_acks: bool = False
    """Take every delayed message, as a new subscription would get it. Subscriptions that are named need not exist."""
    limits: TrackerLimits = field(default_factory=TrackerLimits)
    """Of the trackers: the same as those of the service that is to open them."""
    metadata_bytes_max: int = 4 * 2**20
    """The service's ``snapshotMetadataBytesMax``: buckets whose merged metadata would be larger stay apart."""
    indexes_per_task: int = INDEXES_PER_TASK
    """About so many are sorted and encoded by one task; larger buckets are divided."""

    def __post_init__(self) -> None:
        """Refuse values no job can work with."""
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
