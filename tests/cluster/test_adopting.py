"""Tests of the adoption of brokers' buckets: the same bytes, what is left out, kills, and that brokers lose nothing."""

import dataclasses
from collections.abc import AsyncIterator

import pytest

from delayed_tracker.bookkeeper.errors import EntryMissing
from delayed_tracker.cluster.adopted import AdoptionOptions
from delayed_tracker.cluster.adopting import BucketAdoption
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.cluster.errors import CursorChanged
from delayed_tracker.cluster.snapshot_ledger import SnapshotLedger
from delayed_tracker.core.values.changes import Added
from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.errors import SubscriptionNotFound
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.codec.log_records import encode_change
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from delayed_tracker.storage.errors import SnapshotConflict
from delayed_tracker.storage.maintenance.checking import check_storage
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.protocol import NO_LOG
from tests.cluster.made_cluster import SUBSCRIPTION, TOPIC, MadeCluster, indexes_of, sealed
from tests.snapshot_storage.shared.maintenance.stores import at_once, in_memory

pytestmark = pytest.mark.slow

KEY = (str(TOPIC), SUBSCRIPTION)


@pytest.fixture
async def target() -> AsyncIterator[WholeStorage]:
    """An empty storage in memory, with a log."""
    async with in_memory() as made:
        yield made


def adoption(made: MadeCluster, target: WholeStorage, **options) -> BucketAdoption:
    return BucketAdoption(made.cluster, target, AdoptionOptions(attempt=at_once, **options))


async def stored(target: WholeStorage, bucket_id: int) -> list[bytes]:
    """Return all entries of a stored snapshot."""
    metadata = await target.snapshots.get_bucket_snapshot_metadata(bucket_id)
    length = await target.snapshots.get_bucket_snapshot_length(bucket_id)
    entries = [metadata]
    while sum(map(len, entries)) < length:
        entries += await target.snapshots.get_bucket_snapshot_segments(bucket_id, len(entries), len(entries))
    return entries


async def test_buckets_are_adopted_byte_for_byte(made: MadeCluster, target: WholeStorage):
    """Catalogue, positions and seal numbers are right, the storage is sound, and the cluster is as before."""
    contents = [indexes_of([3, 4]), indexes_of([7])]
    properties = [await made.bucket(each) for each in contents]
    info = pb.ManagedCursorInfo(cursors_ledger_id=-1, mark_delete_ledger_id=3, mark_delete_entry_id=1)
    acked = info.individual_deleted_messages.add()
    acked.lower_endpoint.ledger_id, acked.lower_endpoint.entry_id = 7, 2
    acked.upper_endpoint.ledger_id, acked.upper_endpoint.entry_id = 7, 4
    await made.cursor(properties[::-1], info=info)
    node = await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    planned = await adoption(made, target).plan(TOPIC, SUBSCRIPTION)
    assert (planned.bucket_count, planned.message_count, planned.epoch) == (2, 24, 0)
    assert await target.snapshots.trackers() == []
    adopted = await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    encoded = [encode_snapshot(sealed(each)) for each in contents]
    sums = (adopted.bucket_count, adopted.message_count, adopted.byte_count, adopted.left_out)
    assert sums == (2, 24, sum(each.length for each in encoded), [])
    state = await target.snapshots.list(*KEY)
    assert [(entry.first, entry.last, entry.seal_number) for entry in state.entries] == [
        (Position(3, 0), Position(4, 7), 1),
        (Position(7, 0), Position(7, 7), 2),
    ]
    assert [await stored(target, entry.bucket_id) for entry in state.entries] == [
        [each.metadata, *each.segments] for each in encoded
    ]
    assert (state.epoch, state.mark_delete, state.log_mark.offered_through) == (adopted.epoch, Position(3, 1), None)
    consumed = PositionBitmap.deserialize(state.entries[1].consumed)
    assert [(ledger, list(bitmap)) for ledger, bitmap in consumed.bitmaps()] == [(7, [3, 4])]
    assert (await check_storage(target.snapshots, progress=lambda *_: None, attempt=at_once)).is_sound
    assert await made.cluster.cursor_node(TOPIC, SUBSCRIPTION) == node
    assert (await made.cluster.client.metadata(properties[0].bucket_id or 0)).closed


async def test_acknowledgements_of_a_cursor_ledger_are_applied(made: MadeCluster, target: WholeStorage):
    """Its last entry counts, not the node, and it is not fenced."""
    await made.cursor([])
    writer = await made.cluster.client.create(ensemble=1, write_quorum=1, ack_quorum=1, password=b"secret")
    await writer.add(pb.PositionInfo(ledger_id=3, entry_id=1).SerializeToString())
    await writer.add(pb.PositionInfo(ledger_id=3, entry_id=5).SerializeToString())
    info = pb.ManagedCursorInfo(cursors_ledger_id=writer.ledger_id, mark_delete_ledger_id=1, mark_delete_entry_id=-1)
    await made.cursor([await made.bucket(indexes_of([3]))], info=info)
    await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    assert (await target.snapshots.list(*KEY)).mark_delete == Position(3, 5)
    await writer.add(b"not fenced")


