"""Opens the backend of a storage URL: the scheme names an entry point, and only that backend is imported.

Backends of this project and of others are found in the same way. A distribution declares ``scheme = "module:factory"``
under the entry-point group below; the factory takes the part of the URL after ``scheme:`` and returns a store that is
not started.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageBackendMissing, UnknownStorageScheme
from delayed_tracker.storage.protocol import SnapshotStore

ENTRY_POINT_GROUP: Final = "delayed_tracker.snapshot_storage"
_FOR_TESTS: Final = "faulty"


def open_storage(url: str) -> SnapshotStore:
    """Return the backend of a URL, not started: ``memory:``, ``sqlite:PATH``, or another installed one.

    Raises:
        InvalidInput: the URL has no scheme, or the backend refuses the rest of it.
        UnknownStorageScheme: no installed backend has that scheme; the message lists the installed ones, except that of
            tests.
        StorageBackendMissing: the backend needs a package that is not installed; the message names it.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or not scheme:
        raise InvalidInput("storage URL", url, f"write SCHEME:REST, with one of the schemes {_offered()}")
    backend = _backends().get(scheme)
    if backend is None:
        raise UnknownStorageScheme(
            f"storage URL {url!r}: the scheme {scheme!r} is not one of {_offered()}; give one of those, such as sqlite:PATH,"
            f" or install the backend of {scheme!r}"
        )
    try:
        factory = backend.load()
    except ModuleNotFoundError as error:
        raise StorageBackendMissing(
            f"storage {scheme!r} needs the package {error.name!r}, which is not installed; {_install(backend)}"
        ) from error
    return cast("SnapshotStore", factory(rest))


def storage_schemes() -> list[str]:
    """Return the schemes of all installed backends, ascending."""
    return sorted(_backends())


def _backends() -> dict[str, EntryPoint]:
    # If two distributions declare one scheme, the first on the path wins, as with modules.
    return {backend.name: backend for backend in reversed(tuple(entry_points(group=ENTRY_POINT_GROUP)))}


def _offered() -> str:
    """Return the schemes for error messages: all except the one for tests."""
    return ", ".join(scheme for scheme in storage_schemes() if scheme != _FOR_TESTS)


def _install(backend: EntryPoint) -> str:
    distribution = backend.dist.name if backend.dist is not None else backend.module
    extra = "[ledger]" if distribution == "delayed-tracker" else ""
    return f"install it with: pip install '{distribution}{extra}'"
