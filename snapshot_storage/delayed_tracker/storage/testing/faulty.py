"""A storage that fails on purpose: a wrapper around another one, for simulations and, by its URL, for real processes.

``faulty:OPTIONS;URL`` wraps the storage of URL. ``faults.py`` has the options::

    faulty:exit=create.after:3,seed=1;sqlite:/var/lib/tracker/snapshots.db
    faulty:latency_ms=30000,topic=persistent%3A//public/default/slow;memory:
    faulty:error_before=0.1,error_after=0.05,seed=7;memory:
"""

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from typing import NoReturn

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.capabilities import ReportsSpace, StorageSpace, entry_bytes_max
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import CatalogueEntry, CatalogueState, Mark, SnapshotStore, StoredSnapshot
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.testing.faults import FaultPlan, Faults, Sleep, parse_fault_plan, split_faulty

__all__ = ["FaultPlan", "FaultyStorage", "open_faulty", "parse_fault_plan"]


class FaultyStorage(Faults):
    """Another storage, with faults as planned."""

    def __init__(self, inner: SnapshotStore, plan: FaultPlan, *, sleep: Sleep = asyncio.sleep) -> None:
        super().__init__(inner, plan, sleep=sleep)
        self.inner = inner
        # A separate generator, so that plans without torn writes keep their sequence of faults.
        self._tears = random.Random(plan.seed)  # noqa: S311  # no secret
        self._topics: dict[int, str] = {}

    @property
    def swept_count(self) -> int:
        """Incomplete snapshots that the wrapped storage deleted at its last start; 0 if it does not count them."""
        return int(getattr(self.inner, "swept_count", 0))

    @property
    def entry_bytes_max(self) -> int | None:
        """Largest entry that the wrapped storage takes."""
        return entry_bytes_max(self.inner)

    async def start(self) -> None:
        """Start the wrapped storage; never faulty."""
        await self.inner.start()

    async def close(self) -> None:
        """Close the wrapped storage; never faulty."""
        await self.inner.close()

    async def space(self) -> StorageSpace:
        """Return the space of the wrapped storage, with the planned free bytes; otherwise never faulty."""
        if not isinstance(self.inner, ReportsSpace):
            raise StorageUnavailable("the wrapped storage does not say what space it takes")
        space = await self.inner.space()
        return space if self.plan.free_bytes is None else StorageSpace(space.used_bytes, self.plan.free_bytes)

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
        """Create a snapshot in the wrapped storage, with faults.

        An error after the operation leaves a snapshot without a reference, a torn write a part of one.
        """

        async def create() -> int:
            if self._chosen(topic) and self._tears.random() < self.plan.torn:
                await self._tear(metadata, segments, bucket_key=bucket_key, topic=topic, cursor=cursor, epoch=epoch)
            bucket_id = await self.inner.create_bucket_snapshot(
                metadata, segments, bucket_key=bucket_key, topic=topic, cursor=cursor, epoch=epoch
            )
            self._topics[bucket_id] = topic
            return bucket_id

        return await self._with_faults("create", topic, create)

    async def _tear(
        self, metadata: bytes, segments: AsyncIterable[bytes], *, bucket_key: str, topic: str, cursor: str, epoch: int
    ) -> NoReturn:
        """Leave a snapshot that has its metadata but not all of its segments, as a careless backend would."""
        whole = [segment async for segment in segments]
        part = whole[: self._tears.randrange(max(1, len(whole)))]

        async def each() -> AsyncIterator[bytes]:
            for segment in part:
                yield segment

        await self.inner.create_bucket_snapshot(
            metadata, each(), bucket_key=bucket_key, topic=topic, cursor=cursor, epoch=epoch
        )
        raise StorageUnavailable(f"a planned torn write: {len(part)} of {len(whole)} segments were stored")

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Call the wrapped storage, with faults."""
        return await self._with_faults(
            "get_metadata", self._topics.get(bucket_id), lambda: self.inner.get_bucket_snapshot_metadata(bucket_id)
        )

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Call the wrapped storage, with faults."""
        return await self._with_faults(
            "get_segments",
            self._topics.get(bucket_id),
            lambda: self.inner.get_bucket_snapshot_segments(bucket_id, first, last),
        )

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Call the wrapped storage, with faults."""
        return await self._with_faults(
            "get_length", self._topics.get(bucket_id), lambda: self.inner.get_bucket_snapshot_length(bucket_id)
        )

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Call the wrapped storage, with faults."""
        await self._with_faults(
            "delete", self._topics.get(bucket_id), lambda: self.inner.delete_bucket_snapshot(bucket_id)
        )
        self._topics.pop(bucket_id, None)

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Call the wrapped storage, with faults."""
        snapshots = await self._with_faults(
            "list_snapshots", topic, lambda: self.inner.list_bucket_snapshots(topic, cursor)
        )
        self._topics.update((snapshot.bucket_id, topic) for snapshot in snapshots)
        return snapshots

    async def trackers(self) -> list[tuple[str, str]]:
        """Call the wrapped storage, with faults."""
        return await self._with_faults("trackers", None, self.inner.trackers)

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
        """Call the wrapped storage, with faults."""
        return await self._with_faults(
            "replace",
            topic,
            lambda: self.inner.replace(
                topic, cursor, remove=remove, add=add, epoch=epoch, writer=writer, mark_delete=mark_delete, mark=mark
            ),
        )

    async def forget(self, topic: str, cursor: str, *, epoch: int, writer: str = "") -> None:
        """Call the wrapped storage, with faults."""
        await self._with_faults("forget", topic, lambda: self.inner.forget(topic, cursor, epoch=epoch, writer=writer))

    async def list(self, topic: str, cursor: str) -> CatalogueState:
        """Call the wrapped storage, with faults."""
        state = await self._with_faults("list", topic, lambda: self.inner.list(topic, cursor))
        self._topics.update((entry.bucket_id, topic) for entry in state.entries)
        return state


def open_faulty(rest: str) -> FaultyStorage:
    """Return the storage of ``faulty:OPTIONS;URL``, with the faults of its options; not started."""
    plan, url = split_faulty(rest)
    return FaultyStorage(open_storage(url), plan)
