"""Opens whole storages by their URLs: the snapshots and, if there is one, the add log beside them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import AddLog
from delayed_tracker.storage.add_log_registry import open_add_log
from delayed_tracker.storage.errors import AddLogMissing
from delayed_tracker.storage.objects.present_objects import FORMAT_KEY
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.add_log import log_path_of
from delayed_tracker.storage.sqlite.storage import file_of

_SQLITE: Final = "sqlite:"
_DIRECTORY: Final = "file://"


@dataclass(frozen=True, slots=True)
class WholeStorage:
    """A storage that is started, with its add log."""

    name: str
    """Its URL; that of a file with its absolute path, without symbolic links."""
    snapshots: SnapshotStore
    log: AddLog | None
    """None if the storage has no add log, or never had one."""


@asynccontextmanager
async def opened_storage(field: str, url: str, *, creates: bool = False) -> AsyncIterator[WholeStorage]:
    """Start a storage and its add log, yield them, and close them.

    Args:
        field: option of the URL, for messages.
        url: of the storage.
        creates: True if files that do not exist are made; otherwise a storage on this machine has to exist, and no add
            log is made beside it.
    Raises:
        InvalidInput: there is no storage, or the backend refuses the URL.
        UnknownStorageScheme, StorageBackendMissing: no installed backend has that scheme.
        StorageInUse: a process has it open, and this storage takes one alone.
        StorageFormatUnsupported: it was written by a newer version, or by another program.
        StorageUnavailable: it cannot be reached.
    """
    try:
        storage, log = open_storage(url), _log_of(url, creates=creates)
    except InvalidInput as error:
        raise InvalidInput(field, url, error.remedy) from error
    if not creates:
        _require_there(field, url)
    async with AsyncExitStack() as parts:
        parts.push_async_callback(storage.close)
        await storage.start()
        if log is not None:
            parts.push_async_callback(log.close)
            await log.start()
        name = f"{_SQLITE}{file_of(url.removeprefix(_SQLITE))}" if url.startswith(_SQLITE) else url
        yield WholeStorage(name, storage, log)


def _log_of(url: str, *, creates: bool) -> AddLog | None:
    if not creates and url.startswith(_SQLITE) and not log_path_of(file_of(url.removeprefix(_SQLITE))).exists():
        return None
    try:
        return open_add_log(url)
    except AddLogMissing:
        return None


def is_storage_there(url: str) -> bool:
    """Return False if a storage on this machine does not exist; a storage elsewhere is not asked."""
    if url.startswith(_SQLITE):
        file = file_of(url.removeprefix(_SQLITE))
        return file.is_file() and file.stat().st_size > 0
    if url.startswith(_DIRECTORY):
        return Path(url.removeprefix(_DIRECTORY), FORMAT_KEY).is_file()
    return True


def _require_there(field: str, url: str) -> None:
    """Refuse a storage on this machine that does not exist: looking at it must not create it."""
    if not is_storage_there(url):
        raise InvalidInput(field, url, "there is no storage; give the service's bucketSnapshotStorageUrl")
