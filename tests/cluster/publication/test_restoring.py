"""Tests of taking publications back from their backups, over real bookies."""

from pathlib import Path

import pytest

from delayed_tracker.cluster.change_record import ChangeRecord, read_changes
from delayed_tracker.cluster.cursor_node import CursorNode
from delayed_tracker.cluster.errors import BackupInvalid, CursorChanged, TopicLoaded
from delayed_tracker.cluster.restoring import plan_restoration, restore
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.storage.maintenance.opening import opened_storage
from delayed_tracker.storage.protocol import SnapshotStore
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster, indexes_of
from tests.cluster.publication.publications import LEDGERS, all_rows, ledger_ids, properties, published, store

pytestmark = pytest.mark.slow


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
