"""Tools for the contract's checks: storages for the length of a check, small snapshots, and requirements."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

from delayed_tracker.core.values.columns import Position
from delayed_tracker.storage.errors import SnapshotNotFound
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore

StorageFactory = Callable[[str], SnapshotStore]
"""Returns the storage of a name, not started: the same name has the same content, a new name is empty."""

Check = Callable[[StorageFactory], Awaitable[None]]
"""Returns, or raises ContractViolation."""


class ContractViolation(AssertionError):
    """The backend does not fulfil the protocol."""


@contextlib.asynccontextmanager
async def started(factory: StorageFactory, name: str) -> AsyncIterator[SnapshotStore]:
    """Start a storage, yield it, and close it at the end."""
    store = factory(name)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


async def each_of(entries: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Yield entries in the form that a create takes."""
    for entry in entries:
        yield entry


async def create(
    store: SnapshotStore,
    segments: Sequence[bytes],
    *,
    metadata: bytes = b"metadata",
    topic: str = "topic",
    cursor: str = "cursor",
    epoch: int = 1,
) -> int:
    """Create a snapshot whose segments are all available."""
    return await store.create_bucket_snapshot(
        metadata, each_of(segments), bucket_key="key", topic=topic, cursor=cursor, epoch=epoch
    )


async def create_slowly(store: SnapshotStore, reached: asyncio.Event, go_on: asyncio.Event) -> int:
    """Create a snapshot; set ``reached`` when its first segments were taken, wait for ``go_on`` before the last."""

    async def segments() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield b"early" * 1_000
        reached.set()
        await go_on.wait()
        yield b"late"

    return await store.create_bucket_snapshot(
        b"metadata", segments(), bucket_key="key", topic="topic", cursor="cursor", epoch=1
    )


def entry_of(bucket_id: int) -> CatalogueEntry:
    """Return a catalogue entry whose fields depend only on its id."""
    first, last = Position(bucket_id, 0), Position(bucket_id, 9)
    return CatalogueEntry(bucket_id, first, last, b"summary", seal_number=1_000 + bucket_id)


async def expect_gone(store: SnapshotStore, bucket_id: int) -> None:
    """Require that every read of the snapshot raises SnapshotNotFound."""
    with expect(SnapshotNotFound, f"metadata of {bucket_id}"):
        await store.get_bucket_snapshot_metadata(bucket_id)
    with expect(SnapshotNotFound, f"segments of {bucket_id}"):
        await store.get_bucket_snapshot_segments(bucket_id, 1, 1)
    with expect(SnapshotNotFound, f"length of {bucket_id}"):
        await store.get_bucket_snapshot_length(bucket_id)


def require_equal(found: object, expected: object, what: str) -> None:
    """Raise ContractViolation unless ``found`` equals ``expected``."""
    if found != expected:
        raise ContractViolation(f"{what}: expected {expected!r:.500}, found {found!r:.500}")


@contextlib.contextmanager
def expect(error: type[BaseException], what: str) -> Iterator[None]:
    """Require that the block raises this error."""
    try:
        yield
    except error:
        return
    raise ContractViolation(f"{what}: expected {error.__name__}, but it succeeded")
