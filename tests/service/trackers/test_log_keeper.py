"""The add log stays short: checkpoints by growth and after snapshots, sealing under pressure, trackers nobody has open."""

import asyncio
from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.verb_results import BucketState
from delayed_tracker.service.errors import Overloaded, TrackerKey
from delayed_tracker.service.grpc.import_stream import ImportStream
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.operations.clearing import delete_tracker
from delayed_tracker.service.operations.importing import SnapshotImport
from delayed_tracker.storage.errors import StorageUnavailable
from delayed_tracker.storage.memory_log import MemoryAddLog
from tests.service.harness.imports import sent, snapshot
from tests.service.harness.registry_life import open_tracker, restarted
from tests.service.harness.shell import KEY, OTHER, TINY, Gate, elapse, failing, make_registry, settle

LARGE = replace(TINY, min_index_count_per_bucket=10**6, mutable_indexes_max=10**6, late_indexes_max=10**6)
"""Nothing is sealed by itself."""
FAR_MS = 1_000_000


@pytest.fixture
def log():
    return MemoryAddLog()


@pytest.fixture
async def make(storage, clock, log):
    """Return a function that starts a registry with a log of so many bytes."""
    made = []

    async def start(log_bytes_max=2**30):
        made.append(make_registry(storage, clock, **options(log, log_bytes_max)))
        await made[-1].start()
        return made[-1]

    yield start
    for registry in made:
        await registry.close()


def options(log, log_bytes_max):
    limits = ServiceLimits(add_log_bytes_max=log_bytes_max)
    return {"limits": LARGE, "service_limits": limits, "add_log": log}


async def add(host, epoch, clock, count, *, ledger=1):
    """Add indexes of one ledger, and return when they are durable."""
    now_ms = clock.now_ms()
    indexes = IndexColumns.of([(now_ms + FAR_MS + (entry * 7919) % 100_000, ledger, entry) for entry in range(count)])
    host.add(epoch, indexes)
    await host.until_durable()
    return indexes.positions


async def logged_bytes(log, key=KEY):
    return sum(len(each.record) for each in (await log.read(*key, after=0, bytes_max=2**30)).records)


async def test_consumed_records_are_cut_when_they_have_grown(make, clock, log):
    """No snapshot is needed: a checkpoint in the catalogue is enough, once for each quarter of a megabyte."""
    registry = await make()
    host, opened = await open_tracker(registry)
    ledger = 0
    while not registry.log_keeper.checkpoint_count:
        before = host.log_bytes
        assert before < registry.log_keeper.growth_bytes
        ledger += 1
        host.cancel(opened.epoch, await add(host, opened.epoch, clock, 3_000, ledger=ledger))
        await host.until_durable()
        await elapse(clock, 1_000)
    assert await logged_bytes(log) == host.log_bytes < before
    assert registry.log.log_bytes == host.log_bytes
    assert host.stats().bucket_count <= 1


async def test_needed_records_are_not_cut_however_large(make, clock, log):
    """Records of indexes that are only in memory stay in the log."""
    registry = await make()
    host, opened = await open_tracker(registry)
    ledger = 0
    while host.log_bytes < 2 * registry.log_keeper.growth_bytes:
        ledger += 1
        await add(host, opened.epoch, clock, 20_000, ledger=ledger)
    await elapse(clock, 1_000)
    assert registry.log_keeper.checkpoint_count == 0
    assert await logged_bytes(log) == host.log_bytes >= 2 * registry.log_keeper.growth_bytes


async def test_a_snapshot_is_followed_by_a_cut(make, clock, log):
    """The records that it contains are gone, and a recovery needs none of them."""
    registry = await make(2**20)
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 100)
    assert await logged_bytes(log) == host.log_bytes > 0
    host.seal(opened.epoch)
    await elapse(clock, 1_000)
    assert (registry.log_keeper.checkpoint_count, host.log_bytes, registry.log.log_bytes) == (1, 0, 0)
    assert await logged_bytes(log) == 0


