"""Tests of publishing over real bookies: what a broker would find, and what is left when the publisher is killed."""

import asyncio
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delayed_tracker.bookkeeper.metadata.layout import Layout
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.cluster.change_record import ChangeRecord, read_changes
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import CursorChanged, TopicLoaded, TopicTerminated
from delayed_tracker.cluster.publication.publishing import plan_subscription
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotTooLarge
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import WholeStorage, opened_storage
from delayed_tracker.storage.maintenance.recoded import RecodedSnapshots
from delayed_tracker.storage.protocol import SnapshotStore
from tests.bookkeeper.servers.cluster import Cluster
from tests.cluster.brokers import told_topics
from tests.cluster.made_cluster import NOW_MS, SUBSCRIPTION, TOPIC, MadeCluster, indexes_of
from tests.cluster.publication.publications import (
    LEDGERS,
    LIMITS,
    TRACKER,
    all_rows,
    ledger_ids,
    properties,
    published,
    store,
)

pytestmark = pytest.mark.slow


async def test_ranges_of_whole_ledgers(made: MadeCluster, storage: SnapshotStore):
    """Buckets that share ledgers, hold a position twice, and were consumed in part become disjoint ranges."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([], info=cursor_at(1, 1, acked=(2, 4)))
    older = indexes_of([1, 2, 3, 4])
    newer = IndexColumns(*(column[6:] for column in (older.deliver_at_ms + 70_000, older.ledger_id, older.entry_id)))
    consumed = PositionBitmap.of(PositionColumns.of([(4, 7)])).serialize()
    await store(storage, older, 1)
    await store(storage, newer.sorted(), 2, consumed=consumed)
    await store(storage, indexes_of([5, 6]), 3)

    (result,) = await published(made, storage)
    expected = {(ledger, entry): at for at, ledger, entry in older}
    expected |= {(ledger, entry): at for at, ledger, entry in newer}
    expected |= {(ledger, entry): at for at, ledger, entry in indexes_of([5, 6])}
    # A position is consumed in the bucket that has it last; the older copy would come back otherwise, which is harmless.
    for gone in ((1, 0), (1, 1), (2, 4)):
        del expected[gone]
    found = {(ledger, entry): at for at, ledger, entry in await all_rows(made)}
    assert {key: at for key, at in found.items() if key != (4, 7)} == {
        key: at for key, at in expected.items() if key != (4, 7)
    }
    assert result.index_count == len(found)
    ranges = [bucket.ledgers for bucket in await properties(made)]
    assert ranges == [(1, 2), (3, 4), (5, 6)]
    for bucket in await properties(made):
        metadata = await made.cluster.client.metadata(bucket.bucket_id)
        assert metadata.closed
        assert metadata.digest_type is DigestType.CRC32C
        assert dict(metadata.custom) == {
            "application": b"pulsar",
            "component": b"delayed-index-bucket",
            "pulsar/delayedIndexBucketKey": bucket.name.encode(),
            "pulsar/delayedIndexTopic": str(TOPIC).encode(),
            "pulsar/delayedIndexCursor": SUBSCRIPTION.encode(),
        }
    node = CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value)
    assert node.with_buckets([]).info.cursor_properties[0].name == "owner"


def cursor_at(ledger: int, entry: int, acked: tuple[int, int] | None = None) -> pb.ManagedCursorInfo:
    info = pb.ManagedCursorInfo(cursors_ledger_id=-1, mark_delete_ledger_id=ledger, mark_delete_entry_id=entry)
    if acked is not None:
        info.individual_deleted_messages.add(
            lower_endpoint={"ledger_id": acked[0], "entry_id": acked[1] - 1},
            upper_endpoint={"ledger_id": acked[0], "entry_id": acked[1]},
        )
    return info


async def test_old_buckets_go_after_their_properties(made: MadeCluster, storage: SnapshotStore):
    """The ledgers of old properties are deleted last, and only those of this subscription."""
    await made.topic(TOPIC, LEDGERS)
    own, strange = await made.bucket(indexes_of([1])), await made.bucket(indexes_of([2]), subscription="another")
    missing = BucketProperty.of(3, 3, 999_999)
    await made.cursor([own, strange, missing])
    await store(storage, indexes_of([1, 2]), 1)
    points: list[str] = []
    (result,) = await published(made, storage, at_point=points.append)
    assert points == [
        "ledger.created",
        "ledgers.written",
        "topics.checked",
        "cursor.recorded",
        "cursor.switched",
        "old.recorded",
        "old.deleted",
    ]
    assert (result.deleted_ledgers, result.left_ledgers) == ([own.bucket_id], [strange.bucket_id])
    remaining = await ledger_ids(made)
    assert own.bucket_id not in remaining
    assert strange.bucket_id in remaining
    assert [bucket.ledgers for bucket in await properties(made)] == [(1, 2)]


async def test_old_buckets_that_cannot_be_recorded_are_left(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """Their bookies are away, their copies or metadata damaged, or they have a password: no reason to end the run."""
    await made.topic(TOPIC, LEDGERS)
    away, damaged, torn = [await made.bucket(indexes_of([ledger])) for ledger in (1, 2, 3)]
    locked, good = await made.bucket(indexes_of([4]), password=b"secret"), await made.bucket(indexes_of([5]))
    await made.move_away(away)
    await made.damage(damaged)
    await made.set(made.ledger_node(torn.bucket_id), b"torn")
    await made.cursor([away, damaged, torn, locked, good])
    await store(storage, indexes_of([1, 2]), 1)
    with await ChangeRecord.create(tmp_path / "before.jsonl", made.cluster) as record:
        (result,) = await published(made, storage, record=record)
    assert set(result.left_ledgers) == {each.bucket_id for each in (away, damaged, torn, locked)}
    assert result.deleted_ledgers == [good.bucket_id]
    assert [bucket.ledgers for bucket in await properties(made)] == [(1, 2)]
    assert set(read_changes(tmp_path / "before.jsonl").deleted) == {good.bucket_id}


async def test_a_refusal_leaves_no_ledger(made: MadeCluster, storage: SnapshotStore):
    """A topic that is loaded while its ledgers are written is refused at the switch, and they are deleted."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([])
    await store(storage, indexes_of([1, 2]), 1)
    before = await ledger_ids(made)
    with told_topics() as told:
        await made.set(f"{made.address.brokers}/b", told.registration)
        with pytest.raises(TopicLoaded):
            await published(made, storage, at_point=lambda point: told.loaded.add(TOPIC))
        assert await ledger_ids(made) == before
        assert await properties(made) == ()
        # Waiting for the unload: it comes after the third question.
        told.asked_count = 0

        def answered() -> None:
            if told.asked_count > 2:
                told.loaded.clear()

        told.on_ask = answered
        said: list[str] = []
        assert len(await published(made, storage, wait_s=60, report=said.append)) == 1
        assert any(sentence.startswith("waiting: ") for sentence in said)


