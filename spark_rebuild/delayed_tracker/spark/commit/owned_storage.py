"""Access to a snapshot storage for synchronous code: exclusive, if no two processes may have it open."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage

T = TypeVar("T")
_OF_ONE_PROCESS: Final = frozenset({"memory", "sqlite"})


class OwnedStorage:
    """Base class for users of the storage of a URL, such as ``sqlite:PATH`` or ``s3://BUCKET/PREFIX``.

    It is a context manager: the storage is open inside a block, and can be opened again by a later block.

    Args:
        url: of the storage.
    Raises:
        InvalidInput, UnknownStorageScheme, StorageBackendMissing: the URL names no usable storage.
    """

    def __init__(self, url: str) -> None:
        self._storage: SnapshotStore = open_storage(url)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Open the storage.

        Raises:
            StorageInUse: a service or another job has it open.
        """
        try:
            self._runner.run(self._storage.start())
        except BaseException:
            self._renew()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the storage."""
        self._runner.run(self._storage.close())
        self._renew()

    def _renew(self) -> None:
        """Replace the closed runner: a runner cannot be used again. A runner uses no resources before its first run."""
        self._runner.close()
        self._runner = asyncio.Runner()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)


def is_shared(url: str) -> bool:
    """Return True if several processes may have the storage of a URL open at the same time."""
    scheme, _, rest = url.partition(":")
    if scheme == "faulty":  # it fails as planned, and is otherwise the storage behind it
        return is_shared(rest.partition(";")[2])
    return bool(scheme) and scheme not in _OF_ONE_PROCESS