async def test_a_cut_reads_the_catalogue_only_if_something_was_consumed(make, storage, clock, log):
    """While messages are added, each sealed bucket is followed by a cut, and the catalogue may have thousands of buckets."""
    registry = await make(2**20)
    host, opened = await open_tracker(registry)
    added = await add(host, opened.epoch, clock, 100)
    host.seal(opened.epoch)
    storage.calls.clear()
    await elapse(clock, 1_000)
    assert registry.log_keeper.checkpoint_count == 1
    assert "replace" in storage.calls
    assert "list" not in storage.calls

    host.cancel(opened.epoch, added.take(slice(0, 10)))
    await add(host, opened.epoch, clock, 100, ledger=2)
    host.seal(opened.epoch)
    storage.calls.clear()
    await elapse(clock, 1_000)
    assert registry.log_keeper.checkpoint_count == 2
    assert "list" in storage.calls


async def test_a_checkpoint_that_fails_cuts_nothing(make, storage, clock, log):
    """The records are cut after the catalogue has what they say, never before; that is tried again without an occasion."""
    registry = await make(2**20)
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 100)
    size = host.log_bytes
    host.seal(opened.epoch)
    storage.after["create_bucket_snapshot"] = _failing_later(storage, "replace")
    await elapse(clock, 1_000)
    assert host.counters.checkpoints_failed >= 1
    assert registry.log_keeper.checkpoint_count == 0
    assert await logged_bytes(log) == host.log_bytes == size
    del storage.before["replace"]
    await elapse(clock, 10_000)
    assert await logged_bytes(log) == host.log_bytes == 0
    assert registry.log_keeper.checkpoint_count == 1


async def test_a_log_that_became_full_during_an_outage_is_cut_when_the_storage_is_back(make, storage, clock, log):
    """A full log takes nothing whose commit would be an occasion, and everything in it is consumed."""
    registry = await make(2**20)
    host, opened = await open_tracker(registry)
    storage.before["replace"] = failing(*[StorageUnavailable("down")] * 10**6)
    with pytest.raises(Overloaded):
        await _add_and_cancel(host, opened.epoch, clock)
    assert host.counters.checkpoints_failed
    await elapse(clock, 120_000)
    del storage.before["replace"]
    await elapse(clock, 10_000)
    assert host.log_bytes == registry.log.log_bytes == 0
    await add(host, opened.epoch, clock, 1, ledger=10**6)


async def _add_and_cancel(host, epoch, clock):
    """Fill the log with what is consumed already."""
    for ledger in range(1, 10_000):
        positions = await add(host, epoch, clock, 1_000, ledger=ledger)
        host.cancel(epoch, positions)
        await host.until_durable()
        await elapse(clock, 1_000)


@pytest.mark.parametrize("operation", ["list_bucket_snapshots", "create_bucket_snapshot"])
async def test_a_tracker_that_could_not_be_relieved_is_tried_again(make, storage, clock, log, operation):
    """The full log is that of a tracker that nobody opens."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 2_000)
    await registry.close()
    storage.before[operation] = failing(*[StorageUnavailable("down")] * 10**6)
    again = await restarted(registry, storage, clock, **options(log, host.log_bytes + 100))
    other, other_opened = await open_tracker(again, OTHER)
    await add(other, other_opened.epoch, clock, 1)
    await elapse(clock, 120_000)
    assert await logged_bytes(log)
    del storage.before[operation]
    await elapse(clock, 60_000)
    assert await logged_bytes(log) == 0
    await again.close()


async def test_a_cut_that_fails_is_tried_again(make, clock, log, monkeypatch):
    """The catalogue has what the records say, and the log still has them."""
    registry = await make(2**20)
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 100)
    with monkeypatch.context() as patch:
        patch.setattr(log, "cut", failing(*[StorageUnavailable("down")] * 100))
        host.seal(opened.epoch)
        await elapse(clock, 5_000)
        assert await logged_bytes(log)
    await elapse(clock, 10_000)
    assert await logged_bytes(log) == 0


async def test_a_seal_empties_the_log_however_little_it_has(make, clock, log):
    """Also of late positions, and of what was consumed since the last snapshot."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 10, ledger=5)
    assert host.seal(opened.epoch) == 10
    await elapse(clock, 1_000)
    assert host.log_bytes == await logged_bytes(log) == 0
    late = await add(host, opened.epoch, clock, 3, ledger=4)
    assert host.seal(opened.epoch) == 3
    await elapse(clock, 1_000)
    assert host.log_bytes == await logged_bytes(log) == 0
    host.cancel(opened.epoch, late.take(slice(0, 1)))
    await host.until_durable()
    assert host.log_bytes
    assert host.seal(opened.epoch) == 0
    await elapse(clock, 1_000)
    assert host.log_bytes == await logged_bytes(log) == 0
    await add(host, opened.epoch, clock, 1, ledger=6)
    await elapse(clock, 60_000)
    assert host.log_bytes, "what comes later stays until it is sealed"