async def test_the_second_run_changes_nothing(made: MadeCluster, target: WholeStorage):
    """Buckets that are there already are left as they are, and so is their owner's epoch."""
    await made.cursor([await made.bucket(indexes_of([3]))])
    first = await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    again = await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    assert again.is_there
    assert again.epoch == first.epoch == (await target.snapshots.list(*KEY)).epoch


async def test_other_buckets_are_not_replaced(made: MadeCluster, target: WholeStorage):
    """A tracker with other buckets, or with records in its log, is refused and stays."""
    await made.cursor([await made.bucket(indexes_of([3]))])
    await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    await made.cursor([await made.bucket(indexes_of([3, 4]))])
    before = await target.snapshots.list(*KEY)
    for attempt in (adoption(made, target).plan, adoption(made, target).adopt):
        with pytest.raises(
            InvalidInput, match=r"--to.*has 1 other buckets of 'billing of all'.*delayed-tracker delete"
        ):
            await attempt(TOPIC, SUBSCRIPTION)
    assert await target.snapshots.list(*KEY) == before


async def test_records_in_the_add_log_are_not_dropped(made: MadeCluster, target: WholeStorage):
    """Adds that no snapshot has would be void."""
    await made.cursor([await made.bucket(indexes_of([3]))])
    await target.snapshots.replace(*KEY, remove=(), add=(), epoch=1, writer="owner")
    record = encode_change(Added(indexes_of([9])))
    assert target.log is not None
    await target.log.take_over(*KEY, epoch=1, writer="owner")
    await target.log.append([LogAppend(*KEY, 1, 1, [record])], writer="owner")
    with pytest.raises(InvalidInput, match="its add log has 1 records of 'billing of all'"):
        await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    assert (await target.snapshots.list(*KEY)).entries == ()


async def test_a_storage_without_a_log(made: MadeCluster):
    """Records that any log has of the tracker do not count."""
    await made.cursor([await made.bucket(indexes_of([3]))])
    async with in_memory(log=False) as target:
        await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
        assert (await target.snapshots.list(*KEY)).log_mark.log == NO_LOG


async def test_buckets_that_cannot_be_read_are_left_out(made: MadeCluster, target: WholeStorage):
    """The others are adopted, and each has its reason."""
    encoded = encode_snapshot(sealed(indexes_of([3])))
    good = await made.bucket(indexes_of([1]))
    bad = [
        await made.bucket(indexes_of([2])),
        await made.bucket(indexes_of([3]), entries=[encoded.metadata, *encoded.segments[:-1], b"\xff"]),
        await made.bucket(indexes_of([4]), entries=[b"\xff"]),
        await made.bucket(indexes_of([5]), close=False),
        await made.bucket(indexes_of([6]), subscription="other"),
        await made.bucket(indexes_of([7])),
        BucketProperty("#pulsar.internal.delayed.bucket_x", "1"),
    ]
    await made.delete_ledger(bad[0])
    await made.damage(bad[5])
    await made.cursor([good, *bad])
    copied = []
    adopted = await adoption(made, target, copied=copied.append).adopt(TOPIC, SUBSCRIPTION)
    assert (adopted.bucket_count, adopted.message_count) == (1, 8)
    reasons = {each.property: each.reason for each in adopted.left_out}
    assert set(reasons) == set(bad)
    assert [reasons[each].startswith(f"ledger {each.bucket_id} ") for each in bad[:1] + bad[3:5]] == [True] * 3
    assert "does not exist" in reasons[bad[0]]
    assert sum(copied) == 8
    (entry,) = (await target.snapshots.list(*KEY)).entries
    assert [each.bucket_id for each in await target.snapshots.list_bucket_snapshots(*KEY)] == [entry.bucket_id]


