"""Snapshots of both codecs in one tracker: sealed, merged, imported, recovered, looked at."""

import asyncio
import dataclasses

import google_crc32c
import numpy as np
import pytest

from delayed_tracker.core.rules.segment import cut_segments
from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import MessagePlace
from delayed_tracker.service.errors import ImportRejected
from delayed_tracker.service.grpc.import_stream import ImportStream
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.importing import SnapshotImport
from delayed_tracker.service.queries.explain import explain
from delayed_tracker.service.queries.verification import SnapshotVerification
from delayed_tracker.storage.codec import columnar
from delayed_tracker.storage.codec.codec import codec_of, decode_metadata, decode_segments
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.summary import decode_summary
from tests.service.harness.imports import sent, snapshot
from tests.service.harness.registry_life import FAR_MS, fill, open_tracker, restarted
from tests.service.harness.shell import KEY, TINY, bucketful, elapse, failing, indexes, make_registry, rows, settle

COLUMNAR = ServiceLimits(snapshot_codec=SnapshotCodec.COLUMNAR)
PULSAR = ServiceLimits()
MERGING = dataclasses.replace(TINY, max_num_buckets=1)


@pytest.fixture
async def registry(storage, clock):
    registry = make_registry(storage, clock, service_limits=dataclasses.replace(COLUMNAR))
    await registry.start()
    yield registry
    closing = asyncio.create_task(registry.close())
    await elapse(clock, 0)
    await closing


async def stored_codecs(storage) -> list[SnapshotCodec]:
    """Return the codec of each snapshot that the catalogue names, after comparing the snapshot with its summary."""
    codecs = []
    for entry in (await storage.inner.list(*KEY)).entries:
        stored = await storage.inner.get_bucket_snapshot_metadata(entry.bucket_id)
        metadata, summary = decode_metadata(stored), decode_summary(entry.summary)
        segments = await storage.inner.get_bucket_snapshot_segments(entry.bucket_id, 1, len(metadata.bounds))
        assert {codec_of(segment) for segment in segments} == {codec_of(stored)}
        assert [len(decode_segments([segment])) for segment in segments] == metadata.bounds.count.tolist()
        assert summary.groups.bounds.count.tolist() == metadata.bounds.count.tolist()
        assert summary.bits == metadata.positions()
        assert summary.snapshot_bytes == await storage.inner.get_bucket_snapshot_length(entry.bucket_id)
        codecs.append(codec_of(stored))
    return codecs