async def test_a_seal_does_not_cut_what_comes_later(storage, clock, log):
    """Each stored snapshot of a busy tracker would cost a checkpoint else."""
    registry = make_registry(storage, clock, add_log=log)
    await registry.start()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 1)
    host.seal(opened.epoch)
    for ledger in range(2, 42):
        await add(host, opened.epoch, clock, 7, ledger=ledger)
        await settle()
    assert host.stats().bucket_count > 20
    assert registry.log_keeper.checkpoint_count <= 3
    await registry.close()


@pytest.mark.parametrize("operation", ["list_bucket_snapshots", "replace"])
async def test_an_outage_with_a_full_log_leaves_one_bucket_of_each_tracker(
    make, storage, clock, log, *, operation, monkeypatch
):
    """A failure is tried again each second, but nothing is sealed again before it is stored."""
    monkeypatch.setattr("delayed_tracker.service.trackers.log_keeper._GROWTH_SHARE", 1)
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 2_000)
    again = await restarted(registry, storage, clock, **options(log, int(1.9 * host.log_bytes)))
    other, other_opened = await open_tracker(again, OTHER)
    for name in (operation, "create_bucket_snapshot"):
        storage.before[name] = failing(*[StorageUnavailable("down")] * 10**6)
    for ledger in range(50):
        await add(other, other_opened.epoch, clock, 1, ledger=10 + ledger)
        await elapse(clock, 500)
    states = [bucket.state for bucket in other._gate.core._state.members.buckets.values()]
    assert states.count(BucketState.SEALING) <= 1
    storage.before.clear()
    await elapse(clock, 60_000)
    await again.close()


def _failing_later(storage, name):
    """Return a hook after which the second call of another operation, and all later ones, fail."""

    async def hook(*_args, **_kwargs):
        storage.before[name] = failing(None, *[StorageUnavailable("down")] * 100)

    return hook


async def test_the_largest_tracker_is_sealed_when_the_log_is_half_full(make, clock, log):
    """Its records are cut; the small ones of another tracker stay."""
    registry = await make(log_bytes_max=100_000)
    small, small_opened = await open_tracker(registry, OTHER)
    await add(small, small_opened.epoch, clock, 10)
    large, opened = await open_tracker(registry)
    ledger = 0
    while registry.log.log_bytes < 50_000:
        assert large.stats().bucket_count <= 1
        ledger += 1
        await add(large, opened.epoch, clock, 500, ledger=ledger)
    await elapse(clock, 1_000)
    assert large.log_bytes == await logged_bytes(log) == 0
    assert large.stats().mutable_count == 0
    assert small.log_bytes == registry.log.log_bytes > 0
    assert small.stats().mutable_count == 10


async def test_a_tracker_that_nobody_opens_is_relieved(make, storage, clock, log):
    """Its records count from the start; under pressure it is loaded, sealed, and closed again."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 2_000)
    size = host.log_bytes
    again = await restarted(registry, storage, clock, **options(log, 2 * size))
    assert again.log_keeper.unloaded == {KEY: size}
    assert again.log.log_bytes == size
    other, other_opened = await open_tracker(again, OTHER)
    await add(other, other_opened.epoch, clock, 1)
    await elapse(clock, 1_000)
    assert again.find_host(KEY) is None
    assert again.log_keeper.unloaded == {}
    assert await logged_bytes(log) == 0
    assert again.log.log_bytes == other.log_bytes
    _, reopened = await open_tracker(again)
    assert (reopened.recovered_count, reopened.bucket_count) == (2_000, 1)
    await again.close()


async def test_a_relief_does_not_close_what_an_import_has_loaded(make, clock, log):
    """The import goes on."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 10)
    await registry.close_tracker(KEY, opened.epoch)
    deadline_ms = clock.now_ms() + FAR_MS
    stream = ImportStream(sent(snapshot(*((deadline_ms, 30, entry) for entry in range(7)))))
    _, terms = await stream.terms()
    buckets = stream.buckets()

    async def relieved_midway():
        async for bucket in buckets:
            await registry._relieve_log(KEY)
            yield bucket

    adopted = await SnapshotImport(registry, KEY, terms).run(relieved_midway())
    assert (adopted.replaced_count, adopted.tracked_count) == (10, 7)
    await settle()
    assert registry.find_host(KEY) is None


