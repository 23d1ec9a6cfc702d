"""kill -9 of services that share a storage without an add log, and have one each: the next one may lack the last one's."""

import random
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import Position, TrackerSession
from tests.integration.crashes.test_kill import finish, work_until_killed
from tests.integration.harness.dispatcher import SETTINGS, Dispatcher

MERGING = {**SETTINGS, "delayedDeliveryMaxNumBuckets": "4"}

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


class Machines:
    """Directories with an add log each, and what the dispatcher finds when a service begins in one of them."""

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self._directory = directory
        self._rng = rng
        self._number = self._count = 0
        self._is_another = False
        self.unfinished_count = 0
        """Messages that a dispatcher without claims would have offered again."""
        self.offered_again: list[int] = []
        """Messages that were offered again, by start."""

    def new(self) -> Path:
        """Return the empty directory of another machine."""
        self._count += 1
        self._is_another = self._count > 1
        self._number = self._count
        return self._current

    def any(self) -> Path:
        """Return the directory of this machine, of another one that had the tracker before, or of a new one."""
        before = self._number
        if self._rng.random() < 0.4:
            return self.new()
        self._number = self._rng.randint(1, self._count)
        self._is_another = self._number != before
        return self._current

    @property
    def _current(self) -> Path:
        directory = self._directory / f"machine{self._number}"
        directory.mkdir(exist_ok=True)
        return directory

    async def begin(self, dispatcher: Dispatcher, session: TrackerSession) -> None:
        """Offer again only from ``replay_from``; what is not tracked before it was acknowledged, or due when offered."""
        assert session.opened.add_log_missing == self._is_another
        replay_from = session.opened.replay_from or Position(0, 0)
        self.unfinished_count += len(dispatcher.unfinished)
        untracked = {position for position in await dispatcher.lost(session) if position < replay_from}
        lost = untracked - dispatcher.ack_sent - dispatcher.maybe_answered_due
        assert not lost, sorted(lost)[:5]
        dispatcher.finished |= untracked  # a restarted dispatcher reads them now
        again = [position for position in dispatcher.unfinished if position >= replay_from]
        self.offered_again.append(len(again))
        if again:
            await dispatcher.offer(session, again)
        assert await dispatcher.lost(session) == []


def settings_in(directory: Path) -> dict[str, str]:
    return {**MERGING, "addLogUrl": f"sqlite:{directory / 'adds'}"}


async def kill_on_machines(directory: Path, kills: int, storage_url: str) -> None:
    """Kill a service on one machine after the other; assert that nothing is lost or early, and what is offered again."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dispatcher = Dispatcher(random.Random(seed), claims=True)
    machines = Machines(directory, dispatcher.rng)
    for kill in range(kills):
        machine = machines.any() if kill > 1 else machines.new()
        service = await ServiceProcess.start(machine, storage_url=storage_url, settings=settings_in(machine))
        try:
            await work_until_killed(
                dispatcher, service, dispatcher.rng.uniform(0.5, 2.0), begin=machines.begin, sealed_min=6
            )
        finally:
            await service.ensure_stopped()
    machine = machines.new()
    await finish(dispatcher, machine, storage_url, settings_in(machine), begin=machines.begin)
    print(f"offered again {machines.offered_again}, of {machines.unfinished_count} unfinished")
    assert dispatcher.sealed_seen, "the load must have sealed buckets"
    assert dispatcher.delivered_count > kills * 20, "the load must have delivered messages"
    assert 2 * sum(machines.offered_again) < machines.unfinished_count, "the snapshots must have saved offers"


@pytest.mark.parametrize(
    "kills",
    [2, pytest.param(20, marks=[pytest.mark.deep, pytest.mark.timeout(1_200)])],
    ids=lambda kills: f"{kills}-kills",
)
async def test_another_machine_goes_on(tmp_path: Path, kills: int):
    """A process with an empty disk loses nothing and hands out nothing early, with a replay only from where it says."""
    await kill_on_machines(tmp_path, kills, f"file://{tmp_path / 'shared'}")
