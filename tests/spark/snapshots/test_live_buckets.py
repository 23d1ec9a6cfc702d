"""Plans of live buckets: their rows are those of the rules for positions, however the buckets are divided."""

import asyncio
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from delayed_tracker.core.rules.segment import SegmentBounds
from delayed_tracker.core.rules.segment_groups import SegmentGroups
from delayed_tracker.core.values.columns import BEFORE_ALL, Position
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.spark.snapshots import live_buckets as planning
from delayed_tracker.spark.snapshots.live_buckets import TrackerBuckets, live_buckets, read_rows
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.memory import MemoryStorage
from tests.service.harness.shell import KEY
from tests.spark.harness.buckets import Place, store_bucket

places = st.tuples(st.integers(1, 3), st.integers(0, 12))


@dataclass(frozen=True)
class Bucket:
    deadlines: dict[Place, int]
    seal_number: int
    consumed: list[Place]
    with_summary: bool
    codec: SnapshotCodec


buckets = st.lists(
    st.builds(
        Bucket,
        st.dictionaries(places, st.integers(0, 900), min_size=1, max_size=25),
        st.integers(1, 1_000),
        st.lists(places, max_size=6),
        st.booleans(),
        st.sampled_from(SnapshotCodec),
    ),
    max_size=5,
    unique_by=lambda bucket: bucket.seal_number,
)


async def planned(storage: MemoryStorage, piece_bytes: int) -> tuple[TrackerBuckets, list[tuple[int, Place, int]]]:
    """Return the plan of the tracker and, sorted, (bucket id, position, deadline) of all rows of its pieces."""
    plan = await live_buckets(storage, *KEY, piece_bytes=piece_bytes)
    rows = []
    for piece in plan.pieces:
        gone = PositionBitmap.deserialize(piece.gone)
        for first, last in piece.reads:
            found = await read_rows(storage, piece, gone, first, last)
            rows += [(piece.bucket_id, (ledger, entry), deadline) for deadline, ledger, entry in found]
    return plan, sorted(rows)


@given(buckets, st.just(BEFORE_ALL) | places.map(lambda place: Position(*place)), st.sampled_from((1, 60, 10**6)))
def test_rows_are_what_a_tracker_would_hand_out(given_buckets, mark_delete, piece_bytes):
    """The highest seal number has a position, unless it is consumed there or acknowledged; every piece adds its part."""

    async def life():
        storage = MemoryStorage()
        await storage.start()
        entries = [
            await store_bucket(
                storage,
                KEY,
                bucket.deadlines,
                seal_number=bucket.seal_number,
                consumed=bucket.consumed,
                with_summary=bucket.with_summary,
                codec=bucket.codec,
            )
            for bucket in given_buckets
        ]
        await storage.replace(*KEY, remove=(), add=entries, epoch=1, mark_delete=mark_delete)
        return [entry.bucket_id for entry in entries], *(await planned(storage, piece_bytes))

    ids, plan, rows = asyncio.run(life())
    expected = {}
    for bucket_id, bucket in sorted(zip(ids, given_buckets, strict=True), key=lambda pair: -pair[1].seal_number):
        for place, deadline in bucket.deadlines.items():
            if place > mark_delete and place not in bucket.consumed:
                expected.setdefault(place, (bucket_id, place, deadline))
    assert rows == sorted(expected.values())
    assert not plan.lost
    live = {bucket_id for bucket_id, _, _ in rows}
    counts = {
        bucket_id: sum(piece.index_count for piece in plan.pieces if piece.bucket_id == bucket_id) for bucket_id in live
    }
    assert counts == {
        bucket_id: len(bucket.deadlines)
        for bucket_id, bucket in zip(ids, given_buckets, strict=True)
        if bucket_id in live
    }


def test_a_large_bucket_is_divided_between_segments(monkeypatch):
    """A piece has about the wanted bytes, a request has a bounded number of rows, and no segment is read twice."""
    monkeypatch.setattr(planning, "ROWS_AT_ONCE", 10)
    counts = np.array([4] * 50 + [30] + [4], np.int64)
    deadlines = np.zeros(len(counts), np.int64)
    groups = SegmentGroups.of(SegmentBounds(counts, deadlines, deadlines))
    pieces = list(planning._divided(groups, 2_340, 600))  # 10 bytes a row
    reads = [read for of_piece, _, _ in pieces for read in of_piece]
    assert [number for first, last in reads for number in range(first, last + 1)] == list(range(1, 53))
    assert all(counts[first - 1 : last].sum() <= 10 or first == last for first, last in reads)
    assert [rows for _, rows, _ in pieces] == [64, 64, 64, 42]
    assert sum(size for _, _, size in pieces) == 2_340


def test_a_bucket_is_divided_between_its_groups_of_segments(monkeypatch):
    """Requests are for all segments of some groups, and the last group may have fewer segments."""
    monkeypatch.setattr(planning, "ROWS_AT_ONCE", 10)
    deadlines = np.zeros(11, np.int64)
    groups = SegmentGroups.in_groups_of(SegmentBounds(np.full(11, 2), deadlines, deadlines), 4)
    pieces = list(planning._divided(groups, 220, 110))
    assert [reads for reads, _, _ in pieces] == [((1, 4), (5, 8)), ((9, 11),)]
    assert [rows for _, rows, _ in pieces] == [16, 6]


def test_what_cannot_be_read_is_named_and_the_rest_planned(tmp_path):
    """A lost snapshot is no error of its neighbours, and hides nothing of theirs."""

    async def life():
        storage = MemoryStorage()
        await storage.start()
        whole = await store_bucket(storage, KEY, {(1, 0): 5, (1, 1): 6}, seal_number=1)
        lost = await store_bucket(storage, KEY, {(1, 1): 7}, seal_number=2, with_summary=False)
        await storage.replace(*KEY, remove=(), add=[whole, lost], epoch=1)
        await storage.delete_bucket_snapshot(lost.bucket_id)
        plan, rows = await planned(storage, 10**6)
        unreadable = replace(whole, summary=b"\x01", consumed=b"no bitmap")
        await storage.replace(*KEY, remove=(lost.bucket_id,), add=[unreadable], epoch=1)
        return whole.bucket_id, lost.bucket_id, plan, rows, await planned(storage, 10**6)

    whole_id, lost_id, plan, rows, (again, rows_again) = asyncio.run(life())
    assert rows == [(whole_id, (1, 0), 5), (whole_id, (1, 1), 6)]
    (lost,) = plan.lost
    assert (lost.bucket_id, lost.error.startswith(f"bucket {lost_id}: ")) == (lost_id, True)
    assert "if a service has replaced it meanwhile, run again" in lost.error
    # A damaged summary is replaced by the snapshot's metadata, and damaged consumed positions come back.
    assert (rows_again, again.lost) == (rows, ())