async def drained(host, epoch, clock) -> list[tuple[int, int]]:
    """Return everything that comes due."""
    found = []
    for _ in range(100):
        await elapse(clock, FAR_MS // 20)
        while batch := rows(await host.poll(epoch, max_count=100, wait_ms=0, lease_ms=0)):
            found += batch
            await settle()
    return sorted(found)


async def test_a_bucket_is_sealed_in_the_codec_of_the_settings(registry, clock, storage):
    """Its segments are joined up to the maximum, and everything comes back in time."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 2)
    assert await stored_codecs(storage) == [SnapshotCodec.COLUMNAR] * 2
    expected = [(ledger, entry) for ledger in (1, 2) for entry in range(5)] + [(3, 0)]
    assert await drained(host, opened.epoch, clock) == expected


async def test_sparse_segments_are_joined(storage, clock):
    """Deadlines a step apart are one segment, of which Pulsar's codec makes five."""
    for service_limits, expected in ((COLUMNAR, [5]), (PULSAR, [1] * 5)):
        registry = make_registry(
            storage,
            clock,
            limits=dataclasses.replace(TINY, max_indexes_per_segment=100),
            service_limits=service_limits,
        )
        await registry.start()
        host, opened = await open_tracker(registry)
        ledger = 1 if service_limits is COLUMNAR else 7
        host.add(opened.epoch, bucketful(clock.now_ms(), ledger, delay_ms=FAR_MS, step_ms=2_000))
        host.add(opened.epoch, indexes(clock.now_ms(), (ledger + 1, 0, FAR_MS)))
        await settle()
        (*_, entry) = (await storage.inner.list(*KEY)).entries
        assert decode_summary(entry.summary).groups.bounds.count.tolist() == expected
        await registry.close()


async def test_a_codec_changes_without_a_restart(registry, clock, storage):
    """The next seal after a reload writes the new codec; what is stored stays."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 1)
    registry.service_limits.adopt(PULSAR)
    host.add(opened.epoch, bucketful(clock.now_ms(), 2, delay_ms=FAR_MS))
    host.add(opened.epoch, indexes(clock.now_ms(), (3, 0, FAR_MS)))
    await settle()
    assert await stored_codecs(storage) == [SnapshotCodec.COLUMNAR, SnapshotCodec.PULSAR]


@pytest.mark.parametrize("service_limits", [COLUMNAR, PULSAR], ids=["columnar", "pulsar"])
async def test_buckets_of_both_codecs_are_merged(registry, clock, storage, service_limits):
    """A merge reads each source in its own codec and writes that of the settings."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 2)
    again = await restarted(registry, storage, clock, service_limits=PULSAR)
    host, opened = await open_tracker(again)
    host.add(opened.epoch, bucketful(clock.now_ms(), 3, delay_ms=FAR_MS))
    host.add(opened.epoch, bucketful(clock.now_ms(), 4, delay_ms=FAR_MS))
    await settle()
    assert sorted(await stored_codecs(storage)) == ["columnar", "columnar", "pulsar"]
    last = await restarted(again, storage, clock, service_limits=service_limits, limits=MERGING)
    host, opened = await open_tracker(last)
    host.add(opened.epoch, bucketful(clock.now_ms(), 5, delay_ms=FAR_MS))
    host.add(opened.epoch, indexes(clock.now_ms(), (6, 0, FAR_MS)))
    await elapse(clock, 10_000)
    assert await stored_codecs(storage) == [service_limits.snapshot_codec]
    assert last.counters.snapshots_merged
    host.core_for_reading().check()
    expected = [(ledger, entry) for ledger in (1, 2, 3, 5) for entry in range(5)] + [(6, 0)]
    assert await drained(host, opened.epoch, clock) == expected
    await last.close()


async def test_a_partly_due_bucket_skips_what_is_due(registry, clock, storage):
    """A recovery without a log reads the due segments, because the metadata has one bitmap, and skips them."""
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000, count=12, step_ms=500))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    await registry.close()
    clock.advance(8_000)  # entries 0 to 6 are due; segments have three rows
    again = make_registry(storage, clock, service_limits=COLUMNAR)
    await again.start()
    host, opened = await open_tracker(again)
    tracked = host.contains(PositionColumns.of([(1, entry) for entry in range(12)])).tolist()
    assert tracked == [False] * 6 + [True] * 6
    assert opened.recovered_count == 6
    await again.close()


@pytest.mark.parametrize(("error", "counter"), [(SnapshotNotFound, "missing"), (SnapshotCorrupt, "corrupt")])
async def test_due_segments_that_cannot_be_read_lose_the_bucket(registry, clock, storage, error, counter):
    """As with damaged metadata, the bucket is dropped and counted, and the rest recovers."""
    host, opened = await open_tracker(registry)
    host.add(opened.epoch, bucketful(clock.now_ms(), 1, delay_ms=5_000, count=12, step_ms=500))
    host.add(opened.epoch, indexes(clock.now_ms(), (2, 0, FAR_MS)))
    await settle()
    await registry.close()
    clock.advance(8_000)
    storage.before["get_bucket_snapshot_segments"] = failing(error("lost"))
    again = make_registry(storage, clock, service_limits=COLUMNAR)
    await again.start()
    host, opened = await open_tracker(again)
    assert (opened.recovered_count, getattr(host.counters, f"snapshots_{counter}")) == (0, 1)
    await again.close()


