"""Opens the backend of a storage URL: the scheme names an entry point, and only that backend is imported.

Backends of this project and of others are found in the same way. A distribution declares ``scheme = "module:factory"``
under an entry-point group; the factory takes the part of the URL after ``scheme:`` and returns a store that is not
started. ``add_log_registry.py`` finds the add log beside a storage in the same way.
"""

import sys
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageBackendMissing, UnknownStorageScheme
from delayed_tracker.storage.protocol import SnapshotStore

ENTRY_POINT_GROUP: Final = "delayed_tracker.snapshot_storage"
_FOR_TESTS: Final = "faulty"
_EXTRAS: Final = {"bookkeeper": "bookkeeper", "s3": "objects", "gs": "objects", "az": "objects"}
"""Extras of our backends that need more than all others."""


def open_storage(url: str) -> SnapshotStore:
    """Return the backend of a URL, not started: ``memory:``, ``sqlite:PATH``, ``s3://BUCKET``, or another installed one.

    Raises:
        InvalidInput: the URL has no scheme, or the backend refuses the rest of it.
        UnknownStorageScheme: no installed backend has that scheme; the message lists the installed ones, except that of
            tests.
        StorageBackendMissing: the backend needs a package that is not installed; the message names it.
    """
    scheme, rest = split_url(url)
    return cast("SnapshotStore", factory_of(ENTRY_POINT_GROUP, scheme)(rest))


def split_url(url: str) -> tuple[str, str]:
    """Return the scheme of a storage URL, which has a snapshot storage, and the rest of it.

    Raises:
        InvalidInput: the URL has no scheme.
        UnknownStorageScheme: no installed snapshot storage has that scheme.
    """
    scheme, colon, rest = url.partition(":")
    if not colon or not scheme:
        raise InvalidInput(
            "storage URL", url, f"write SCHEME:REST, with one of the schemes {offered(ENTRY_POINT_GROUP)}"
        )
    if scheme not in backends(ENTRY_POINT_GROUP):
        raise UnknownStorageScheme(
            f"storage URL {url!r}: the scheme {scheme!r} is not one of {offered(ENTRY_POINT_GROUP)}; give one of those, "
            f"such as sqlite:PATH, or install the backend of {scheme!r}"
        )
    return scheme, rest


def storage_schemes() -> list[str]:
    """Return the schemes of all installed backends, ascending."""
    return sorted(backends(ENTRY_POINT_GROUP))


def backends(group: str) -> dict[str, EntryPoint]:
    """Return the installed backends of an entry-point group by their schemes."""
    # If two distributions declare one scheme, the first on the path wins, as with modules.
    return {backend.name: backend for backend in reversed(_installed(group, tuple(sys.path)))}


@lru_cache(maxsize=4)
def _installed(group: str, _path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, for which a file of each distribution on the path is read."""
    return tuple(entry_points(group=group))


def offered(group: str) -> str:
    """Return the schemes of a group for error messages: all except the one for tests."""
    return ", ".join(scheme for scheme in sorted(backends(group)) if scheme != _FOR_TESTS)


def factory_of(group: str, scheme: str) -> Callable[[str], object]:
    """Return the factory of an installed backend. Raises StorageBackendMissing if a package that it needs is not."""
    backend = backends(group)[scheme]
    try:
        return cast("Callable[[str], object]", backend.load())
    except ModuleNotFoundError as error:
        raise StorageBackendMissing(
            f"storage {scheme!r} needs the package {error.name!r}, which is not installed; {_install(backend)}"
        ) from error


def _install(backend: EntryPoint) -> str:
    distribution = backend.dist.name if backend.dist is not None else backend.module
    extra = f"[{_EXTRAS.get(backend.name, 'ledger')}]" if distribution == "delayed-tracker" else ""
    return f"install it with: pip install '{distribution}{extra}'"
