"""From a storage URL to a backend: the scheme names an entry point, and only that backend is imported.

Ours and outsiders' backends are found the same way: a distribution declares ``scheme = "module:factory"`` under the
entry-point group below; the factory takes the part of the URL after ``scheme:`` and returns a store that is not started.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageBackendMissing, UnknownStorageScheme
from delayed_tracker.storage.protocol import SnapshotStore

ENTRY_POINT_GROUP: Final = "delayed_tracker.snapshot_storage"
_FOR_TESTS: Final = "faulty"


def open_storage(url: str) -> SnapshotStore:
    """The backend that a URL names, not started: ``memory:``, ``sqlite:PATH``, or whatever is installed.

    Raises:
        InvalidInput: the URL has no scheme, or the backend finds fault with the rest of it.
        UnknownStorageScheme: no installed backend has that scheme; the message lists those that are, but for the one of tests.
        StorageBackendMissing: the backend needs a package that is not installed; the message says what to install.
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
    """The schemes of all installed backends, ascending."""
    return sorted(_backends())


def _backends() -> dict[str, EntryPoint]:
    # Of two distributions with one scheme the first on the path wins, as with modules.
    return {backend.name: backend for backend in reversed(tuple(entry_points(group=ENTRY_POINT_GROUP)))}


def _offered() -> str:
    """The schemes that errors offer: all but the one that only tests use."""
    return ", ".join(scheme for scheme in storage_schemes() if scheme != _FOR_TESTS)


def _install(backend: EntryPoint) -> str:
    distribution = backend.dist.name if backend.dist is not None else backend.module
    extra = "[ledger]" if distribution == "delayed-tracker" else ""
    return f"install it with: pip install '{distribution}{extra}'"
