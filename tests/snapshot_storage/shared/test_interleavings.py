"""Two catalogues over one store, in every order of their steps and with faults: what was answered is what happened."""

import asyncio
import itertools
import random
from dataclasses import dataclass, replace

import pytest

from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.objects.documents import ObjectBlobs, ObjectDocuments
from delayed_tracker.storage.protocol import LogMark
from delayed_tracker.storage.shared.catalogue import SharedCatalogue
from delayed_tracker.storage.testing.contract_tools import entry_of
from delayed_tracker.storage.testing.memory_objects import MemoryObjects
from tests.snapshot_storage.shared.stepped import Choose, Scheduler, SteppedObjects

LARGE = bytes(range(256)) * 3


@dataclass(frozen=True)
class Call:
    """A call of one process. It adds the entry of its number, and removes others."""

    number: int
    epoch: int
    large: bool = False
    remove: tuple[int, ...] = ()
    anonymous: bool = False


@dataclass
class Outcome:
    """A call of a process, and its answer: True, or the error."""

    process: int
    call: Call
    answer: object


def summary_of(call: Call) -> bytes:
    return LARGE + bytes([call.number]) if call.large else b"summary"


class World:
    """Two processes, their calls, and the store."""

    def __init__(self, choose: Choose, *, faults: int, seed: int = 0, document_bytes_max: int = 10**6) -> None:
        self.scheduler = Scheduler(choose, faults)
        first = SteppedObjects(self.scheduler, 0)
        self.stores = (first, SteppedObjects(self.scheduler, 1, first))
        self.outcomes: list[Outcome] = []
        self.catalogues = [
            self._catalogue(store, process, random.Random(10 * seed + process), document_bytes_max)
            for process, store in enumerate(self.stores)
        ]
        self._document_bytes_max = document_bytes_max

    def _catalogue(self, store, process, chance, document_bytes_max) -> SharedCatalogue:
        async def sleep(_seconds):
            await self.scheduler.turn(process)

        return SharedCatalogue(
            ObjectDocuments(store, max_bytes=document_bytes_max),
            ObjectBlobs(store, process, lambda: chance.getrandbits(62)),
            sleep=sleep,
            chance=chance,
        )

    async def run(self, calls: list[list[list[Call]]]) -> None:
        """Run the calls of each process: group after group, the calls of a group at the same time."""
        work = [asyncio.create_task(self._process(number, groups)) for number, groups in enumerate(calls)]
        await self.scheduler.run(work)
        await asyncio.gather(*work)

    async def _process(self, process: int, groups: list[list[Call]]) -> None:
        for group in groups:
            await asyncio.gather(*(self._call(process, call) for call in group))

    async def _call(self, process: int, call: Call) -> None:
        try:
            await self.catalogues[process].replace(
                "topic",
                "cursor",
                remove=call.remove,
                add=[replace(entry_of(call.number), summary=summary_of(call))],
                epoch=call.epoch,
                writer="" if call.anonymous else f"process {process}",
                mark=LogMark(call.number),
            )
        except (SnapshotConflict, StorageUnavailable) as error:
            self.outcomes.append(Outcome(process, call, type(error)))
        else:
            self.outcomes.append(Outcome(process, call, True))

    async def audit(self) -> None:
        """Compare the answers with the versions that the store has had, and read all that is left."""
        history = self.stores[0].history
        removable = {number for outcome in self.outcomes for number in outcome.call.remove}
        for before, after in itertools.pairwise(history):
            assert after.epoch >= before.epoch, "an older epoch has written"
            if after.epoch == before.epoch:
                assert before.writer in {"", after.writer}, "an epoch has had two writers"
            assert set(before.rows) - set(after.rows) <= removable, "a commit has undone another one"
        for outcome in self.outcomes:
            number = outcome.call.number
            versions = [version for version in history if number in version.rows]
            if outcome.answer is True:
                assert versions, f"{number} was answered, and never stored"
                assert all(version.epoch >= outcome.call.epoch for version in versions)
                assert number in history[-1].rows or number in removable
            elif outcome.answer is SnapshotConflict:
                assert not versions, f"{number} was refused, and stored nevertheless"
                assert any(version.epoch >= outcome.call.epoch for version in history)
        reader = MemoryObjects()
        reader.content, reader._versions = self.stores[0].content, self.stores[0]._versions
        catalogue = SharedCatalogue(ObjectDocuments(reader), ObjectBlobs(reader, 9, lambda: 9))
        state = await catalogue.list("topic", "cursor")
        calls = {outcome.call.number: outcome.call for outcome in self.outcomes}
        last = history[-1] if history else None
        assert {entry.bucket_id for entry in state.entries} == (set(last.rows) if last else set())
        assert not state.corrupt
        assert all(entry.summary == summary_of(calls[entry.bucket_id]) for entry in state.entries), "a blob is gone"


