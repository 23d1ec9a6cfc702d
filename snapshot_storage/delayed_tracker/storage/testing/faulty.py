"""A storage that fails on purpose: a wrapper around another one, for simulations and, by its URL, for real processes.

``faulty:OPTIONS;URL`` wraps the storage of URL. Options are ``key=value``, separated by commas; values are
percent-decoded, so that a topic may contain commas and semicolons::

    faulty:exit=create.after:3,seed=1;sqlite:/var/lib/tracker/snapshots.db
    faulty:latency_ms=30000,topic=persistent%3A//public/default/slow;memory:
    faulty:error_before=0.1,error_after=0.05,seed=7;memory:

    exit          POINT or POINT:N: kill the process with SIGKILL at the Nth arrival at a point (default: the first)
    error_before  share of operations, 0 to 1, that raise StorageUnavailable and do nothing
    error_after   share of operations that do their work and then raise StorageUnavailable
    torn          share of creates that store only some of their segments, under a bucket id that no caller gets, and
                  raise StorageUnavailable
    latency_ms    every operation waits this long first
    free_bytes    free space that the storage reports
    topic         only trackers of this topic are slow or failing (exit counts all)
    seed          seed of the random numbers that decide on errors

Points: ``create``, ``replace``, ``forget`` and ``delete``, each ``.before`` and ``.after``; a backend with points of its
own adds those (SQLite: ``create.chunk``, ``create.commit``, ``replace.commit``, ``delete.commit``).
"""

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol, TypeVar, runtime_checkable
from urllib.parse import unquote

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.protocol import (
    CatalogueEntry,
    CatalogueState,
    ReportsSpace,
    SnapshotStore,
    StorageSpace,
    StoredSnapshot,
)
from delayed_tracker.storage.registry import open_storage

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]

_POINTS: Final = frozenset(
    f"{operation}.{when}" for operation in ("create", "replace", "forget", "delete") for when in ("before", "after")
) | {"create.chunk", "create.commit", "replace.commit", "delete.commit"}


@runtime_checkable
class HasPoints(Protocol):
    """A backend that calls ``at_point`` at named points inside its operations."""

    at_point: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Faults and their frequency; none by default."""

    error_before: float = 0.0
    error_after: float = 0.0
    torn: float = 0.0
    latency_ms: int = 0
    seed: int = 0
    topic: str | None = None
    exit_point: str | None = None
    exit_arrival: int = 1
    free_bytes: int | None = None

    def __post_init__(self) -> None:
        """Raise InvalidInput for plans that cannot be carried out."""
        for field, share in (
            ("error_before", self.error_before),
            ("error_after", self.error_after),
            ("torn", self.torn),
        ):
            if not 0.0 <= share <= 1.0:
                raise InvalidInput(field, share, "give a share from 0 to 1")
        if self.latency_ms < 0:
            raise InvalidInput("latency_ms", self.latency_ms, "give 0 or more")
        if self.free_bytes is not None and self.free_bytes < 0:
            raise InvalidInput("free_bytes", self.free_bytes, "give 0 or more")
        if self.exit_point is not None and self.exit_point not in _POINTS:
            raise InvalidInput("exit", self.exit_point, f"give one of {', '.join(sorted(_POINTS))}")
        if self.exit_arrival < 1:
            raise InvalidInput("exit", self.exit_arrival, "arrivals count from 1")


class FaultyStorage:
    """Another storage, with faults as planned.

    One seed gives one sequence of faults for one sequence of operations.
    """

    def __init__(self, inner: SnapshotStore, plan: FaultPlan, *, sleep: Sleep = asyncio.sleep) -> None:
        self.inner = inner
        self.plan = plan
        """Plan of the faults. Replace it to change the faults of operations that begin from now on."""
        self._sleep = sleep
        self._random = random.Random(plan.seed)  # noqa: S311  # no secret
        # A separate generator, so that plans without torn writes keep their sequence of faults.
        self._tears = random.Random(plan.seed)  # noqa: S311  # no secret
        self._arrivals: dict[str, int] = {}
        self._topics: dict[int, str] = {}
        if isinstance(inner, HasPoints):
            inner.at_point = self._arrive

    @property
    def swept_count(self) -> int:
        """Incomplete snapshots that the wrapped storage deleted at its last start; 0 if it does not count them."""
        return int(getattr(self.inner, "swept_count", 0))

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
    ) -> None:
        """Call the wrapped storage, with faults."""
        await self._with_faults(
            "replace",
            topic,
            lambda: self.inner.replace(
                topic, cursor, remove=remove, add=add, epoch=epoch, writer=writer, mark_delete=mark_delete
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

    async def _with_faults(self, operation: str, topic: str | None, perform: Callable[[], Awaitable[T]]) -> T:
        plan = self.plan
        chosen = self._chosen(topic)
        # Both numbers are drawn for every operation, so that changing one share does not shift the other's faults.
        draw_before, draw_after = self._random.random(), self._random.random()
        if chosen and plan.latency_ms:
            await self._sleep(plan.latency_ms / 1_000)
        self._arrive(f"{operation}.before")
        if chosen and draw_before < plan.error_before:
            raise StorageUnavailable(f"a planned fault before {operation}; nothing was done")
        outcome = await perform()
        self._arrive(f"{operation}.after")
        if chosen and draw_after < plan.error_after:
            raise StorageUnavailable(f"a planned fault after {operation}; it was done nevertheless")
        return outcome

    def _chosen(self, topic: str | None) -> bool:
        return self.plan.topic is None or self.plan.topic == topic

    def _arrive(self, point: str) -> None:
        if point != self.plan.exit_point:
            return
        arrival = self._arrivals[point] = self._arrivals.get(point, 0) + 1
        if arrival == self.plan.exit_arrival:
            os.kill(os.getpid(), signal.SIGKILL)


def parse_fault_plan(options: str) -> FaultPlan:
    """Parse the options of a ``faulty:`` URL.

    Raises:
        InvalidInput: an unknown option or a malformed value; the message names it.
    """
    values: dict[str, object] = {}
    for option in filter(None, options.split(",")):
        key, _, raw = option.partition("=")
        value = unquote(raw)
        try:
            match key:
                case "exit":
                    values["exit_point"], _, arrival = value.partition(":")
                    values["exit_arrival"] = int(arrival or "1")
                case "error_before" | "error_after" | "torn":
                    values[key] = float(value)
                case "latency_ms" | "seed" | "free_bytes":
                    values[key] = int(value)
                case "topic":
                    values[key] = value
                case _:
                    raise InvalidInput(
                        "storage URL",
                        option,
                        "give exit, error_before, error_after, torn, latency_ms, free_bytes, topic or seed",
                    )
        except ValueError as error:
            raise InvalidInput("storage URL", option, "give a number") from error
    return FaultPlan(**values)  # type: ignore[arg-type]  # each value has the type of its field above


def open_faulty(rest: str) -> FaultyStorage:
    """Return the storage of ``faulty:OPTIONS;URL``, with the faults of its options; not started."""
    options, semicolon, url = rest.partition(";")
    if not semicolon:
        raise InvalidInput("storage URL", f"faulty:{rest}", "write faulty:OPTIONS;URL, as in faulty:seed=1;memory:")
    return FaultyStorage(open_storage(url), parse_fault_plan(options))
