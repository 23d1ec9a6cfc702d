"""The add log over BookKeeper with several instances that take trackers from each other, fail and die, by the thousand.

After each history every record that was acknowledged, and not cut, is read back by the last owner, in order.
"""

import asyncio
import contextlib
import random

import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.bookkeeper.log import own_log
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from tests.snapshot_storage.shared.bookkeeper.memory_cluster import MemoryBookKeeper, MemoryCluster

URL = BookKeeperUrl.parse("zk://zk:2181/ledgers")
TRACKERS = [("topic", "a"), ("topic", "b"), ("other topic", "a")]
ROLL_BYTES = 400
"""So small that ledgers follow each other quickly."""
STEPS = 12


class Instance:
    """One process: a log, and what its trackers think."""

    def __init__(self, world, number):
        self.world = world
        self.name = f"writer {number}"
        self.client = MemoryBookKeeper(world.cluster, random.Random(world.chance.random()), failing=world.failing)
        self.log = BookKeeperAddLog(
            URL, roll_bytes=ROLL_BYTES, chance=random.Random(world.chance.random()), connect=lambda _url: self.client
        )
        self.epochs = {}
        self.next_numbers = {}

    async def live(self, steps):
        """Take trackers over, append, cut, and look what dead instances have left."""
        chance = self.world.chance
        for _ in range(steps):
            tracker = chance.choice(TRACKERS)
            if chance.random() < self.world.expiring:
                self.client.expire()
            try:
                if tracker not in self.epochs or chance.random() < 0.15:
                    await self.take_over(tracker)
                elif chance.random() < 0.8:
                    await self.append([tracker, *chance.sample(TRACKERS, chance.randrange(2))])
                elif chance.random() < 0.7:
                    await self.cut(tracker)
                else:
                    await self.log.extents()
            except StorageUnavailable:
                continue

    async def take_over(self, tracker):
        self.epochs.pop(tracker, None)
        epoch = self.world.next_epoch(tracker)
        try:
            extent = await self.log.take_over(*tracker, epoch=epoch, writer=self.name)
        except SnapshotConflict:
            return
        self.epochs[tracker] = epoch
        self.next_numbers[tracker] = extent.last_number + 1

    async def append(self, trackers):
        trackers = [tracker for tracker in dict.fromkeys(trackers) if tracker in self.epochs]
        parts = [
            LogAppend(*tracker, self.epochs[tracker], self.next_numbers[tracker], self.world.records(self.name))
            for tracker in trackers
        ]
        if not parts:
            return
        try:
            refused = await self.log.append(parts, writer=self.name)
        except StorageUnavailable:
            for tracker in trackers:  # the outcome is unknown: the owner would repeat; this one gives up
                self.epochs.pop(tracker)
            raise
        for part in parts:
            tracker = (part.topic, part.cursor)
            if tracker in refused:
                self.epochs.pop(tracker, None)
                continue
            self.world.acknowledged(part)
            self.next_numbers[tracker] = part.first_number + len(part.records)

    def die(self):
        """End the process with -9."""
        self.client.cut_off = True
        self.log._announcing.cancel()
        self.world.cluster.end_session(self.client.session)

    async def require_working(self):
        """Take a tracker over and add a record to it, with which nobody interferes."""
        self.client.failing = 0.0
        await self.take_over(TRACKERS[0])
        await self.append(TRACKERS[:1])
        assert TRACKERS[0] in self.epochs

    async def cut(self, tracker):
        through = self.world.chance.randint(0, self.next_numbers[tracker])
        self.world.cut_from(tracker, through)
        await self.log.cut([(*tracker, min(through, self.next_numbers[tracker] - 1))])


class World:
    """Instances, and what they were told."""

    def __init__(self, seed, failing, expiring):
        self.cluster = MemoryCluster()
        self.chance = random.Random(seed)
        self.failing = failing
        self.expiring = expiring
        self.epoch = 0
        self.facts = {tracker: {} for tracker in TRACKERS}
        self.cuts = dict.fromkeys(TRACKERS, 0)
        self.made = 0

    def next_epoch(self, tracker):
        self.epoch += 1
        return self.epoch

    def records(self, name):
        self.made += 1
        return [f"{name} {self.made} {index}".encode() * self.chance.randrange(1, 5) for index in range(3)]

    def acknowledged(self, part):
        facts = self.facts[part.topic, part.cursor]
        for number, record in enumerate(part.records, part.first_number):
            assert facts.setdefault(number, record) == record, (
                f"two records of {part.topic} {part.cursor} {number}: {part}"
            )

    def cut_from(self, tracker, through):
        self.cuts[tracker] = max(self.cuts[tracker], through)

    async def audit(self):
        """Open once more, take everything over, and compare."""
        self.failing = 0.0
        last = Instance(self, 99)
        await last.log.start()
        for tracker in TRACKERS:
            await last.take_over(tracker)
            page = await last.log.read(*tracker, after=0, bytes_max=1 << 30)
            found = {logged.number: logged.record for logged in page.records}
            assert list(found) == sorted(found)
            assert page.corrupt == ()
            for number, record in self.facts[tracker].items():
                if number > self.cuts[tracker]:
                    assert found.get(number) == record, f"record {number} of {tracker}"
        await last.log.close()