async def test_buckets_that_brokers_replace_meanwhile(made: MadeCluster, target: WholeStorage):
    """A merge between the reads has the merged bucket adopted, not only what is left; endless merges are an error."""
    one, two = [await made.bucket(indexes_of([ledger])) for ledger in (3, 4)]
    merged = await made.bucket(indexes_of([3, 4]))
    await made.cursor([one, two])

    class Merging(BucketAdoption):
        async def _cursor(self, found):
            cursor = await super()._cursor(found)
            if cursor.node.buckets != (merged,):
                for each in (one, two):
                    await made.delete_ledger(each)
                await made.cursor([merged])
            return cursor

    options = AdoptionOptions(attempt=at_once)
    adopted = await Merging(made.cluster, target, options).adopt(TOPIC, SUBSCRIPTION)
    assert (adopted.bucket_count, adopted.left_out) == (1, [])
    (entry,) = (await target.snapshots.list(*KEY)).entries
    assert (entry.first, entry.last) == (Position(3, 0), Position(4, 7))

    class Endless(BucketAdoption):
        async def _cursor(self, found):
            cursor = await super()._cursor(found)
            await made.cursor([await made.bucket(indexes_of([3]), subscription="s")], subscription="s")
            for each in cursor.node.buckets:
                await made.delete_ledger(each)
            return cursor

    await made.cursor([await made.bucket(indexes_of([3]), subscription="s")], subscription="s")
    with pytest.raises(CursorChanged, match="keep replacing the buckets of 's'"):
        await Endless(made.cluster, target, options).adopt(TOPIC, "s")
    assert (await target.snapshots.list(str(TOPIC), "s")).entries == ()
    assert await target.snapshots.list_bucket_snapshots(str(TOPIC), "s") == []


async def test_a_bucket_that_vanishes_while_it_is_copied(made: MadeCluster, target: WholeStorage, monkeypatch):
    """Nothing is published without it if brokers have replaced it; the next attempt adopts what took its place."""
    one, two = [await made.bucket(indexes_of([ledger])) for ledger in (3, 4)]
    merged = await made.bucket(indexes_of([3, 4]))
    await made.cursor([one, two])
    entries = SnapshotLedger.entries

    async def vanishing(self, first, last):
        if str(self.reader.ledger_id) != two.value:
            return await entries(self, first, last)
        await made.cursor([merged])
        raise EntryMissing("gone")

    monkeypatch.setattr(SnapshotLedger, "entries", vanishing)
    adopted = await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    assert (adopted.bucket_count, adopted.left_out) == (1, [])
    (entry,) = (await target.snapshots.list(*KEY)).entries
    assert (entry.first, entry.last) == (Position(3, 0), Position(4, 7))
    assert [each.bucket_id for each in await target.snapshots.list_bucket_snapshots(*KEY)] == [entry.bucket_id]


async def test_a_run_that_ends_anywhere_leaves_nothing_half_done(made: MadeCluster, target: WholeStorage):
    """The catalogue has no bucket until all are stored; the next run sweeps what is left and adopts all."""
    await made.cursor([await made.bucket(indexes_of([ledger])) for ledger in (3, 4, 5)])
    points: list[str] = []

    class Killed(Exception):
        """The process ends here."""

    def kill(point: str) -> None:
        points.append(point)
        if point == "snapshots.created":
            raise Killed

    with pytest.raises(Killed):
        await adoption(made, target, at_point=kill).adopt(TOPIC, SUBSCRIPTION)
    assert points.count("snapshot.created") == 3
    state = await target.snapshots.list(*KEY)
    assert state.entries == ()
    left = await target.snapshots.create_bucket_snapshot(
        b"", nothing(), bucket_key="k", topic=KEY[0], cursor=KEY[1], epoch=state.epoch
    )
    adopted = await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    assert adopted.bucket_count == 3
    assert left not in {each.bucket_id for each in await target.snapshots.list_bucket_snapshots(*KEY)}
    assert len((await target.snapshots.list(*KEY)).entries) == 3


async def test_another_owner_fences_the_adoption(made: MadeCluster, target: WholeStorage):
    """Nothing is published over an owner that opened the tracker meanwhile."""
    await made.cursor([await made.bucket(indexes_of([3]))])

    class Late(BucketAdoption):
        async def _claim(self, found):
            claimed = await super()._claim(found)
            await target.snapshots.replace(*KEY, remove=(), add=(), epoch=claimed.epoch + 1, writer="owner")
            return dataclasses.replace(claimed)

    with pytest.raises(SnapshotConflict):
        await Late(made.cluster, target, AdoptionOptions(attempt=at_once)).adopt(TOPIC, SUBSCRIPTION)
    state = await target.snapshots.list(*KEY)
    assert (state.entries, state.writer) == ((), "owner")
    assert await target.snapshots.list_bucket_snapshots(*KEY) == []


async def test_a_subscription_that_does_not_exist(made: MadeCluster, target: WholeStorage):
    """It is an error of its own, and nothing is written."""
    await made.topic()
    with pytest.raises(SubscriptionNotFound):
        await adoption(made, target).adopt(TOPIC, SUBSCRIPTION)
    assert await target.snapshots.trackers() == []


async def nothing() -> AsyncIterator[bytes]:
    for each in ():
        yield each