async def test_records_are_counted_once_whether_their_tracker_is_open_or_not(make, clock, log):
    """A close and an open move them from one account to the other."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 100)
    size = host.log_bytes
    await registry.close_tracker(KEY, opened.epoch)
    assert (registry.log_keeper.unloaded, registry.log.log_bytes) == ({KEY: size}, size)
    host, _ = await open_tracker(registry)
    assert (registry.log_keeper.unloaded, registry.log.log_bytes, host.log_bytes) == ({}, size, size)
    await delete_tracker(registry, KEY, None)
    assert (registry.log_keeper.unloaded, registry.log.log_bytes) == ({}, 0)


async def test_open_trackers_are_checkpointed_while_another_is_being_loaded(make, storage, clock, log):
    """A storage that hangs for a tracker that nobody opens keeps no records of the others."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 2_000)
    again = await restarted(registry, storage, clock, **options(log, 2 * host.log_bytes + 50))
    other, other_opened = await open_tracker(again, OTHER)
    storage.before["list_bucket_snapshots"] = gate = Gate()
    await add(other, other_opened.epoch, clock, 1)
    await elapse(clock, 1_000)
    assert gate.held_count == 1
    await add(other, other_opened.epoch, clock, 100)
    other.seal(other_opened.epoch)
    await elapse(clock, 1_000)
    assert other.log_bytes == 0
    gate.open()
    await elapse(clock, 1_000)
    assert await logged_bytes(log) == 0
    await again.close()


async def cancelled_in_turns(trackers, clock, *, rounds):
    """Add to one tracker after the other, and cancel it: the log has what no tracker needs."""
    for ledger in range(1, rounds + 1):
        host, opened = trackers[ledger % len(trackers)]
        positions = await add(host, opened.epoch, clock, 20, ledger=ledger)
        host.cancel(opened.epoch, positions)
        await elapse(clock, 100)


async def test_room_is_made_again_and_again_of_many_small_trackers(make, clock, monkeypatch):
    """None of them grows enough to be looked at, and together they would fill the log ten times."""
    monkeypatch.setattr("delayed_tracker.service.trackers.log_keeper._GROWTH_SHARE", 1)
    registry = await make(log_bytes_max=20_000)
    trackers = [await open_tracker(registry, TrackerKey(KEY.topic, str(number))) for number in range(10)]
    cut = registry.log.record_count
    await cancelled_in_turns(trackers, clock, rounds=1_000)
    assert registry.log.record_count - cut == 2_000
    assert registry.log_keeper.checkpoint_count > 20
    assert registry.log.log_bytes < 15_000


@pytest.mark.parametrize("hung_count", [1, 7, 30])
async def test_trackers_whose_catalogue_hangs_leave_the_others_their_log(make, storage, clock, *, hung_count):
    """Their records stay, and so few of the others' that these are never refused."""
    registry = await make(log_bytes_max=60_000)
    hung = [await open_tracker(registry, TrackerKey(f"hung {number}", "s")) for number in range(hung_count)]
    others = [await open_tracker(registry, TrackerKey(f"other {number}", "s")) for number in range(2)]
    gate = Gate()

    async def hang(topic, *_args, **_options):
        if topic.startswith("hung"):
            await gate()

    storage.before["replace"] = hang
    await cancelled_in_turns(hung, clock, rounds=5 * hung_count)
    assert gate.held_count == hung_count
    await cancelled_in_turns(others, clock, rounds=300)
    assert sum(host.log_bytes for host, _ in others) < 1_000
    gate.open()
    await elapse(clock, 1_000)
    assert registry.log.log_bytes == 0


async def test_a_tracker_that_cannot_be_cut_is_not_all_that_is_tried(make, storage, clock, monkeypatch):
    """It holds most of the log, and its catalogue takes no write; the room that the others need is theirs."""
    monkeypatch.setattr("delayed_tracker.service.trackers.log_keeper._GROWTH_SHARE", 1)
    registry = await make(log_bytes_max=12_000)
    failing_one = await open_tracker(registry)
    others = [await open_tracker(registry, TrackerKey(f"other {number}", "s")) for number in range(5)]

    async def fail(topic, *_args, **_options):
        if topic == KEY.topic:
            raise StorageUnavailable("down")

    storage.before["replace"] = fail
    await cancelled_in_turns([failing_one], clock, rounds=25)
    assert failing_one[0].log_bytes > 3_000
    await cancelled_in_turns(others, clock, rounds=300)
    assert registry.log.log_bytes < 11_000
    storage.before.clear()
    await elapse(clock, 20_000)
    assert registry.log.log_bytes < 6_000


