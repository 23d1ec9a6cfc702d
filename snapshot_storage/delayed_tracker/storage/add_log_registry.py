"""Opens the add log beside the snapshot storage of a URL; the scheme names an entry point, as in ``registry.py``."""

from typing import Final, cast

from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.errors import AddLogMissing
from delayed_tracker.storage.registry import backends, factory_of, offered, split_url

ADD_LOG_GROUP: Final = "delayed_tracker.add_log"


def open_add_log(storage_url: str) -> AddLog:
    """Return the add log that belongs to a snapshot storage, not started.

    Args:
        storage_url: URL of the snapshot storage, such as ``sqlite:PATH``.
    Raises:
        InvalidInput: the URL has no scheme, or the backend refuses the rest of it.
        UnknownStorageScheme: no installed backend has that scheme.
        AddLogMissing: the storage has no add log; the message lists those that have one.
        StorageBackendMissing: the backend needs a package that is not installed; the message names it.
    """
    scheme, rest = split_url(storage_url)
    if scheme not in backends(ADD_LOG_GROUP):
        raise AddLogMissing(
            f"storage URL {storage_url!r}: the storage {scheme!r} has no add log; set addLogUrl=sqlite:PATH, or "
            f"trackerDurableAdds=false, or give a storage that has one: {offered(ADD_LOG_GROUP)}"
        )
    return cast("AddLog", factory_of(ADD_LOG_GROUP, scheme)(rest))
