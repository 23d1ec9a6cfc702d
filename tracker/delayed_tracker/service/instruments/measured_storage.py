"""A wrapper around any storage that measures the duration and the outcome of each call."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from typing import Final, TypeVar

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.histogram import Histogram
from delayed_tracker.service.telemetry.spans import Spans
from delayed_tracker.service.telemetry.storage_log import SlowStorage
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from delayed_tracker.storage.protocol import (
    CatalogueEntry,
    CatalogueState,
    LogMark,
    ReportsSpace,
    SnapshotStore,
    StorageSpace,
    StoredSnapshot,
)

Answer = TypeVar("Answer")

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

_OUTCOMES: Final = (
    (StorageUnavailable, "unavailable"),
    (SnapshotNotFound, "not_found"),
    (SnapshotCorrupt, "corrupt"),
    (SnapshotConflict, "conflict"),
    (asyncio.CancelledError, "cancelled"),
)
_OTHER: Final = "failed"
STORAGE_OUTCOMES: Final = ("ok", *(outcome for _, outcome in _OUTCOMES), _OTHER)
STORAGE_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LOOK_S: Final = 10.0


class OperationCalls:
    """The calls of one operation."""

    __slots__ = ("durations", "outcomes")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(STORAGE_OUTCOMES, 0)
        self.durations = Histogram(STORAGE_BOUNDS_S)


class MeasuredStorage:
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
        self.inner = inner
        self.backend = backend
        self.operations = {name: OperationCalls() for name in STORAGE_OPERATIONS}
        self.space = SpaceWatch(inner)
        self._clock = clock
        self._slow = SlowStorage(clock, slow_ms=slow_ms)
        self._spans = spans

    async def _measured(self, name: str, call: Callable[[], Awaitable[Answer]], **where: str | int) -> Answer:
        calls = self.operations[name]
        begun_ms, outcome = self._clock.elapsed_ms(), "ok"
        try:
            if self._spans is None:
                return await call()
            with self._spans.storage(name, {"backend": self.backend, **where}):
                return await call()
        except BaseException as error:
            outcome = next((name for kind, name in _OUTCOMES if isinstance(error, kind)), _OTHER)
            raise
        finally:
            calls.outcomes[outcome] += 1
            took_ms = self._clock.elapsed_ms() - begun_ms
            calls.durations.observe(took_ms / 1_000)
            self._slow.ended(name, where, took_ms=took_ms, outcome=outcome)

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
        return await self._measured(
            "create_bucket_snapshot",
            lambda: self.inner.create_bucket_snapshot(
                metadata, segments, bucket_key=bucket_key, topic=topic, cursor=cursor, epoch=epoch
            ),
            topic=topic,
            subscription=cursor,
        )

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """See the protocol."""
        return await self._measured(
            "get_bucket_snapshot_metadata",
            lambda: self.inner.get_bucket_snapshot_metadata(bucket_id),
            bucket_id=bucket_id,
        )

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """See the protocol."""
        return await self._measured(
            "get_bucket_snapshot_segments",
            lambda: self.inner.get_bucket_snapshot_segments(bucket_id, first, last),
            bucket_id=bucket_id,
        )

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """See the protocol."""
        return await self._measured(
            "get_bucket_snapshot_length", lambda: self.inner.get_bucket_snapshot_length(bucket_id), bucket_id=bucket_id
        )

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """See the protocol."""
        await self._measured(
            "delete_bucket_snapshot", lambda: self.inner.delete_bucket_snapshot(bucket_id), bucket_id=bucket_id
        )

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """See the protocol."""
        return await self._measured(
            "list_bucket_snapshots",
            lambda: self.inner.list_bucket_snapshots(topic, cursor),
            topic=topic,
            subscription=cursor,
        )

    async def trackers(self) -> list[tuple[str, str]]:
        """See the protocol."""
        return await self._measured("trackers", self.inner.trackers)

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
        mark: LogMark | None = None,
    ) -> None:
        """See the protocol."""
        await self._measured(
            "replace",
            lambda: self.inner.replace(
                topic, cursor, remove=remove, add=add, epoch=epoch, writer=writer, mark_delete=mark_delete, mark=mark
            ),
            topic=topic,
            subscription=cursor,
        )

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """See the protocol."""
        await self._measured(
            "forget",
            lambda: self.inner.forget(topic, cursor, epoch=epoch, writer=writer),
            topic=topic,
            subscription=cursor,
        )

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """See the protocol."""
        return await self._measured("list", lambda: self.inner.list(topic, cursor), topic=topic, subscription=cursor)


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
