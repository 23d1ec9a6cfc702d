"""Storages with real snapshots in them, and what the tests compare of two storages."""

import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from delayed_tracker.core.rules.seal import SealedIndexes
from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.values.changes import Added, OfferedThrough
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.storage.add_log import AddLog, LogAppend
from delayed_tracker.storage.codec.codec import encode_snapshot
from delayed_tracker.storage.codec.log_records import encode_change
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.storage.protocol import CatalogueEntry, LogMark, SnapshotStore
from delayed_tracker.storage.summary import encode_summary
from delayed_tracker.storage.testing.contract_tools import create

KEY = ("persistent://t/ns/orders", "billing")
OWNER = "owner"
OFFERED = Position(9, 9)


def ignore(_done: int, _total: int) -> None:
    """Take progress."""


async def at_once(operation: Callable[[], Awaitable[object]]) -> object:
    """Perform an operation without a retry."""
    return await operation()


@asynccontextmanager
async def in_memory(*, log: bool = True) -> AsyncIterator[WholeStorage]:
    """Yield an empty storage in memory, started."""
    async with whole("memory", MemoryStorage(), MemoryAddLog() if log else None) as made:
        yield made


@asynccontextmanager
async def whole(name: str, storage: SnapshotStore, log: AddLog | None) -> AsyncIterator[WholeStorage]:
    """Start a storage and its log, yield them, and close them."""
    await storage.start()
    if log is not None:
        await log.start()
    try:
        yield WholeStorage(name, storage, log)
    finally:
        if log is not None:
            await log.close()
        await storage.close()


def rows_of(ledger: int, count: int) -> IndexColumns:
    """Return indexes of one ledger, sorted by deadline."""
    return IndexColumns.of([(1_000_000 + 500 * entry, ledger, entry) for entry in range(count)])


async def add_bucket(
    storage: SnapshotStore,
    ledger: int,
    count: int = 9,
    *,
    key: tuple[str, str] = KEY,
    epoch: int = 1,
    seal: int = 1,
    codec: SnapshotCodec = SnapshotCodec.PULSAR,
) -> CatalogueEntry:
    """Store a bucket of one ledger and name it in the catalogue; entry 0 is consumed."""
    entry = await stored_bucket(storage, ledger, count, key=key, epoch=epoch, seal=seal, codec=codec)
    await storage.replace(*key, remove=(), add=[entry], epoch=epoch, writer=OWNER, mark_delete=Position(0, 7))
    return entry


async def stored_bucket(
    storage: SnapshotStore,
    ledger: int,
    count: int = 9,
    *,
    key: tuple[str, str] = KEY,
    epoch: int = 1,
    seal: int = 1,
    codec: SnapshotCodec = SnapshotCodec.PULSAR,
) -> CatalogueEntry:
    """Store the snapshot of a bucket that no catalogue names, and return its entry."""
    indexes = rows_of(ledger, count)
    bounds = cut_segments(indexes.deliver_at_ms, step_ms=2_000, count_max=3)
    first, last = Position(ledger, 0), Position(ledger, count - 1)
    positions = PositionBitmap.of(indexes.positions)
    encoded = encode_snapshot(codec, SealedIndexes(indexes, bounds, first, last), positions)
    topic, cursor = key
    bucket_id = await create(
        storage, encoded.segments, metadata=encoded.metadata, topic=topic, cursor=cursor, epoch=epoch
    )
    return CatalogueEntry(
        bucket_id,
        first,
        last,
        encode_summary(bounds, positions, encoded.length),
        PositionBitmap.of(indexes.take(slice(0, 1)).positions).serialize(),
        Position(0, 5),
        seal,
    )


async def log_records(
    log: AddLog, *, key: tuple[str, str] = KEY, epoch: int = 1, first: int = 1, offered: Position = OFFERED
) -> None:
    """Append three records: indexes of ledger 90, a claim, indexes of ledger 91."""
    records = [
        encode_change(change) for change in (Added(rows_of(90, 3)), OfferedThrough(offered), Added(rows_of(91, 2)))
    ]
    assert await log.append([LogAppend(*key, epoch, first, records)], writer=OWNER) == []


async def content(storage: SnapshotStore, key: tuple[str, str] = KEY) -> tuple[object, ...]:
    """Return what a storage has of a tracker: entries without ids, snapshots, positions and claim."""
    state = await storage.list(*key)
    found = []
    for entry in state.entries:
        metadata = await storage.get_bucket_snapshot_metadata(entry.bucket_id)
        count = len(cut_of(entry))
        segments = await storage.get_bucket_snapshot_segments(entry.bucket_id, 1, count)
        found.append((dataclasses.replace(entry, bucket_id=0), metadata, tuple(segments)))
    return tuple(found), state.corrupt, state.mark_delete, state.log_mark.offered_through


def cut_of(entry: CatalogueEntry) -> Sequence[int]:
    """Return the row counts of a bucket's segments as :func:`stored_bucket` has cut them."""
    count = entry.last.entry_id + 1
    return [3] * (count // 3) + ([count % 3] if count % 3 else [])


async def uncut(whole_storage: WholeStorage, key: tuple[str, str] = KEY) -> list[bytes]:
    """Return the records that a recovery would apply."""
    assert whole_storage.log is not None
    mark = (await whole_storage.snapshots.list(*key)).log_mark
    page = await whole_storage.log.read(*key, after=mark.number, bytes_max=2**20)
    assert page.corrupt == ()
    return [each.record for each in page.records]


async def marked(storage: SnapshotStore, mark: LogMark, key: tuple[str, str] = KEY, epoch: int = 1) -> None:
    """Record the part of the log that the catalogue contains."""
    await storage.replace(*key, remove=(), add=(), epoch=epoch, writer=OWNER, mark=mark)
