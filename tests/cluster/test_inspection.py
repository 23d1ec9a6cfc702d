"""Tests of the inspection: every kind of problem in a real cluster, and that nothing sound is reported."""

import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound
from delayed_tracker.cluster.cursor_node import BucketProperty
from delayed_tracker.cluster.inspection import BucketInspector, Fault, Inspection
from delayed_tracker.cluster.listing import ClusterListing
from delayed_tracker.ledger.live.throttle import Throttle
from delayed_tracker.storage.codec.pulsar import encode_snapshot
from tests.cluster.made_cluster import NOW_MS, SUBSCRIPTION, TOPIC, MadeCluster, indexes_of, sealed

pytestmark = pytest.mark.slow


def ignore(_done: int, _total: int) -> None:
    """Take progress."""


async def inspect(made: MadeCluster, *chosen: str, orphans: bool = True) -> Inspection:
    inspector = BucketInspector(made.cluster, now_ms=NOW_MS)
    return await inspector.inspect(*chosen, orphans=orphans, listed=ignore, read=ignore, scanned=ignore)


def faults(found: Inspection) -> list[list[Fault]]:
    return [[problem.fault for problem in bucket.problems] for each in found.subscriptions for bucket in each.buckets]


async def test_sound_buckets(made: MadeCluster):
    """Counts, deadlines and what is due are those of the rows; nothing is wrong."""
    one, two = await made.bucket(indexes_of([3, 4])), await made.bucket(indexes_of([7]))
    await made.cursor([two, one])
    found = await inspect(made)
    assert found.is_sound
    assert found.ledger_count == 2
    ((first, second),) = [each.buckets for each in found.subscriptions]
    assert (first.property, first.message_count, first.segment_count, first.due_count) == (one, 16, 4, 10)
    assert (first.first_deadline_ms, first.last_deadline_ms) == (NOW_MS - 2_000, NOW_MS + 1_500)
    encoded = encode_snapshot(sealed(indexes_of([3, 4])))
    assert first.byte_count == encoded.length
    assert (second.property, second.message_count, second.due_count) == (two, 8, 5)


async def test_a_rate_holds_for_all_snapshots(made: MadeCluster):
    """With a rate, reading takes at least the time of all bytes but the last read; the findings are the same."""
    named = [await made.bucket(indexes_of([ledger])) for ledger in (3, 4, 5)]
    await made.cursor(named)
    unlimited = await inspect(made)
    sizes = [bucket.byte_count for each in unlimited.subscriptions for bucket in each.buckets]
    rate = 4 * sum(sizes)
    begun = time.monotonic()
    throttled = replace(made.cluster, throttle=Throttle(rate, time.monotonic))
    inspector = BucketInspector(throttled, now_ms=NOW_MS)
    found = await inspector.inspect(listed=ignore, read=ignore, scanned=ignore)
    assert time.monotonic() - begun >= sum(sizes) / rate
    assert found == unlimited


async def test_a_property_without_ledger(made: MadeCluster):
    """It is one problem, and the other buckets are read."""
    one, two = await made.bucket(indexes_of([3])), await made.bucket(indexes_of([7]))
    await made.cursor([one, two])
    await made.delete_ledger(two)
    assert faults(await inspect(made)) == [[], [Fault.LEDGER_MISSING]]


async def test_a_ledger_without_property(made: MadeCluster):
    """It is an orphan, closed or not, whether or not its subscription exists; nothing else of the cluster is."""
    one, left, open_one = [await made.bucket(indexes_of([3]), close=close) for close in (True, True, False)]
    gone = await made.bucket(indexes_of([3]), subscription="unsubscribed")
    nameless = await made.bucket(indexes_of([3]), custom={"pulsar/delayedIndexTopic": b"persistent://../a/b"})
    await made.cursor([one])
    found = await inspect(made)
    assert [str(each.ledger_id) for each in found.orphans] == [left.value, open_one.value, gone.value, nameless.value]
    assert not found.is_sound
    assert faults(found) == [[]]
    assert [str(each.ledger_id) for each in (await inspect(made, str(TOPIC), SUBSCRIPTION)).orphans] == [
        left.value,
        open_one.value,
    ]
    without = await inspect(made, orphans=False)
    assert (without.orphans, without.ledger_count, without.is_sound) == ([], 0, True)


async def test_ranges_that_share_a_ledger(made: MadeCluster):
    """Each bucket of a group is named, also one that a longer one encloses."""
    ranges: Sequence[Sequence[int]] = ([1, 2], [2, 9], [4, 5], [10])
    await made.cursor([await made.bucket(indexes_of(ledgers)) for ledgers in ranges])
    assert faults(await inspect(made)) == [*[[Fault.RANGES_OVERLAP]] * 3, []]


