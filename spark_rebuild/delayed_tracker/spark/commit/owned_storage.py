"""A snapshot storage that nobody else has open, asked by code without an event loop."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.registry import open_storage

T = TypeVar("T")


class OwnedStorage:
    """The storage of a URL, such as ``sqlite:PATH``, open for the length of a block, and of others after it. What stands on one
    derives from it.

    Args:
        url: of the storage.
    Raises:
        InvalidInput, UnknownStorageScheme, StorageBackendMissing: it names none.
    """

    def __init__(self, url: str) -> None:
        self._storage: SnapshotStore = open_storage(url)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        """Open the storage.

        Raises:
            StorageInUse: a service, or another job, has it open.
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
        """Close it."""
        self._runner.run(self._storage.close())
        self._renew()

    def _renew(self) -> None:
        """A runner ends for good, and the next block needs one; it takes nothing before it runs."""
        self._runner.close()
        self._runner = asyncio.Runner()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)
