"""Tests of publishing over real bookies: what a broker would find, and what is left when the publisher is killed."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from delayed_tracker.bookkeeper.metadata.layout import Layout
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.cluster.bucket_ledger import read_bucket_ledger
from delayed_tracker.cluster.change_record import ChangeRecord, read_changes
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import BackupInvalid, CursorChanged, TopicLoaded, TopicTerminated
from delayed_tracker.cluster.publication.bucket_switch import PublicationOptions
from delayed_tracker.cluster.publication.publishing import plan_subscription, publish
from delayed_tracker.cluster.restoring import plan_restoration, restore
from delayed_tracker.core.values.columns import IndexColumns, PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.storage.codec.codec import decode_metadata, decode_segments, encode_snapshot
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec
from delayed_tracker.storage.errors import SnapshotTooLarge
from delayed_tracker.storage.maintenance.copying import copy_storage
from delayed_tracker.storage.maintenance.opening import WholeStorage, opened_storage
from delayed_tracker.storage.maintenance.recoded import RecodedSnapshots
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore
from delayed_tracker.storage.testing.contract_tools import create
from tests.bookkeeper.servers.cluster import Cluster
from tests.cluster.brokers import told_topics
from tests.cluster.made_cluster import NOW_MS, SUBSCRIPTION, TOPIC, MadeCluster, indexes_of, sealed

pytestmark = pytest.mark.slow
TRACKER = (str(TOPIC), SUBSCRIPTION)
LIMITS = TrackerLimits(min_index_count_per_bucket=10, max_step_per_segment_ms=1_000, max_indexes_per_segment=3)
LEDGERS = dict.fromkeys(range(1, 8), 8)


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[SnapshotStore]:
    async with opened_storage("--from", f"sqlite:{tmp_path / 'tracker.db'}", creates=True) as whole:
        yield whole.snapshots


async def store(
    storage: SnapshotStore,
    indexes: IndexColumns,
    seal: int,
    codec: SnapshotCodec = SnapshotCodec.PULSAR,
    topic: str = TRACKER[0],
    **fields,
) -> None:
    bucket = sealed(indexes)
    encoded = encode_snapshot(codec, bucket, PositionBitmap.of(indexes.positions))
    bucket_id = await create(
        storage, encoded.segments, metadata=encoded.metadata, topic=topic, cursor=TRACKER[1], epoch=1
    )
    entry = CatalogueEntry(bucket_id, bucket.first, bucket.last, seal_number=seal, **fields)
    await storage.replace(topic, TRACKER[1], remove=(), add=[entry], epoch=1)


async def published(
    made: MadeCluster,
    storage: SnapshotStore,
    limits: TrackerLimits = LIMITS,
    tracker: tuple[str, str] = TRACKER,
    **options,
):
    plan = await plan_subscription(made.cluster, storage, tracker, limits)
    return await publish(
        made.cluster,
        storage,
        [plan],
        limits,
        options=PublicationOptions(**options),
        progress=lambda _done, _total: None,
    )


async def properties(made: MadeCluster) -> tuple[BucketProperty, ...]:
    return CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).buckets


async def rows(made: MadeCluster, bucket: BucketProperty) -> list[tuple[int, int, int]]:
    """Return the indexes of a published bucket, after comparing its metadata with them."""
    metadata, *segments = [entry async for entry in read_bucket_ledger(made.cluster, bucket.bucket_id)]
    decoded = decode_metadata(metadata)
    for segment, bits in zip(segments, decoded.segment_bits, strict=True):
        assert PositionBitmap.of(decode_segments([segment]).positions) == bits
    found = decode_segments(segments)
    assert found.ascend()
    assert set(found.ledger_id.tolist()) <= set(range(bucket.ledgers[0], bucket.ledgers[1] + 1))
    return list(found)


async def all_rows(made: MadeCluster) -> list[tuple[int, int, int]]:
    return sorted([row for bucket in await properties(made) for row in await rows(made, bucket)])


async def ledger_ids(made: MadeCluster) -> set[int]:
    return {ledger async for ledger in made.cluster.client.ledger_ids()}


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


async def test_a_publication_is_taken_back(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """The old buckets are back with their content, in new ledgers; those of the publication are gone; acks stay."""
    await made.topic(TOPIC, LEDGERS)
    old = [await made.bucket(indexes_of([1, 2])), await made.bucket(indexes_of([3]))]
    await made.cursor(old)
    content = await all_rows(made)
    await store(storage, indexes_of([1, 2, 3, 4]), 1)
    file = tmp_path / "backup"
    with await ChangeRecord.create(file, made.cluster) as record:
        (result,) = await published(made, storage, record=record)
    with pytest.raises(InvalidInput, match=r"--backup: .* the file exists"):
        await ChangeRecord.create(file, made.cluster)
    moved = CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).info
    moved.mark_delete_entry_id = 3
    await made.set(made.address.cursor_node(TOPIC, SUBSCRIPTION), moved.SerializeToString())

    changes = read_changes(file)
    for _ in range(2):
        planned = await plan_restoration(made.cluster, changes)
        with ChangeRecord.append(file) as record:
            done = await restore(made.cluster, changes, planned, record=record)
        changes = read_changes(file)
    assert (done.cursor_count, done.unchanged_count, done.written_ledger_count) == (0, 1, 0)
    assert await all_rows(made) == content
    assert [bucket.name for bucket in await properties(made)] == [bucket.name for bucket in old]
    remaining = await ledger_ids(made)
    assert not remaining & {bucket.bucket_id for bucket in (*old, *result.buckets)}
    node = CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value)
    assert node.info.mark_delete_entry_id == 3


async def test_what_a_broker_changed_is_not_taken_back(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """A bucket that a broker has added since is not lost; a backup of another cluster is refused."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([])
    await store(storage, indexes_of([1, 2]), 1)
    file = tmp_path / "backup"
    with await ChangeRecord.create(file, made.cluster) as record:
        await published(made, storage, record=record)
    later = await made.bucket(indexes_of([7]))
    await made.cursor([*await properties(made), later])
    with pytest.raises(CursorChanged, match="were changed since: it has 2, the command left 1"):
        await plan_restoration(made.cluster, read_changes(file))
    changes = read_changes(file)
    changes.root = "/elsewhere"
    with pytest.raises(BackupInvalid, match="at /elsewhere, and "):
        await plan_restoration(made.cluster, changes)