@pytest.mark.parametrize("point", ["ledgers.written", "cursor.recorded"])
async def test_a_repair_that_takes_a_new_ledger_for_an_orphan(
    cluster: Cluster, made: MadeCluster, storage: SnapshotStore, point: str
):
    """No property ever names a ledger that was deleted before the switch, however late."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([])
    await store(storage, indexes_of([1, 2, 3, 4]), 1)
    before, said = await ledger_ids(made), []

    def at_point(name: str) -> None:
        if name == point:
            created = int(re.match(r"ledger (\d+): created", said[0])[1])
            with cluster.zookeeper.connected() as client:
                client.delete(f"{made.address.root}/ledgers/{Layout.HIERARCHICAL.path_of(created)}")

    with pytest.raises(CursorChanged, match=r"a new bucket ledger of cursor .* was deleted"):
        await published(made, storage, at_point=at_point, report=said.append)
    assert await properties(made) == ()
    assert await ledger_ids(made) == before


async def test_topics_that_are_refused(made: MadeCluster, storage: SnapshotStore):
    """A terminated topic, and positions of ledgers that the topic does not have, are errors before anything is written."""
    await made.topic(TOPIC, {1: 8}, terminated=True)
    await made.cursor([])
    await store(storage, indexes_of([1, 9]), 1)
    with pytest.raises(TopicTerminated):
        await published(made, storage)
    await made.topic(TOPIC, {1: 8})
    with pytest.raises(InvalidInput, match="has no ledger 9; give the storage of its cluster"):
        await published(made, storage)
    # Trimmed ledgers are below all others, and their messages are gone.
    await made.topic(TOPIC, {9: 8})
    (result,) = await published(made, storage)
    assert result.index_count == 8


async def test_columnar_snapshots_are_refused_until_they_are_copied(
    made: MadeCluster, storage: SnapshotStore, tmp_path: Path
):
    """The error names the bucket, its codec and the remedy, which works: a copy in Pulsar's codec is published."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([])
    await store(storage, indexes_of([1, 2]), 1)
    await store(storage, indexes_of([3, 4]), 2, SnapshotCodec.COLUMNAR)
    with pytest.raises(InvalidInput, match=r"bucket 2.* columnar codec.*`delayed-tracker storage copy --pulsar-codec`"):
        await plan_subscription(made.cluster, storage, TRACKER, LIMITS)
    assert not await properties(made)

    source = WholeStorage("sqlite:here", RecodedSnapshots(storage), None)
    async with opened_storage("--to", f"sqlite:{tmp_path / 'copy.db'}", creates=True) as target:
        await copy_storage(source, target, progress=lambda _done, _total: None)
        await published(made, target.snapshots)
    assert await all_rows(made) == sorted(indexes_of([1, 2, 3, 4]))


