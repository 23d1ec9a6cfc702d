"""A wrapper around any storage that measures the duration and the outcome of each call."""

import asyncio
from collections.abc import AsyncIterable, Sequence
from typing import Final

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.measured_calls import MeasuredCalls
from delayed_tracker.service.telemetry.spans import Spans
from delayed_tracker.storage.capabilities import ReportsSpace, StorageSpace, entry_bytes_max
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, Mark, SnapshotStore, StoredSnapshot

STORAGE_OPERATIONS: Final = (
    "create_bucket_snapshot",
    "get_bucket_snapshot_metadata",
    "get_bucket_snapshot_segments",
    "get_bucket_snapshot_length",
    "delete_bucket_snapshot",
    "list_bucket_snapshots",
    "trackers",
    "replace",
    "forget",
    "list",
)
"""Operations of the protocol, except start and close."""

LOOK_S: Final = 10.0


class MeasuredStorage(MeasuredCalls):
    """Implementation of :class:`delayed_tracker.storage.protocol.SnapshotStore` that passes each call to another
    storage.

    Args:
        inner: storage that is not started.
        backend: name of the storage, as in its URL.
        clock: measures the durations.
        slow_ms: calls that take longer are logged; 0 logs none.
        spans: traces the calls, if given.
    """

    def __init__(
        self, inner: SnapshotStore, backend: str, clock: Clock, *, slow_ms: int = 0, spans: Spans | None = None
    ) -> None:
        super().__init__(STORAGE_OPERATIONS, backend, clock, slow_ms=slow_ms, spans=spans)
        self.inner = inner
        self.space = SpaceWatch(inner)

    @property
    def entry_bytes_max(self) -> int | None:
        """Largest entry that the other storage takes."""
        return entry_bytes_max(self.inner)

    async def start(self) -> None:
        """See the protocol."""
        await self.inner.start()
        await self.space.start()

    async def close(self) -> None:
        """See the protocol."""
        self.space.stop()
        await self.inner.close()

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """See the protocol."""
        return await self.measured(
            "create_bucket_snapshot",
            lambda: self.inner.create_bucket_snapshot(
                metadata, segments, bucket_key=bucket_key, topic=topic, cursor=cursor, epoch=epoch
            ),
            topic=topic,
            subscription=cursor,
        )

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """See the protocol."""
        return await self.measured(
            "get_bucket_snapshot_metadata",
            lambda: self.inner.get_bucket_snapshot_metadata(bucket_id),
            bucket_id=bucket_id,
        )

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """See the protocol."""
        return await self.measured(
            "get_bucket_snapshot_segments",
            lambda: self.inner.get_bucket_snapshot_segments(bucket_id, first, last),
            bucket_id=bucket_id,
        )

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """See the protocol."""
        return await self.measured(
            "get_bucket_snapshot_length", lambda: self.inner.get_bucket_snapshot_length(bucket_id), bucket_id=bucket_id
        )

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """See the protocol."""
        await self.measured(
            "delete_bucket_snapshot", lambda: self.inner.delete_bucket_snapshot(bucket_id), bucket_id=bucket_id
        )

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """See the protocol."""
        return await self.measured(
            "list_bucket_snapshots",
            lambda: self.inner.list_bucket_snapshots(topic, cursor),
            topic=topic,
            subscription=cursor,
        )

    async def trackers(self) -> list[tuple[str, str]]:
        """See the protocol."""
        return await self.measured("trackers", self.inner.trackers)

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
        """See the protocol."""
        return await self.measured(
            "replace",
            lambda: self.inner.replace(
                topic, cursor, remove=remove, add=add, epoch=epoch, writer=writer, mark_delete=mark_delete, mark=mark
            ),
            topic=topic,
            subscription=cursor,
        )

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """See the protocol."""
        await self.measured(
            "forget",
            lambda: self.inner.forget(topic, cursor, epoch=epoch, writer=writer),
            topic=topic,
            subscription=cursor,
        )

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """See the protocol."""
        return await self.measured("list", lambda: self.inner.list(topic, cursor), topic=topic, subscription=cursor)


class SpaceWatch:
    """Query of the space every ten seconds; none for a storage without ``ReportsSpace``.

    It reads in the background, so that a scrape does not wait for it.

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