async def test_a_position_is_explained_from_its_segment(registry, clock, storage):
    """Without a bitmap for each segment, the segments are read in order until one has the position."""
    host, opened = await open_tracker(registry)
    now_ms = clock.now_ms()
    await fill(host, opened.epoch, clock, 1)
    for entry in range(5):
        found = await explain(host, registry.access, Position(1, entry))
        assert found.found.place is MessagePlace.UNLOADED_SEGMENT
        assert (found.segment, found.found.deliver_at_ms) == (entry // 3, now_ms + FAR_MS + 10 * entry)


async def test_a_position_that_the_snapshot_lost_is_explained_so(registry, clock, storage):
    """A snapshot without the position asks for a verification, whose verdict names the difference."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 1)
    inner = storage.inner
    segments = await inner.get_bucket_snapshot_segments(1, 1, 2)

    async def first_twice(bucket_id, first, last):
        return [segments[0]] * (last - first + 1)

    inner.get_bucket_snapshot_segments = first_twice
    found = await explain(host, registry.access, Position(1, 4))
    assert found.segment is None
    assert "the snapshot does not hold it: verify the snapshots" in found.sentence
    (verdict,) = (await SnapshotVerification(registry, KEY).run()).verdicts
    assert "Segment 1: it has 3 rows where the metadata counts 2." in verdict.problems
    assert "Its positions are not those of the bitmap in its metadata." in verdict.problems


async def test_sound_snapshots_are_verified(registry, clock, storage):
    """A verification reads columnar snapshots and finds nothing."""
    host, opened = await open_tracker(registry)
    await fill(host, opened.epoch, clock, 2)
    verdicts = (await SnapshotVerification(registry, KEY).run()).verdicts
    assert [(verdict.index_count, verdict.problems) for verdict in verdicts] == [(5, []), (5, [])]


async def imported(registry, *snapshots):
    stream = ImportStream(sent(*snapshots))
    _, terms = await stream.terms()
    return await SnapshotImport(registry, KEY, terms).run(stream.buckets())


async def test_an_import_is_stored_in_the_codec_of_the_settings(storage, clock):
    """Snapshots come in Pulsar's codec; their segments are joined and encoded again."""
    limits = dataclasses.replace(TINY, max_indexes_per_segment=7)
    registry = make_registry(storage, clock, service_limits=COLUMNAR, limits=limits)
    await registry.start()
    far = clock.now_ms() + FAR_MS
    given = [snapshot(*((far + 400 * entry, ledger, entry) for entry in range(20))) for ledger in (10, 11)]
    importing = asyncio.ensure_future(imported(registry, *given))
    await elapse(clock, 1_000)
    assert (await importing).tracked_count == 40
    assert await stored_codecs(storage) == [SnapshotCodec.COLUMNAR] * 2
    (entry, _) = (await storage.inner.list(*KEY)).entries
    assert decode_summary(entry.summary).groups.bounds.count.tolist() == [6, 6, 6, 2]  # of segments of three
    host, opened = await open_tracker(registry)
    assert await drained(host, opened.epoch, clock) == [(ledger, entry) for ledger in (10, 11) for entry in range(20)]
    await registry.close()


async def test_a_columnar_import_is_refused(registry, clock):
    """Imports come in Pulsar's codec, as the Spark rebuild writes it."""
    given = snapshot((clock.now_ms() + FAR_MS, 10, 1))
    bits = PositionBitmap.of(PositionColumns.of([(10, 1)]))
    metadata = columnar.encode_metadata(cut_segments(np.array([clock.now_ms() + FAR_MS]), step_ms=1, count_max=1), bits)
    given = dataclasses.replace(given, entries=[(metadata, google_crc32c.value(metadata)), *given.entries[1:]])
    with pytest.raises(ImportRejected, match="its codec is not pulsar; send it as Pulsar encodes it"):
        await imported(registry, given)