async def history(seed, failing, expiring):
    world = World(seed, failing, expiring)
    for round_number in range(3):
        instances = []
        for number in range(3):
            instance = Instance(world, 10 * round_number + number)
            try:
                await instance.log.start()
            except StorageUnavailable:
                continue
            instances.append(instance)
        lives = [asyncio.ensure_future(instance.live(STEPS)) for instance in instances]
        for instance, life in zip(instances, lives, strict=True):
            if world.chance.random() < 0.5:
                for _ in range(world.chance.randrange(200)):
                    await asyncio.sleep(0)
                life.cancel()
                instance.client.cut_off = True
        for life in lives:
            await asyncio.wait([life])
            if not life.cancelled():
                life.result()
        for instance in instances:
            if instance.client.cut_off or world.chance.random() < 0.3:
                instance.die()
            else:
                await instance.require_working()
                await instance.log.close()
    await world.audit()
    return world


@pytest.mark.parametrize(
    ("failing", "expiring"), [(0.0, 0.0), (0.02, 0.0), (0.0, 0.2)], ids=["all is well", "failures", "expiries"]
)
@pytest.mark.parametrize("first", [0, *(pytest.param(first, marks=pytest.mark.deep) for first in range(30, 210, 30))])
async def test_no_acknowledged_record_is_lost(monkeypatch, first, failing, expiring):
    """Two hundred histories, after which each instance that is alive works; a failing one prints its seed.

    In every other one old ledgers are rewritten as soon as they have more that is cut than what is needed.
    """
    for seed in range(first, first + 30):
        monkeypatch.setattr(own_log, "SPARE_LEDGERS", 0 if seed % 2 else 4)
        try:
            await history(seed, failing, expiring)
        except (AssertionError, InvalidInput) as error:
            error.add_note(f"seed {seed}, failing {failing}, expiring {expiring}")
            raise


async def test_an_append_that_waits_for_one_tracker_does_not_pass_the_fence_of_another():
    """Whenever the newer epoch comes: what was appended under the older one is in the extent, or is refused."""
    owned, other = TRACKERS[:2]
    outcomes = set()
    for seed in range(100):
        cluster, chance = MemoryCluster(), random.Random(seed)
        client = MemoryBookKeeper(cluster, chance)
        log = BookKeeperAddLog(URL, chance=random.Random(seed + 1), connect=lambda _url, client=client: client)
        await log.start()
        await log.take_over(*owned, epoch=1, writer="old")
        parts = [LogAppend(*owned, 1, 1, [b"old"]), LogAppend(*other, 1, 1, [b"other"])]
        appending = asyncio.create_task(log.append(parts, writer="old"))
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        extent = await log.take_over(*owned, epoch=2, writer="new")
        refused = await appending
        outcomes.add(extent.last_number)
        assert refused == ([] if extent.last_number else [owned]), f"seed {seed}"
        new = LogAppend(*owned, 2, extent.last_number + 1, [b"new"])
        assert await log.append([new], writer="new") == []
        page = await log.read(*owned, after=extent.last_number, bytes_max=1 << 20)
        assert [logged.record for logged in page.records] == [b"new"], f"seed {seed}"
        await log.close()
    assert outcomes == {0, 1}


async def test_a_tracker_that_is_lost_before_its_move_has_ended_is_not_owned():
    """Its former owner's ledgers are still being deleted when it moves on: only the newest owner may append to it."""
    moved, other = TRACKERS[:2]
    for seed in range(10):
        world = World(seed, failing=0.0, expiring=0.0)
        dead, first, second = (Instance(world, number) for number in range(3))
        for instance in (dead, first, second):
            await instance.log.start()
        for number in range(1, 41):  # in a ledger each
            await dead.log.append([LogAppend(*moved, 1, number, [bytes(ROLL_BYTES)])], writer="dead")
        await dead.log.close()
        ledgers = set(world.cluster.ledgers)
        taking = asyncio.create_task(first.log.take_over(*moved, epoch=2, writer="first"))
        while ledgers <= world.cluster.ledgers.keys():  # noqa: ASYNC110  # nobody says when the first one is deleted
            await asyncio.sleep(0)
        assert (await second.log.take_over(*moved, epoch=3, writer="second")).last_number == 40
        assert await first.log.append([LogAppend(*other, 1, 1, [b"1"])], writer="first") == []
        with contextlib.suppress(SnapshotConflict):
            assert (await taking).last_number == 40, f"seed {seed}"
        for number in (1, 41):
            late = LogAppend(*moved, 2, number, [b"late"])
            assert await first.log.append([late], writer="first") == [moved], f"seed {seed}"
        for instance in (first, second):
            await instance.log.close()


async def test_a_tracker_that_was_lost_is_counted_no_more():
    """Also if this instance has written nothing since, and has not seen that its ledger is fenced."""
    world = World(1, failing=0.0, expiring=0.0)
    first, second = (Instance(world, number) for number in range(2))
    for instance in (first, second):
        await instance.log.start()
    kept, lost = TRACKERS[:2]
    await first.log.append([LogAppend(*tracker, 1, 1, [b"1"]) for tracker in (kept, lost)], writer="first")
    await second.log.take_over(*lost, epoch=2, writer="second")
    for instance, tracker in ((first, kept), (second, lost)):
        assert [(extent.topic, extent.cursor) for extent in await instance.log.extents()] == [tracker]
    for instance in (first, second):
        await instance.log.close()
