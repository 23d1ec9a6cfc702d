"""Tests of the repair: what is removed and deleted, in which order, and what is left alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.change_record import ChangeRecord, read_changes
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import BrokerUnavailable
from delayed_tracker.cluster.inspection import BucketInspector, Fault, Inspection
from delayed_tracker.cluster.repairing import Repaired, RepairOptions, plan_repair, repair
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.pulsar.v1 import managed_ledger_pb2 as pb
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from tests.cluster.brokers import ToldTopics, told_topics
from tests.cluster.made_cluster import NOW_MS, SUBSCRIPTION, TOPIC, MadeCluster, indexes_of, sealed

pytestmark = pytest.mark.slow

OTHER = TopicName.parse("persistent://t/ns/other one")


@pytest.fixture
def broker() -> Iterator[ToldTopics]:
    """A broker that has nothing loaded."""
    with told_topics() as told:
        yield told


def ignore(_done: int, _total: int) -> None:
    """Take progress."""


async def inspect(made: MadeCluster) -> Inspection:
    return await BucketInspector(made.cluster, now_ms=NOW_MS).inspect(listed=ignore, read=ignore, scanned=ignore)


async def mend(made: MadeCluster, broker: ToldTopics | None = None, **options) -> Repaired:
    """Inspect and repair."""
    cluster = made.cluster if broker is None else with_broker(made, broker)
    return await repair(cluster, plan_repair(await inspect(made)), RepairOptions(load_s=0, **options))


def with_broker(made: MadeCluster, broker: ToldTopics) -> Cluster:
    return Cluster(replace(made.address, admin=(broker.url,)), made.cluster.client)


async def properties(
    made: MadeCluster, topic: TopicName = TOPIC, subscription: str = SUBSCRIPTION
) -> set[BucketProperty]:
    return set(CursorNode.decode((await made.cluster.cursor_node(topic, subscription)).value).buckets)


async def exists(made: MadeCluster, named: BucketProperty) -> bool:
    try:
        await made.cluster.client.metadata(named.bucket_id or 0)
    except LedgerNotFound:
        return False
    return True


async def test_every_kind_of_fault_is_repaired(made: MadeCluster):
    """Afterwards an inspection finds nothing, sound buckets and other fields of the cursor are as before."""
    encoded = encode_snapshot(sealed(indexes_of([5])))
    good = await made.bucket(indexes_of([1]))
    missing, damaged, not_closed, mine, other = [
        await made.bucket(indexes_of([3])),
        await made.bucket(indexes_of([5]), entries=[encoded.metadata, *encoded.segments[1:]]),
        await made.bucket(indexes_of([7]), close=False),
        await made.bucket(indexes_of([9]), custom={"delayed-tracker/root": b"/delayed-tracker"}),
        await made.bucket(indexes_of([11]), subscription="other"),
    ]
    malformed = BucketProperty("#pulsar.internal.delayed.bucket_x", (await made.bucket(indexes_of([13]))).value)
    orphan, open_one = [await made.bucket(indexes_of([15]), close=close) for close in (True, False)]
    await made.delete_ledger(missing)
    await made.cursor([good, missing, damaged, not_closed, mine, other, malformed])
    await made.cursor([other], subscription="other")
    node = await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    done = await mend(made)
    assert done.left == []
    assert {removal.property: removal.fault for removal in done.removed} == {
        missing: Fault.LEDGER_MISSING,
        damaged: Fault.SNAPSHOT_DAMAGED,
        not_closed: Fault.NOT_CLOSED,
        mine: Fault.NOT_A_BUCKET,
        other: Fault.ANOTHER_OWNER,
        malformed: Fault.PROPERTY_INVALID,
    }
    gone = (damaged, not_closed, malformed, orphan, open_one)
    assert sorted(done.deleted_ledgers) == sorted(each.bucket_id for each in gone)
    assert [await exists(made, each) for each in (*gone, good, mine, other)] == [False] * 5 + [True] * 3
    assert await properties(made) == {good}
    assert [(each.path, each.version) for each in done.nodes] == [
        (made.address.cursor_node(TOPIC, SUBSCRIPTION), node.version)
    ]
    after = CursorNode.decode((await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)).value).info
    before = CursorNode.decode(node.value).info
    for info in (before, after):
        kept = [each for each in info.cursor_properties if each.name == "owner"]
        del info.cursor_properties[:]
        info.cursor_properties.extend(kept)
    assert after == before
    assert (await inspect(made)).is_sound
    assert plan_repair(await inspect(made)).is_empty


async def test_of_ranges_that_share_a_ledger_those_with_the_most_messages_stay(made: MadeCluster):
    """As few messages as possible are read again."""
    small = await made.bucket(indexes_of([2, 3], count=2))
    large = await made.bucket(indexes_of([3, 5]))
    medium = await made.bucket(indexes_of([5, 8], count=4))
    apart = await made.bucket(indexes_of([1]))
    await made.cursor([small, large, medium, apart])
    done = await mend(made)
    assert {removal.property for removal in done.removed} == {small, medium}
    assert await properties(made) == {large, apart}
    assert (await inspect(made)).is_sound


async def test_of_two_properties_of_one_ledger_that_of_its_own_range_stays(made: MadeCluster):
    """The ledger stays with it, and nothing is left to repair."""
    narrow = await made.bucket(indexes_of([3, 5]))
    wide = BucketProperty.of(2, 5, narrow.bucket_id or 0)
    await made.cursor([narrow, wide])
    done = await mend(made)
    assert ([removal.property for removal in done.removed], done.left) == ([wide], [])
    assert await properties(made) == {narrow}
    assert await exists(made, narrow)
    assert (await inspect(made)).is_sound


async def test_topics_that_a_broker_has_loaded_are_left_alone(made: MadeCluster, broker: ToldTopics):
    """Neither their cursors nor their ledgers are touched; those of other topics are repaired."""
    lost = BucketProperty.of(3, 4, 2**40)
    for topic in (TOPIC, OTHER):
        await made.cursor([lost], topic)
    orphans = [await made.bucket(indexes_of([7]), topic) for topic in (TOPIC, OTHER)]
    broker.loaded = {TOPIC}
    node = await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    done = await mend(made, broker)
    assert await made.cluster.cursor_node(TOPIC, SUBSCRIPTION) == node
    assert [await exists(made, each) for each in orphans] == [True, False]
    assert await properties(made, OTHER) == set()
    assert [(each.topic, each.bucket) for each in done.left] == [
        (str(TOPIC), lost.value),
        (str(TOPIC), orphans[0].value),
    ]
    assert all("topics unload persistent://t/ns/orders" in each.reason for each in done.left)


async def test_a_broker_that_does_not_answer_stops_the_repair(made: MadeCluster, broker: ToldTopics):
    """It may have the topics loaded."""
    lost = BucketProperty.of(3, 4, 2**40)
    await made.cursor([lost])
    orphan = await made.bucket(indexes_of([7]))
    broker.status = 500
    with pytest.raises(BrokerUnavailable):
        await mend(made, broker)
    assert await properties(made) == {lost}
    assert await exists(made, orphan)


async def test_a_topic_that_is_loaded_between_check_and_deletion(made: MadeCluster, broker: ToldTopics):
    """The load writes the topic's node: the ledger stays, and so does a property."""
    await made.cursor([])
    orphan = await made.bucket(indexes_of([7]))
    plan = plan_repair(await inspect(made))

    def load(point: str) -> None:
        if point == "ledger.recorded":
            made.set_now(made.address.topic_node(TOPIC), pb.ManagedLedgerInfo().SerializeToString())

    done = await repair(with_broker(made, broker), plan, RepairOptions(load_s=0, at_point=load))
    assert done.deleted_ledgers == []
    assert [each.reason for each in done.left] == [
        "the topic or its subscription was changed meanwhile: inspect it again"
    ]
    assert await exists(made, orphan)


