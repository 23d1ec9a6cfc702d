"""Reads the used and free space of the storage in the background, so that a scrape does not wait for it."""

import asyncio
from typing import Final

from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import ReportsSpace, SnapshotStore, StorageSpace

LOOK_S: Final = 10.0


class SpaceWatch:
    """Query of the space every ten seconds; none for a storage without ``ReportsSpace``.

    Args:
        storage: queried from the event loop in which it was started.
    """

    def __init__(self, storage: SnapshotStore) -> None:
        self.space: StorageSpace | None = None
        """The last answer; None if there is none, or if the storage was unavailable."""
        self._storage = storage if isinstance(storage, ReportsSpace) else None
        self._asking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Query the space once, and then every ten seconds."""
        if self._storage is not None:
            self.space = await _answer(self._storage)
            self._asking = asyncio.ensure_future(self._ask(self._storage))

    def stop(self) -> None:
        """Stop the queries. May be called if they are not running."""
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    async def _ask(self, storage: ReportsSpace) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self.space = await _answer(storage)


async def _answer(storage: ReportsSpace) -> StorageSpace | None:
    try:
        return await storage.space()
    except StorageUnavailable:
        return None  # the metric has no sample then, and calls that matter are counted by outcome