async def test_snapshots_that_do_not_decode(made: MadeCluster):
    """Damaged metadata, a damaged or missing segment, positions outside of the range, no entry, and one too many."""
    encoded = encode_snapshot(sealed(indexes_of([3])))
    whole = [encoded.metadata, *encoded.segments]
    stored = [
        [b"\xff", *encoded.segments],
        [*whole[:-1], b"\xff"],
        whole[:-1],
        [encoded.metadata, *reversed(encoded.segments)],
        [],
        [*whole, b""],
    ]
    named = [await made.bucket(indexes_of([3]), entries=entries) for entries in stored]
    outside = await made.bucket(indexes_of([3]))
    properties = [BucketProperty.of(3 * number, 3 * number + 1, each.bucket_id) for number, each in enumerate(named)]
    await made.cursor([*properties, BucketProperty.of(90, 91, outside.bucket_id)])
    found = await inspect(made)
    assert faults(found)[4] == [Fault.SNAPSHOT_DAMAGED]
    assert all(set(each) == {Fault.SNAPSHOT_DAMAGED} for each in faults(found))
    (last,) = found.subscriptions[0].buckets[-1].problems
    assert last.text == "Its positions 3:0 to 3:7 leave the ledgers 90 to 91 of its property."


async def test_properties_that_point_to_something_else(made: MadeCluster):
    """Another kind of ledger, the bucket of another subscription, one that is not closed, a malformed key and value."""
    other_kind = await made.bucket(indexes_of([1]), custom={"component": b"managed-ledger"})
    other_owner = await made.bucket(indexes_of([2]), subscription="other")
    not_closed = await made.bucket(indexes_of([3]), close=False)
    bad = BucketProperty("#pulsar.internal.delayed.bucket_4", "1"), BucketProperty.of(5, 6, 0)
    await made.cursor([other_kind, other_owner, not_closed, bad[0], BucketProperty(bad[1].name, "many")])
    found = faults(await inspect(made))
    assert found[:2] == [[Fault.NOT_A_BUCKET], [Fault.ANOTHER_OWNER]]
    assert found[2][0] is Fault.NOT_CLOSED
    assert sorted(each[0].value for each in found[3:]) == ["property invalid"] * 2


async def test_a_node_that_does_not_decode(made: MadeCluster):
    """Its subscription is named, and a ledger of it is no orphan, as the node may have a property for it."""
    await made.bucket(indexes_of([3]))
    await made.topic()
    await made.set(made.address.cursor_node(TOPIC, SUBSCRIPTION), b"\x08")
    found = await inspect(made)
    assert [(problem.fault, bucket) for _, bucket, problem in found.problems()] == [(Fault.CURSOR_DAMAGED, None)]
    assert found.orphans == []


async def test_bookies_that_do_not_answer_are_no_damage(made: MadeCluster):
    """A bucket that cannot be read now is told apart from what is lost."""
    named = await made.bucket(indexes_of([3]))
    await made.move_away(named)
    await made.cursor([named])
    assert faults(await inspect(made)) == [[Fault.UNREADABLE]]


async def test_damage_of_all_copies_is_no_outage(made: MadeCluster):
    """Its bookie answers, and has nothing right: no later look finds more."""
    named = await made.bucket(indexes_of([3]))
    await made.damage(named)
    await made.cursor([named])
    assert faults(await inspect(made)) == [[Fault.SNAPSHOT_DAMAGED]]


async def test_a_merge_meanwhile_is_no_problem(made: MadeCluster, monkeypatch):
    """A broker deletes a merged ledger, then its property: what it takes away between two reads counts for nothing."""
    merged, kept = await made.bucket(indexes_of([3])), await made.bucket(indexes_of([7]))
    await made.cursor([merged, kept])
    listed = ClusterListing.subscriptions

    async def then_merge(self, *args, **options):
        found = await listed(self, *args, **options)
        await made.delete_ledger(merged)
        await made.cursor([kept])
        return found

    monkeypatch.setattr(ClusterListing, "subscriptions", then_merge)
    found = await inspect(made)
    assert found.is_sound
    assert [bucket.property for each in found.subscriptions for bucket in each.buckets] == [kept]


async def test_a_seal_meanwhile_is_no_orphan(made: MadeCluster, monkeypatch):
    """A broker closes a ledger, then sets its property: one that gets its property behind the listing is no orphan."""
    sealed_now = await made.bucket(indexes_of([3]))
    await made.cursor([])
    listed = ClusterListing.subscriptions

    async def then_seal(self, *args, **options):
        found = await listed(self, *args, **options)
        await made.cursor([sealed_now])
        return found

    monkeypatch.setattr(ClusterListing, "subscriptions", then_seal)
    assert (await inspect(made)).is_sound


async def test_an_inspection_changes_nothing(made: MadeCluster):
    """An open ledger stays open, so its writer could go on; the cursor's node keeps its version."""
    open_one = await made.bucket(indexes_of([3]), close=False)
    await made.cursor([open_one])
    node = await made.cluster.cursor_node(TOPIC, SUBSCRIPTION)
    await inspect(made)
    assert await made.cluster.cursor_node(TOPIC, SUBSCRIPTION) == node
    assert not (await made.cluster.client.metadata(open_one.bucket_id)).closed
    with pytest.raises(LedgerNotFound):
        await made.cluster.client.metadata(open_one.bucket_id + 1)