async def test_a_write_that_was_refused_is_no_change(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """A broker that loads the topic right before the write, and seals a bucket then, is not in the way of the file."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([])
    await store(storage, indexes_of([1, 2]), 1)
    file = tmp_path / "backup"

    def load(point: str) -> None:
        if point == "cursor.recorded":
            made.set_now(made.address.topic_node(TOPIC), pb.ManagedLedgerInfo().SerializeToString())

    with await ChangeRecord.create(file, made.cluster) as record, pytest.raises(TopicLoaded):
        await published(made, storage, record=record, at_point=load)
    await made.cursor([await made.bucket(indexes_of([7]))])
    changes = read_changes(file)
    assert changes.writes == []
    assert await plan_restoration(made.cluster, changes) == []
    # A file from before there was such a fact names the write.
    whole = file.read_bytes()
    file.write_bytes(b"".join(line for line in whole.splitlines(True) if b'"refused"' not in line))
    assert len(read_changes(file).writes) == 1
    lone = [line for line in whole.splitlines(True) if b'"fact":"cursor"' not in line]
    file.write_bytes(b"".join(lone))
    with pytest.raises(BackupInvalid, match="is damaged"):
        read_changes(file)


async def test_what_was_added_before_the_second_attempt_comes_back(
    made: MadeCluster, storage: SnapshotStore, tmp_path: Path
):
    """The first attempt was refused because somebody had added a bucket: that one is of before as well."""
    await made.topic(TOPIC, LEDGERS)
    one, added = await made.bucket(indexes_of([1])), await made.bucket(indexes_of([7]))
    await made.cursor([one])
    node = CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).with_buckets([one, added])
    await store(storage, indexes_of([1, 2]), 1)
    file, attempts = tmp_path / "backup", []

    def add(point: str) -> None:
        if point == "cursor.recorded":
            attempts.append(point)
            if len(attempts) == 1:
                made.set_now(made.address.cursor_node(TOPIC, SUBSCRIPTION), node.encode())

    with await ChangeRecord.create(file, made.cluster) as record:
        await published(made, storage, record=record, at_point=add)
    assert len(attempts) == 2
    changes = read_changes(file)
    planned = await plan_restoration(made.cluster, changes)
    with ChangeRecord.append(file) as record:
        await restore(made.cluster, changes, planned, record=record)
    assert [bucket.name for bucket in await properties(made)] == [one.name, added.name]


@pytest.mark.parametrize("is_topic", [False, True], ids=["subscription", "topic"])
async def test_what_was_deleted_since_is_left_out(made: MadeCluster, tmp_path: Path, is_topic: bool):
    """The other subscriptions are restored, and no ledger is left or written that nobody would name."""
    gone, file = TopicName.parse("persistent://t/ns/gone"), tmp_path / "backup"
    with await ChangeRecord.create(file, made.cluster) as record:
        for topic in (TOPIC, gone):
            await made.topic(topic, LEDGERS)
            old = await made.bucket(indexes_of([1, 2]), topic)
            await made.cursor([old], topic)
            async with opened_storage("--from", f"sqlite:{tmp_path / topic.local_name}", creates=True) as whole:
                await store(whole.snapshots, indexes_of([1, 2]), 1, topic=str(topic))
                await published(made, whole.snapshots, record=record, tracker=(str(topic), SUBSCRIPTION))
    zookeeper = made.cluster.client.zookeeper
    await zookeeper.delete(made.address.cursor_node(gone, SUBSCRIPTION))
    if is_topic:
        await zookeeper.delete(made.address.topic_node(gone))

    for expected in ((1, 0), (0, 1)):
        changes = read_changes(file)
        planned = await plan_restoration(made.cluster, changes)
        assert [(one.topic, one.is_deleted) for one in planned] == [(TOPIC, False), (gone, True)]
        with ChangeRecord.append(file) as record:
            done = await restore(made.cluster, changes, planned, record=record)
        assert (done.cursor_count, done.unchanged_count) == expected
        (restored,) = await properties(made)
        assert await ledger_ids(made) == {restored.bucket_id}
        assert restored.ledgers == (1, 2)


async def test_an_old_bucket_that_was_never_closed(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """It comes back with its last entry."""
    await made.topic(TOPIC, LEDGERS)
    old = await made.bucket(indexes_of([1, 2]), close=False)
    await made.cursor([old])
    await store(storage, indexes_of([1, 2]), 1)
    file = tmp_path / "backup"
    with await ChangeRecord.create(file, made.cluster) as record:
        (result,) = await published(made, storage, record=record)
    assert (result.deleted_ledgers, result.left_ledgers) == ([old.bucket_id], [])
    changes = read_changes(file)
    planned = await plan_restoration(made.cluster, changes)
    with ChangeRecord.append(file) as record:
        await restore(made.cluster, changes, planned, record=record)
    assert await all_rows(made) == sorted(indexes_of([1, 2]))


async def test_an_old_bucket_that_cannot_be_closed_stays(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """Its last entry is not known, so the record could not have it."""
    await made.topic(TOPIC, LEDGERS)
    away = await made.bucket(indexes_of([3]), close=False)
    await made.move_away(away)
    await made.cursor([away])
    await store(storage, indexes_of([1, 2]), 1)
    file = tmp_path / "backup"
    with await ChangeRecord.create(file, made.cluster) as record:
        (result,) = await published(made, storage, record=record)
    assert (result.deleted_ledgers, result.left_ledgers) == ([], [away.bucket_id])
    assert away.bucket_id in await ledger_ids(made)
    assert read_changes(file).deleted == {}


async def test_damaged_backups(made: MadeCluster, storage: SnapshotStore, tmp_path: Path):
    """A last line that was cut short is no fact; any other damage is an error."""
    await made.topic(TOPIC, LEDGERS)
    await made.cursor([await made.bucket(indexes_of([3]))])
    await store(storage, indexes_of([1, 2]), 1)
    file = tmp_path / "backup"
    with await ChangeRecord.create(file, made.cluster) as record:
        await published(made, storage, record=record)
    whole = file.read_bytes()
    assert len(read_changes(file).deleted) == 1
    file.write_bytes(whole[:-2])
    assert not read_changes(file).deleted
    with ChangeRecord.append(file) as record:
        record.restored(1, 2)
    assert read_changes(file).restored == {1: 2}
    for place in (0, 20, len(whole) // 2):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(BackupInvalid):
            read_changes(file)
    file.write_bytes(b"")
    with pytest.raises(BackupInvalid, match="is no backup"):
        read_changes(file)


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
    worker = ["-m", "tests.cluster.publish_worker", made.address.text, url, str(tmp_path / "backup"), point]
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
