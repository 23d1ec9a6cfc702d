"""Copies in Pulsar's codec: the same rows, bounds and catalogue, and bytes as Pulsar writes them."""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.storage.codec.codec import codec_of, decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.storage.maintenance.checking import check_storage
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.maintenance.recoded import RecodedSnapshots
from delayed_tracker.storage.maintenance.tracker_copy import CopyCounts
from delayed_tracker.storage.protocol import SnapshotStore
from delayed_tracker.storage.summary import decode_summary
from tests.snapshot_storage.shared.maintenance.stores import KEY, OWNER, add_bucket, at_once, ignore, in_memory, rows_of


class Killed(Exception):
    """The end of a copy at a named point."""


@asynccontextmanager
async def filled(*codecs: SnapshotCodec) -> AsyncIterator[WholeStorage]:
    """Yield a storage with a bucket in each of the codecs, of ledgers 1 and up."""
    async with in_memory() as source:
        for ledger, codec in enumerate(codecs, start=1):
            await add_bucket(source.snapshots, ledger, seal=ledger, codec=codec)
        yield source


async def copied(source: WholeStorage, target: WholeStorage, at_point=lambda _: None) -> CopyCounts:
    read = dataclasses.replace(source, snapshots=RecodedSnapshots(source.snapshots))
    return await copy_storage(read, target, progress=ignore, attempt=at_once, at_point=at_point)


async def rows_and_codecs(storage: SnapshotStore) -> tuple[list, set[SnapshotCodec]]:
    """Return the rows of all buckets by segment, after comparing each snapshot with its summary; and their codecs."""
    rows, codecs = [], set()
    for entry in (await storage.list(*KEY)).entries:
        metadata = await storage.get_bucket_snapshot_metadata(entry.bucket_id)
        count = len(decode_metadata(metadata).bounds)
        segments = await storage.get_bucket_snapshot_segments(entry.bucket_id, 1, count)
        codecs |= {codec_of(stored) for stored in (metadata, *segments)}
        rows.append([list(decode_segments([segment])) for segment in segments])
        length = sum(map(len, (metadata, *segments)))
        assert length == await storage.get_bucket_snapshot_length(entry.bucket_id)
        assert length == decode_summary(entry.summary).snapshot_bytes
    return rows, codecs


async def test_a_mixed_tracker_is_copied_in_pulsar_codec():
    """Columnar snapshots become Pulsar's, segment by segment; the others are copied; the source stays."""
    async with (
        filled(SnapshotCodec.COLUMNAR, SnapshotCodec.PULSAR, SnapshotCodec.COLUMNAR) as source,
        in_memory() as target,
    ):
        counts = await copied(source, target)
        assert (counts.tracker_count, counts.snapshot_count) == (1, 3)
        rows, codecs = await rows_and_codecs(target.snapshots)
        assert codecs == {SnapshotCodec.PULSAR}
        assert rows == (await rows_and_codecs(source.snapshots))[0]
        assert [sum(map(len, bucket)) for bucket in rows] == [len(rows_of(1, 9))] * 3
        check = await check_storage(target.snapshots, progress=ignore, attempt=at_once)
        assert check.is_sound
        assert (await rows_and_codecs(source.snapshots))[1] == set(SnapshotCodec)


@pytest.mark.parametrize("point", ["snapshot.created", "snapshot.published", "tracker.snapshots", "copy.verified"])
async def test_an_interrupted_copy_goes_on(point):
    """Snapshots that the target already names are not copied again."""

    def killed(name: str) -> None:
        if name == point:
            raise Killed(point)

    async with filled(SnapshotCodec.COLUMNAR, SnapshotCodec.COLUMNAR) as source, in_memory() as target:
        with pytest.raises((Killed, ExceptionGroup)):
            await copied(source, target, killed)
        counts = await copied(source, target)
        assert counts.snapshot_count + counts.kept_snapshot_count == 2
        assert bool(counts.kept_snapshot_count) == (point != "snapshot.created")
        rows, codecs = await rows_and_codecs(target.snapshots)
        assert codecs == {SnapshotCodec.PULSAR}
        assert rows == (await rows_and_codecs(source.snapshots))[0]


async def test_a_damaged_snapshot_is_named():
    """A snapshot whose segments are not those of its metadata is not copied."""
    async with filled(SnapshotCodec.COLUMNAR) as source, in_memory() as target:
        (entry,) = (await source.snapshots.list(*KEY)).entries
        read = source.snapshots.get_bucket_snapshot_segments

        async def first_alone(bucket_id, first, last):
            return (await read(bucket_id, 1, 1)) * (last - first + 1)

        await add_bucket(source.snapshots, 2, 2, seal=2, codec=SnapshotCodec.COLUMNAR)
        source.snapshots.get_bucket_snapshot_segments = first_alone
        with pytest.raises(SnapshotCorrupt, match=r"bucket \d+ of .* cannot be read from the source .*9 rows, or one"):
            await copied(source, target)
        assert entry.bucket_id


async def test_writes_and_listings_go_through():
    """The view of a storage changes what it reads and nothing else."""
    async with filled(SnapshotCodec.COLUMNAR) as source:
        view = RecodedSnapshots(source.snapshots)
        assert await view.trackers() == [KEY]
        assert await view.list_bucket_snapshots(*KEY) == await source.snapshots.list_bucket_snapshots(*KEY)
        (entry,) = (await view.list(*KEY)).entries
        state = await view.replace(*KEY, remove=(entry.bucket_id,), add=(), epoch=2, writer=OWNER)
        assert state is None or not state.entries
        await view.delete_bucket_snapshot(entry.bucket_id)
        assert not await source.snapshots.list_bucket_snapshots(*KEY)
        await view.forget(*KEY, epoch=2, writer=OWNER)
        assert not await view.trackers()
