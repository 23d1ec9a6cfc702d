"""Storage errors, sorted by the action of the caller."""

from delayed_tracker.core.values.errors import DelayedTrackerError


class StorageError(DelayedTrackerError):
    """Base of every storage error."""

    reason = "STORAGE_ERROR"


class StorageUnavailable(StorageError):
    """The storage cannot answer now; the operation may or may not have happened. Retry later."""

    reason = "STORAGE_UNAVAILABLE"


class SnapshotNotFound(StorageError):
    """The snapshot is gone. Drop the pointer, count it, recover the rest."""

    reason = "SNAPSHOT_NOT_FOUND"


class SnapshotCorrupt(StorageError):
    """Stored bytes fail their checksum or do not decode. Count it, drop the snapshot, rebuild from the ledgers."""

    reason = "SNAPSHOT_CORRUPT"


class SnapshotTooLarge(StorageError):
    """An entry of the snapshot is larger than this storage takes; nothing was stored. Seal smaller buckets or segments."""

    reason = "SNAPSHOT_TOO_LARGE"


class SnapshotConflict(StorageError):
    """Another writer owns the catalogue, with this epoch or a newer one. Stop writing; open the tracker again."""

    reason = "SNAPSHOT_CONFLICT"

    def __init__(self, message: str, *, epoch: int | None = None) -> None:
        super().__init__(message)
        self.epoch = epoch
        """The epoch on record, if it is known: a higher one is not refused."""


class StorageInUse(StorageError):
    """Another process has this storage open. Stop it, or give this one another path."""

    reason = "STORAGE_IN_USE"


class StorageFormatUnsupported(StorageError):
    """The stored format is newer than this program, or another program's."""

    reason = "STORAGE_FORMAT_UNSUPPORTED"


class UnknownStorageScheme(StorageError):
    """The URL's scheme names no installed backend; the message lists the known ones."""

    reason = "UNKNOWN_STORAGE_SCHEME"


class StorageBackendMissing(StorageError):
    """The backend is known, but a package it needs is not installed; the message names it."""

    reason = "STORAGE_BACKEND_MISSING"


class LogBroken(StorageError):
    """A write to the log failed in a way after which its file must not be written again (a failed fsync); restart the
    service, which opens the log anew.
    """

    reason = "ADD_LOG_BROKEN"


class AddLogMissing(StorageError):
    """The storage keeps snapshots, but has no add log. Set trackerDurableAdds=false, or give a storage that has one."""

    reason = "ADD_LOG_MISSING"