async def test_metadata_above_an_entry_are_cut(made: MadeCluster, storage: SnapshotStore, monkeypatch):
    """A range is cut at a ledger, one ledger gets longer segments; what still fits no entry is an error."""
    client = made.cluster.client
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([])
    rows_of_two = IndexColumns.of(sorted((NOW_MS + 1_000 * entry, 1 + entry % 2, entry) for entry in range(120)))
    await store(storage, rows_of_two, 1)
    limits = TrackerLimits(min_index_count_per_bucket=1_000, max_step_per_segment_ms=1_000)
    assert len((await published(made, storage, limits))[0].buckets) == 1
    assert await all_rows(made) == sorted(rows_of_two)
    for bytes_max, expected in ((3_500, [(1, 1), (2, 2)]), (1_000, [(1, 1), (2, 2)])):
        monkeypatch.setattr(type(client), "payload_bytes_max", property(lambda _, limit=bytes_max: limit))
        await published(made, storage, limits)
        assert [bucket.ledgers for bucket in await properties(made)] == expected
        assert await all_rows(made) == sorted(rows_of_two)
    monkeypatch.setattr(type(client), "payload_bytes_max", property(lambda _: 100))
    before = await properties(made)
    with pytest.raises(SnapshotTooLarge, match="ledger 1: its 60 delayed messages need metadata above 100 bytes"):
        await published(made, storage, limits)
    assert await properties(made) == before


@pytest.mark.long
@pytest.mark.parametrize(
    "point",
    [
        "ledger.created",
        "ledgers.written",
        "topics.checked",
        "cursor.recorded",
        "cursor.switched",
        "old.recorded",
        "old.deleted",
    ],
)
async def test_killed_at_each_step(made: MadeCluster, tmp_path: Path, point: str):
    """The cursor has the old buckets or the new ones, each with its ledger; what is left over is orphans of buckets."""
    url = f"sqlite:{tmp_path / 'tracker.db'}"
    async with opened_storage("--from", url, creates=True) as whole:
        await store(whole.snapshots, indexes_of([1, 2, 3, 4]), 1)
    await made.topic(TOPIC, LEDGERS)
    old = await made.bucket(indexes_of([1, 2, 3, 4]))
    await made.cursor([old])
    worker = ["-m", "tests.cluster.publication.publish_worker", made.address.text, url, str(tmp_path / "backup"), point]
    ended = await asyncio.to_thread(subprocess.run, [sys.executable, *worker], check=False, capture_output=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    expected = sorted(indexes_of([1, 2, 3, 4]))
    assert await all_rows(made) == expected
    # Again: nothing that was left is in the way.
    async with opened_storage("--from", url) as whole:
        await published(made, whole.snapshots)
    assert await all_rows(made) == expected
    named = {bucket.bucket_id for bucket in await properties(made)}
    for orphan in await ledger_ids(made) - named:
        custom = (await made.cluster.client.metadata(orphan)).custom
        assert custom["component"] == b"delayed-index-bucket"
    assert read_changes(tmp_path / "backup").cluster == made.address.text
