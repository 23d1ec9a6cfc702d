"""What the storage takes and what is left to it: asked in the background, so that a scrape only reads."""

import asyncio
from typing import Final

from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import ReportsSpace, SnapshotStore, StorageSpace

LOOK_S: Final = 10.0


class SpaceWatch:
    """Asks every ten seconds; a storage that knows no bounds is never asked.

    Args:
        storage: to be asked from the event loop in which it was started.
    """

    def __init__(self, storage: SnapshotStore) -> None:
        self.space: StorageSpace | None = None
        """The last answer; None if there is none, or if the storage could not say."""
        self._storage = storage if isinstance(storage, ReportsSpace) else None
        self._asking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Ask once, and again from now on."""
        if self._storage is not None:
            self.space = await _answer(self._storage)
            self._asking = asyncio.ensure_future(self._ask(self._storage))

    def stop(self) -> None:
        """Ask no more; harmless if nobody does."""
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
        return None  # no sample says as much, and calls that matter are counted by outcome
