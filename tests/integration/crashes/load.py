"""The load of several client processes, and the audit of their journals."""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from delayed_tracker.cli.demo.service_process import ServiceProcess
from tests.integration.crashes.facts import Facts
from tests.integration.crashes.journal import read_journal
from tests.integration.crashes.load_client import HANDED_OFF_MAX, LEASED_MAX, Feed
from tests.integration.harness.lab import OWN_ADDRESS
from tests.repository.project_tree import ROOT

WINDOW = 200
TICK_MS = 100
SETTINGS = {
    "delayedDeliveryTickTimeMillis": str(TICK_MS),
    "delayedDeliveryMinIndexCountPerBucket": "50",
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment": "10",
    "delayedDeliveryMaxNumBuckets": "10",
    "consumptionWindowPositions": str(WINDOW),
}
CLIENTS = 4
OPENING_EVERY = 5
"""Every fifth kill, from the first on, does not wait for the clients: it may come while trackers are recovered."""
SHOWN_MAX = 5
DELIVERED_PER_KILL = 20
"""Messages that each client delivers for each kill, so that there is something to lose."""
WORKING_BYTES = 2_000
"""Growth of a journal after which its client is at work: an open takes a tenth of it."""
TWICE_MAX = WINDOW + max(LEASED_MAX, HANDED_OFF_MAX)
"""Consumed positions that one kill may bring back: the window, and what the call carries that fills it."""


@dataclass
class Load:
    """Running clients, each with a tracker of its own."""

    directory: Path
    topics: list[str]
    processes: list[asyncio.subprocess.Process] = field(default_factory=list)
    generation: int = 0
    _sizes: list[int] = field(default_factory=list)
    """Bytes of the journals when the service was published."""

    def publish(self, address: str, *, draining: bool = False) -> None:
        """Tell the clients where the service is now."""
        self.generation += 1
        self._sizes = self._journal_sizes()
        Feed(self.generation, address, draining).publish(self.directory / "feed.json")

    def journal_of(self, topic: str) -> Path:
        """Return the file of the client with that topic."""
        return self.directory / f"{topic}.journal"

    def facts(self, topic: str, *, until: float | None = None) -> Facts:
        """Return what a client knew at a time; None is now."""
        return Facts(TICK_MS).read(read_journal(self.journal_of(topic), until=until))

    async def until_working(self) -> None:
        """Return when every client has made some calls to the service that was published last."""
        while any(now < before + WORKING_BYTES for now, before in zip(self._journal_sizes(), self._sizes, strict=True)):
            self.require_running()
            await asyncio.sleep(0.02)

    async def until_delivered(self, count: int) -> None:
        """Return when every client has delivered more than so many messages: on a busy machine that takes longer."""
        while any(self.facts(topic).delivered_count <= count for topic in self.topics):
            self.require_running()
            await asyncio.sleep(0.2)

    def _journal_sizes(self) -> list[int]:
        journals = map(self.journal_of, self.topics)
        return [journal.stat().st_size if journal.exists() else 0 for journal in journals]

    def require_running(self) -> None:
        """Raise AssertionError if a client has ended."""
        assert [process.returncode for process in self.processes] == [None] * len(self.processes)

    async def until_drained(self) -> None:
        """Return when every client has delivered all that is tracked."""
        assert [await process.wait() for process in self.processes] == [0] * len(self.processes)

    def audit(self) -> Counter[int]:
        """Assert that nothing is lost, early or back after its end; return how much came twice, by generation."""
        twice: Counter[int] = Counter()
        for topic in self.topics:
            facts = self.facts(topic)
            assert facts.wrong == [], facts.wrong[:SHOWN_MAX]
            lost = facts.lost(facts.owed())
            assert lost == [], [(position, facts.positions[position]) for position in lost[:SHOWN_MAX]]
            twice += facts.twice
        assert [count for count in twice.values() if count > TWICE_MAX] == [], twice
        return twice


@asynccontextmanager
async def running_load(directory: Path, seed: int, *, count: int, replays: bool = False) -> AsyncIterator[Load]:
    """Start clients; those that still run at the end are killed."""
    load = Load(directory, [f"topic-{number}" for number in range(count)])
    try:
        for topic in load.topics:
            load.processes.append(
                await asyncio.create_subprocess_exec(
                    sys.executable, "-m", "tests.integration.crashes.load_client", str(directory / "feed.json"),
                    str(load.journal_of(topic)), topic, f"{seed}-{topic}", "replay" if replays else "",
                    cwd=ROOT,
                )
            )  # fmt: skip
        yield load
    finally:
        for process in load.processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def kill_under_load(
    directory: Path,
    kills: int,
    *,
    seed: int,
    replays: bool,
    storage_url: str,
    directory_of: Callable[[int], Path],
) -> None:
    """Kill services at random moments under the load of the clients; assert that the answers of all of them hold.

    Args:
        directory: of the clients.
        kills: number of services that are killed; one more drains.
        seed: of clients and moments.
        replays: whether clients offer what ``replay_from`` says, instead of repeating only calls without an answer.
        storage_url: the services' storage.
        directory_of: returns the existing directory of a service by its number.
    """
    rng = random.Random(seed)
    async with running_load(directory, seed, count=CLIENTS, replays=replays) as load:
        for number in range(kills + 1):
            service = await ServiceProcess.start(
                directory_of(number), storage_url=storage_url, settings={**SETTINGS, "grpcListenAddress": OWN_ADDRESS}
            )
            try:
                load.publish(service.grpc_address, draining=number == kills)
                if number < kills:
                    if number % OPENING_EVERY:
                        await load.until_working()
                    if number == kills - 1:
                        await load.until_delivered(DELIVERED_PER_KILL * kills)
                    await asyncio.sleep(rng.uniform(0.1, 1.5))
                    load.require_running()
                    await service.kill()
                else:
                    await load.until_drained()
                    assert await service.stop() == 0
            finally:
                await service.ensure_stopped()
        twice = load.audit()
        print(f"twice, by kill: {dict(twice)}")
        facts = [load.facts(topic) for topic in load.topics]
    assert all(each.delivered_count > DELIVERED_PER_KILL * kills for each in facts), "every client must have delivered"
