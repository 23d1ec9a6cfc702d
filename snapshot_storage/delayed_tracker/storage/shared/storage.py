"""The part that storages over shared stores have in common: the operations of the catalogue."""

from collections.abc import Sequence

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, Mark
from delayed_tracker.storage.shared.catalogue import SharedCatalogue


class SharedStorage:
    """Passes the operations of the catalogue on. A subclass sets ``_catalogue`` while it is open."""

    _catalogue: SharedCatalogue | None = None

    async def trackers(self) -> list[tuple[str, str]]:
        """Return every (topic, cursor) with a catalogue that was not forgotten."""
        return await self._opened().trackers()

    async def replace(
        self,
        topic: str,
        cursor: str,
        *,
        remove: Sequence[int],
        add: Sequence[CatalogueEntry],
        epoch: int,
        writer: str = "",
        mark_delete: Position | None = None,
        mark: Mark | None = None,
    ) -> CatalogueState | None:
        """Replace the tracker's document by compare-and-swap."""
        return await self._opened().replace(
            topic, cursor, remove=remove, add=add, epoch=epoch, writer=writer, mark_delete=mark_delete, mark=mark
        )

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Remove all entries, keep the epoch."""
        await self._opened().forget(topic, cursor, epoch=epoch, writer=writer)

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Return the catalogue of one tracker, verified."""
        return await self._opened().list(topic, cursor)

    def _opened(self) -> SharedCatalogue:
        if self._catalogue is None:
            raise StorageUnavailable("the storage is not open; call start() first")
        return self._catalogue
