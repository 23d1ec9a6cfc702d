"""Calls of one tracker that wait for its catalogue: a clear is answered when no crash can undo it."""

import asyncio
from collections.abc import Callable, Iterable

from delayed_tracker.service.errors import ServiceError


class CatalogueWaits:
    """Waits until the catalogue has an epoch, and some buckets no longer."""

    __slots__ = ("_waits",)

    def __init__(self) -> None:
        self._waits: tuple[tuple[int, frozenset[int], asyncio.Future[None]], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._waits)

    async def until_written(self, epoch: int, deleting: frozenset[int]) -> None:
        """Wait until the catalogue has this epoch and none of these buckets. Failed deletions are retried meanwhile."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wait = (epoch, deleting, future)
        self._waits = (*self._waits, wait)
        try:
            await future
        finally:
            self._waits = tuple(other for other in self._waits if other is not wait)

    def note_written(self, epoch: int, deleted: Iterable[int]) -> None:
        """End the waits that this epoch in the catalogue and these deletions satisfy."""
        # A retried deletion keeps its buckets together, and a later clear takes over the buckets of an earlier one.
        for awaited, deleting, future in self._waits:
            if awaited <= epoch and deleting.issubset(deleted) and not future.done():
                future.set_result(None)

    def end_all(self, error: Callable[[], ServiceError]) -> None:
        """End every wait with an error."""
        for _, _, future in self._waits:
            if not future.done():
                future.set_exception(error())