@pytest.mark.parametrize("owner", [SUBSCRIPTION, "another"])
async def test_a_property_that_is_set_since_the_inspection(made: MadeCluster, owner: str):
    """Its ledger stays, whichever subscription it is."""
    await made.cursor([])
    late = await made.bucket(indexes_of([7]))
    plan = plan_repair(await inspect(made))
    await made.cursor([late], subscription=owner)
    done = await repair(made.cluster, plan, RepairOptions(load_s=0))
    assert (done.deleted_ledgers, [each.reason for each in done.left]) == ([], ["a property points to it"])
    assert await exists(made, late)


async def test_a_cursor_that_was_changed_since_the_inspection(made: MadeCluster):
    """A bucket that was added stays, and one that is gone already is no error."""
    lost, gone = BucketProperty.of(3, 4, 2**40), BucketProperty.of(5, 6, 2**40 + 1)
    await made.cursor([lost, gone])
    plan = plan_repair(await inspect(made))
    added = await made.bucket(indexes_of([9]))
    await made.cursor([lost, added])
    done = await repair(made.cluster, plan, RepairOptions(load_s=0))
    assert [removal.property for removal in done.removed] == [lost]
    assert await properties(made) == {added}


async def test_orphans_of_what_was_deleted(made: MadeCluster):
    """A ledger of a topic or of a subscription that is gone is deleted; one without an owner stays, and is listed."""
    await made.cursor([])
    of_topic, of_subscription = (
        await made.bucket(indexes_of([1]), OTHER),
        await made.bucket(indexes_of([2]), subscription="s"),
    )
    nobody = await made.bucket(indexes_of([3]), custom={"pulsar/delayedIndexTopic": b""})
    done = await mend(made)
    assert sorted(done.deleted_ledgers) == sorted([of_topic.bucket_id, of_subscription.bucket_id])
    assert [(each.bucket, each.reason) for each in done.left] == [
        (nobody.value, "its metadata names no topic and subscription")
    ]
    assert await exists(made, nobody)