@pytest.mark.parametrize("operation", ["list", "create_bucket_snapshot"])
async def test_a_tracker_that_cannot_be_relieved_is_not_all_that_is_tried(make, storage, clock, log, operation):
    """The other one, whose records are fewer, is relieved all the same: also if the first one's are only not stored."""
    registry = await make()
    for key, count in ((KEY, 3_000), (OTHER, 1_000)):
        host, opened = await open_tracker(registry, key)
        await add(host, opened.epoch, clock, count)

    async def fail(*names, topic="", cursor="", **_options):
        if ((topic, cursor) if topic else names[:2]) == tuple(KEY):
            raise StorageUnavailable("down")

    size = registry.log.log_bytes
    again = await restarted(registry, storage, clock, **options(log, size + 100))
    storage.before[operation] = fail
    third, opened = await open_tracker(again, TrackerKey(KEY.topic, "third"))
    await add(third, opened.epoch, clock, 1)
    await elapse(clock, 60_000)
    assert await logged_bytes(log, OTHER) == 0
    assert await logged_bytes(log, KEY)
    storage.before.clear()
    await elapse(clock, 10_000)
    await again.close()


async def test_a_relief_leaves_the_tracker_to_an_open_that_waits_for_it(make, storage, clock, log):
    """Both wait for one recovery, and the tracker stays open."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 2_000)
    again = await restarted(registry, storage, clock, **options(log, host.log_bytes))
    gate = Gate()

    async def hold_recoveries(*_args):
        if again.find_host(KEY) is not None:
            await gate()

    storage.before["list"] = hold_recoveries
    await elapse(clock, 6_000)
    assert gate.held_count == 1
    recovering = again.find_host(KEY)
    opening = asyncio.create_task(again.open(KEY, owner="tests", mark_delete=None))
    await settle()
    gate.open()
    await elapse(clock, 1_000)
    assert opening.result().recovered_count == 2_000
    assert again.host(KEY) is recovering
    await again.close()


async def test_a_tracker_that_is_alone_is_sealed_before_it_is_refused(make, clock):
    """One position is always pending, so that the first record of the bucket that is filling is always needed."""
    registry = await make(log_bytes_max=12_000)
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 1)
    for ledger in range(2, 400):
        host.cancel(opened.epoch, await add(host, opened.epoch, clock, 200, ledger=ledger))
        await host.until_durable()
    assert registry.log_keeper.checkpoint_count > 2


async def test_a_log_that_is_full_at_the_start_is_cut(make, storage, clock, log):
    """It takes no record whose commit would be the occasion."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 2_000)
    again = await restarted(registry, storage, clock, **options(log, host.log_bytes // 2))
    await elapse(clock, 5_000)
    other, opened = await open_tracker(again, OTHER)
    await add(other, opened.epoch, clock, 1)
    assert await logged_bytes(log) == 0
    await again.close()


@pytest.mark.parametrize("way", ["the limit rises", "a tracker is deleted"])
async def test_a_window_that_opens_without_a_commit_lets_what_waits_go_on(make, clock, way):
    """An ack that waits because the log is too long is not a commit, and may be all that is going on."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 500)
    other, other_opened = await open_tracker(registry, OTHER)
    await add(other, other_opened.epoch, clock, 1)
    await registry.close_tracker(KEY, opened.epoch)
    limits = registry.service_limits
    limits.adopt(replace(limits, add_log_bytes_max=registry.log.log_bytes // 2))
    waiting = asyncio.create_task(other.wait_for_window())
    await settle()
    assert not waiting.done()
    if way == "the limit rises":
        limits.adopt(replace(limits, add_log_bytes_max=2**30))
        registry.limits_changed()
    else:
        await delete_tracker(registry, KEY, None)
    await settle()
    assert waiting.done()


async def test_a_lower_limit_makes_room(make, clock):
    """Nothing is added that would be the occasion."""
    registry = await make()
    host, opened = await open_tracker(registry)
    await add(host, opened.epoch, clock, 500)
    registry.service_limits.adopt(replace(registry.service_limits, add_log_bytes_max=host.log_bytes))
    registry.limits_changed()
    await elapse(clock, 1_000)
    assert host.log_bytes == 0
