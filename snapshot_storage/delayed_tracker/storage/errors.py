"""Storage errors, sorted by what the caller does next."""

from delayed_tracker.core.values.errors import DelayedTrackerError


class StorageError(DelayedTrackerError):
    """Base of every storage error."""

    reason = "STORAGE_ERROR"


class StorageUnavailable(StorageError):
    """The storage cannot answer now; nothing is known to have happened. Retry later."""

    reason = "STORAGE_UNAVAILABLE"


class SnapshotNotFound(StorageError):
    """The snapshot is gone. Drop the pointer, count it, recover the rest."""

    reason = "SNAPSHOT_NOT_FOUND"


class SnapshotCorrupt(StorageError):
    """Stored bytes fail their checksum or do not decode. Count it, drop the snapshot, rebuild from the ledgers."""

    reason = "SNAPSHOT_CORRUPT"


class SnapshotConflict(StorageError):
    """Somebody with a newer epoch owns the catalogue. Stop writing; open the tracker again."""

    reason = "SNAPSHOT_CONFLICT"


class StorageInUse(StorageError):
    """Another process has this storage open. Stop it, or give this one another path."""

    reason = "STORAGE_IN_USE"


class StorageFormatUnsupported(StorageError):
    """The stored format is newer than this program, or not ours at all."""

    reason = "STORAGE_FORMAT_UNSUPPORTED"


class UnknownStorageScheme(StorageError):
    """The URL's scheme names no installed backend; the message lists the known ones."""

    reason = "UNKNOWN_STORAGE_SCHEME"


class StorageBackendMissing(StorageError):
    """The backend is known, but a package it needs is not installed; the message says what to install."""

    reason = "STORAGE_BACKEND_MISSING"