async def test_terminated_topics_keep_their_properties(made: MadeCluster):
    """A broker loads such a topic without a write to its node, so the change could race with it."""
    lost = BucketProperty.of(3, 4, 2**40)
    await made.topic(terminated=True)
    await made.cursor([lost])
    done = await mend(made)
    assert "is terminated" in done.left[0].reason
    assert await properties(made) == {lost}


async def test_what_cannot_be_read_now_is_left_alone(made: MadeCluster):
    """Bookies that are away, and nodes that do not decode: neither is a reason to remove anything."""
    one, two = await made.bucket(indexes_of([3, 4])), await made.bucket(indexes_of([4, 5]))
    await made.move_away(one)
    await made.cursor([one, two])
    await made.topic(OTHER)
    await made.set(made.address.cursor_node(OTHER, "torn"), b"\x08")
    plan = plan_repair(await inspect(made))
    assert plan.is_empty
    assert sorted(each.bucket for each in plan.left) == ["", one.value]


async def test_a_ledger_whose_copies_are_all_damaged_is_recorded_without_entries(made: MadeCluster, tmp_path: Path):
    """It cannot be restored, so that nothing is lost with it."""
    damaged = await made.bucket(indexes_of([5]))
    await made.damage(damaged)
    await made.cursor([damaged])
    path = tmp_path / "before.jsonl"
    with await ChangeRecord.create(path, made.cluster) as record:
        done = await mend(made, record=record)
    assert ([each.fault for each in done.removed], done.left) == ([Fault.SNAPSHOT_DAMAGED], [])
    assert done.deleted_ledgers == [damaged.bucket_id]
    assert read_changes(path).deleted[damaged.bucket_id].entry_count == 0


async def test_one_ledger_with_a_password_is_left(made: MadeCluster, tmp_path: Path):
    """It cannot be recorded without its password; the others are repaired."""
    locked, orphan = await made.bucket(indexes_of([5]), password=b"secret"), await made.bucket(indexes_of([7]))
    await made.cursor([locked])
    for name in ("first.jsonl", "second.jsonl"):
        with await ChangeRecord.create(tmp_path / name, made.cluster) as record:
            done = await mend(made, record=record)
        assert [(each.bucket, "password" in each.reason) for each in done.left] == [(locked.value, True)]
        assert await properties(made) == set()
        assert [await exists(made, each) for each in (locked, orphan)] == [True, False]