class EveryChoice:
    """Goes through all sequences of choices, one sequence for each run."""

    def __init__(self) -> None:
        self._next: list[int] = []
        self._made: list[tuple[int, int]] = []

    def choose(self, count: int) -> int:
        place = len(self._made)
        chosen = self._next[place] if place < len(self._next) else 0
        self._made.append((chosen, count))
        return chosen

    def advance(self) -> bool:
        """Prepare the next sequence; return False after the last one."""
        made = self._made
        while made and made[-1][0] + 1 == made[-1][1]:
            made.pop()
        if not made:
            return False
        self._next = [chosen for chosen, _ in made[:-1]] + [made[-1][0] + 1]
        self._made = []
        return True


TAKE_OVER = [[[Call(1, 1)], [Call(2, 1)]], [[Call(3, 2)]]]
"""The first process claims a tracker and commits, while the second takes it over."""
SAME_EPOCH = [[[Call(1, 1)]], [[Call(2, 1)]]]
"""Both processes open a tracker for the first time."""
ANONYMOUS = [[[Call(1, 1, anonymous=True)]], [[Call(2, 1, anonymous=True, remove=(9,))]]]
"""Both may write: neither undoes the other."""


async def every_order(calls, *, faults: int) -> int:
    every, count = EveryChoice(), 0
    while True:
        world = World(every.choose, faults=faults)
        await world.run(calls)
        await world.audit()
        count += 1
        if not every.advance():
            return count


@pytest.mark.parametrize("calls", [TAKE_OVER, SAME_EPOCH, ANONYMOUS], ids=["take_over", "same_epoch", "anonymous"])
async def test_every_order_of_steps(calls):
    """Without faults, and in any order, each call is answered with what the store has."""
    assert await every_order(calls, faults=0) > 10


@pytest.mark.parametrize("calls", [SAME_EPOCH, ANONYMOUS], ids=["same_epoch", "anonymous"])
async def test_every_order_with_one_fault(calls):
    """A failure, a lost reply or a late write at any step changes no answer into a wrong one."""
    assert await every_order(calls, faults=1) > 100


@pytest.mark.deep
@pytest.mark.timeout(600)
async def test_every_order_of_a_take_over_with_one_fault():
    """A take-over with a fault at any step leaves what was answered."""
    assert await every_order(TAKE_OVER, faults=1) > 1_000


def random_calls(chance: random.Random) -> list[list[list[Call]]]:
    """Return the calls of two processes: epochs that rise now and then, groups, large values, removals of own entries."""
    calls, number = [], 0
    for _ in range(2):
        groups, epoch, own = [], chance.randint(1, 2), []
        for _ in range(chance.randint(1, 3)):
            group = []
            for _ in range(chance.randint(1, 3)):
                number += 1
                remove = (own.pop(chance.randrange(len(own))),) if own and chance.random() < 0.3 else ()
                group.append(Call(number, epoch, chance.random() < 0.4, remove, chance.random() < 0.1))
            own += [call.number for call in group]
            groups.append(group)
            epoch += chance.random() < 0.5
        calls.append(groups)
    return calls


async def one_history(seed: int) -> None:
    chance = random.Random(seed)
    world = World(
        chance.randrange,
        faults=chance.choice((0, 1, 3)),
        seed=seed,
        document_bytes_max=chance.choice((10**6, 300)),
    )
    await world.run(random_calls(chance))
    await world.audit()


@pytest.mark.parametrize("first", range(0, 600, 200))
async def test_random_histories(first):
    """Whatever two processes do, and whatever fails, what was answered is what is stored."""
    for seed in range(first, first + 200):
        await one_history(seed)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1_000, 11_000, 1_000))
async def test_many_random_histories(first):
    """The same for ten thousand histories."""
    for seed in range(first, first + 1_000):
        await one_history(seed)
