"""Settings of snapshots: their storage, the indexes in memory, and the use of the storage."""

from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.keys import Group, Section, check_order, setting
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec

_DAY_MS = 86_400_000
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, kw_only=True)
class StorageSettings(Section):
    """Settings of snapshots and memory."""

    storage_url: str = setting(
        "sqlite:data/tracker.db",
        "bucketSnapshotStorageUrl",
        Group.STORAGE,
        "Where snapshots are kept: sqlite:PATH (relative to the working directory; the file and its directory are "
        "created), bookkeeper:zk://HOSTS/ledgers (a cluster), file:///PATH, s3://, gs:// or az:// (objects; set addLogUrl, "
        "too), or memory: to keep nothing.",
    )
    durable_adds: bool = setting(
        True,
        "trackerDurableAdds",
        Group.STORAGE,
        "true: an add is answered when a log beside the snapshots has it, so that no crash loses it and a dispatcher "
        "offers again only what was not answered. false: PIP-195's contract, a dispatcher replays from mark-delete + 1.",
    )
    add_log_url: str = setting(
        "",
        "addLogUrl",
        Group.STORAGE,
        "A storage whose add log this instance uses, for a bucketSnapshotStorageUrl without one: sqlite:PATH keeps it in "
        "PATH.add-log, on a disk of this machine. Empty: the log of bucketSnapshotStorageUrl. Another instance that takes a "
        "tracker over has not got the log, and asks for what no snapshot has.",
    )
    add_log_bytes_max: int = setting(
        2**30,
        "addLogBytesMax",
        Group.STORAGE,
        "Size of the records in the add log of all trackers. At it, a call that adds is refused with OVERLOADED, as is one "
        "to a tracker that has twice as many of them as are left for all others; from half of it on, the trackers with "
        "most records are sealed, so that these can be cut.",
        unit="bytes",
        minimum=2**20,
        maximum=2**40,
        reloadable=True,
    )
    add_log_pending_bytes_max: int = setting(
        64 * 2**20,
        "addLogPendingBytesMax",
        Group.STORAGE,
        "Records in memory that wait to be written to the add log. At it, a call that adds is refused with OVERLOADED.",
        unit="bytes",
        minimum=2**20,
        maximum=2**34,
        reloadable=True,
    )
    consumption_window_positions: int = setting(
        50_000,
        "consumptionWindowPositions",
        Group.STORAGE,
        "Acknowledged and handed-off positions that are not in the add log yet: a crash hands out again this many at "
        "most. At it, an acknowledgement waits.",
        unit="positions",
        minimum=1,
        maximum=100_000_000,
        reloadable=True,
    )
    consumption_window_ms: int = setting(
        200,
        "consumptionWindowMillis",
        Group.STORAGE,
        "Time within which they are in the add log. When it is over, an acknowledgement waits.",
        unit="ms",
        minimum=1,
        maximum=60_000,
        reloadable=True,
    )
    tracker_idle_unload_ms: int = setting(
        600_000,
        "trackerIdleUnloadMillis",
        Group.STORAGE,
        "A tracker that nobody uses for this long leaves memory if it has no leases and its next delivery is further away "
        "than this and the prefetch window; the next call, or the approach of the delivery, brings it back. 0 keeps all "
        "trackers in memory, as does trackerDurableAdds=false.",
        unit="ms",
        minimum=0,
        maximum=365 * _DAY_MS,
        reloadable=True,
    )
    mutable_indexes_max: int = setting(
        1_000_000,
        "mutableIndexesMax",
        Group.STORAGE,
        "The filling bucket of a tracker is sealed at this many, ledger boundary or not.",
        unit="indexes",
        minimum=1,
        maximum=100_000_000,
    )
    late_indexes_max: int = setting(
        100_000,
        "lateIndexesMax",
        Group.STORAGE,
        "Positions that arrive below sealed ledgers become a bucket of their own at this many.",
        unit="indexes",
        minimum=1,
        maximum=100_000_000,
    )
    prefetch_window_ms: int = setting(
        300_000,
        "segmentPrefetchWindowMillis",
        Group.STORAGE,
        "A segment is read into memory when its first deadline is this near, or as near as reads take long, if that is more.",
        unit="ms",
        maximum=365 * _DAY_MS,
    )
    loaded_indexes_max: int = setting(
        1_000_000,
        "loadedIndexesMax",
        Group.STORAGE,
        "While all trackers together hold this many indexes read from snapshots, each reads only what is due before a read "
        "could end: a segment at a time, or up to a hundredth of this. Waiting trackers get free room in the order of their "
        "next deadlines.",
        unit="indexes",
        minimum=1,
        maximum=1_000_000_000,
    )
    unstored_indexes_max: int = setting(
        4_000_000,
        "unstoredIndexesMax",
        Group.STORAGE,
        "Indexes of all trackers that are in no snapshot; for in-memory trackers these are all indexes. While there "
        "are this many, a call that adds is refused with OVERLOADED, and a stream waits.",
        unit="indexes",
        minimum=1,
        maximum=1_000_000_000,
        reloadable=True,
    )
    tracker_unstored_indexes_max: int = setting(
        2_000_000,
        "trackerUnstoredIndexesMax",
        Group.STORAGE,
        "The same limit for one tracker, so that other trackers have room.",
        unit="indexes",
        minimum=1,
        maximum=1_000_000_000,
        reloadable=True,
    )
    storage_operations_max: int = setting(
        128,
        "storageOperationsMax",
        Group.STORAGE,
        "Stores, loads and deletes of all trackers that are under way at the same time. Half of them are kept for loads.",
        unit="operations",
        minimum=1,
        maximum=10_000,
    )
    tracker_operations_max: int = setting(
        4,
        "trackerStorageOperationsMax",
        Group.STORAGE,
        "Stores, or loads, or deletes of one tracker that are under way at the same time, so that others have room.",
        unit="operations",
        minimum=1,
        maximum=10_000,
    )
    storage_attempts_max: int = setting(
        3,
        "storageAttemptsMax",
        Group.STORAGE,
        "A call to a storage that is unavailable is made this many times before its operation counts as failed.",
        unit="attempts",
        minimum=1,
        maximum=100,
        reloadable=True,
    )
    storage_backoff_ms: int = setting(
        50,
        "storageBackoffMillis",
        Group.STORAGE,
        "Pause before the second attempt; it doubles with each, with jitter.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
        reloadable=True,
    )
    retry_backoff_ms: int = setting(
        1_000,
        "storageRetryMillis",
        Group.STORAGE,
        "An operation that failed is begun again after this long.",
        unit="ms",
        minimum=1,
        maximum=_DAY_MS,
    )
    snapshot_metadata_bytes_max: int = setting(
        4 * 2**20,
        "snapshotMetadataBytesMax",
        Group.STORAGE,
        "Size of a snapshot's metadata at most, which is one entry to the storage: buckets whose merged metadata would be "
        "larger stay apart.",
        unit="bytes",
        minimum=1,
        maximum=_INT32_MAX,
    )
    snapshot_codec: str = setting(
        SnapshotCodec.PULSAR.value,
        "snapshotCodec",
        Group.STORAGE,
        "How snapshots are written: pulsar as Pulsar writes them, columnar in a fifth of the bytes. Both are read, side by "
        "side in one tracker, so a change needs nothing else; `delayed-tracker pulsar publish` refuses columnar ones, and an "
        "older program cannot read them.",
        choices={codec.value: codec.value for codec in SnapshotCodec},
        reloadable=True,
    )
    worker_threads: int = setting(
        2,
        "workerThreads",
        Group.STORAGE,
        "Threads that sort, encode and decode snapshots.",
        unit="threads",
        minimum=1,
        maximum=256,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if ":" not in self.storage_url:
            raise InvalidInput(
                "bucketSnapshotStorageUrl", self.storage_url, "give SCHEME:..., such as sqlite:data/tracker.db"
            )
        if self.add_log_url and ":" not in self.add_log_url:
            raise InvalidInput("addLogUrl", self.add_log_url, "give SCHEME:..., such as sqlite:data/adds, or nothing")
        check_order(
            ("trackerUnstoredIndexesMax", self.tracker_unstored_indexes_max),
            ("unstoredIndexesMax", self.unstored_indexes_max),
        )