async def test_one_damaged_message_ledger_ends_no_repair(made: MadeCluster, broker: ToldTopics):
    """The properties of its topic and of all others are removed."""
    lost = BucketProperty.of(3, 4, 2**40)
    last = await made.bucket(indexes_of([1]), subscription="last message ledger")
    await made.topic(TOPIC, {last.bucket_id or 0: 8})
    await made.set(made.ledger_node(last.bucket_id), b"torn")
    for topic in (TOPIC, OTHER):
        await made.cursor([lost], topic)
    done = await mend(made, broker)
    assert len(done.removed) == 2
    assert [await properties(made, topic) for topic in (TOPIC, OTHER)] == [set(), set()]


async def test_a_repair_that_ends_anywhere_is_completed_by_the_next(made: MadeCluster):
    """The property goes first, so a kill between the two leaves an orphan, never a property without a ledger."""
    encoded = encode_snapshot(sealed(indexes_of([5])))
    damaged = await made.bucket(indexes_of([5]), entries=[encoded.metadata])
    await made.cursor([damaged])

    class Killed(Exception):
        """The process ends here."""

    def kill(point: str) -> None:
        if point == "properties.removed":
            raise Killed

    with pytest.raises(Killed):
        await mend(made, at_point=kill)
    found = await inspect(made)
    assert [str(each.ledger_id) for each in found.orphans] == [damaged.value]
    assert await properties(made) == set()
    assert (await mend(made)).deleted_ledgers == [damaged.bucket_id]


async def test_a_removal_that_was_refused_is_no_change_of_the_record(made: MadeCluster, tmp_path: Path):
    """A broker loads the topic between the record and the write: the property stays, and the file has no write."""
    lost = BucketProperty.of(3, 4, 2**40)
    await made.cursor([lost])

    def load(point: str) -> None:
        if point == "cursor.recorded":
            made.set_now(made.address.topic_node(TOPIC), pb.ManagedLedgerInfo().SerializeToString())

    path = tmp_path / "before.jsonl"
    with await ChangeRecord.create(path, made.cluster) as record:
        done = await mend(made, record=record, at_point=load)
    assert (done.removed, [each.bucket for each in done.left]) == ([], [lost.value])
    assert b'"fact":"cursor"' in path.read_bytes()
    assert read_changes(path).writes == []


async def test_changes_are_recorded_before_they_are_made(made: MadeCluster, tmp_path: Path):
    """The file has the node of before, and the deleted ledgers with their entries, as far as there are."""
    encoded = encode_snapshot(sealed(indexes_of([5])))
    damaged = await made.bucket(indexes_of([5]), entries=[encoded.metadata])
    orphan = await made.bucket(indexes_of([9]))
    never_closed = await made.bucket(indexes_of([9]), close=False)
    await made.cursor([damaged])
    node = await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    path = tmp_path / "before.jsonl"
    with await ChangeRecord.create(path, made.cluster) as record:
        await mend(made, record=record)
    changes = read_changes(path)
    ((write),) = changes.writes
    assert (write.before, write.version) == (node.value, node.version)
    whole = encode_snapshot(sealed(indexes_of([9])))
    assert {ledger: list(changes.entries(each)) for ledger, each in changes.deleted.items()} == {
        damaged.bucket_id: [encoded.metadata],
        orphan.bucket_id: [whole.metadata, *whole.segments],
        never_closed.bucket_id: [whole.metadata, *whole.segments],
    }


async def test_a_ledger_that_cannot_be_closed_stays(made: MadeCluster, tmp_path: Path):
    """Its last entry is not known, so the record could not have it."""
    await made.cursor([])
    orphan = await made.bucket(indexes_of([9]), close=False)
    await made.move_away(orphan)
    path = tmp_path / "before.jsonl"
    with await ChangeRecord.create(path, made.cluster) as record:
        done = await mend(made, record=record)
    assert (done.deleted_ledgers, [each.bucket for each in done.left]) == ([], [orphan.value])
    assert await exists(made, orphan)
    assert read_changes(path).deleted == {}
