"""Bookies, or ZooKeeper, are away under load: what is loaded is handed out, and everything goes on when they are back."""

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.client import Position, TrackerSession, Unavailable
from tests.bookkeeper.servers.cluster import Cluster
from tests.bookkeeper.servers.fixtures import allow_downloads, cluster, zookeeper
from tests.bookkeeper.servers.proxy import Proxy, running_proxy
from tests.integration.crashes.test_kill import finish
from tests.integration.harness.dispatcher import SETTINGS, SUBSCRIPTION, TOPIC, Dispatcher, connect, now_ms
from tests.service.metrics.scraping import parsed, summed

__all__ = ["cluster", "zookeeper"]

pytestmark = pytest.mark.timeout(600)

AWAY_S = [
    pytest.param(4, marks=pytest.mark.long, id="4 seconds"),
    pytest.param(60, marks=pytest.mark.deep, id="60 seconds"),
]
SESSION_S = 10
LATE_S = 10.0
"""Delay of a hand-out that is excused on a machine that does much else."""
LEASE_MS = 300_000
"""Longer than any outage, as acknowledgements wait for the add log."""
PERIOD_MS = 25
SEALING = {**SETTINGS, "delayedDeliveryMinIndexCountPerBucket": "5000"}
"""Few seals, so that what is due during the outage is in memory."""

T = TypeVar("T")


def pytest_collection_modifyitems(items):
    """Give the tests more time, because the first may wait for the download of the servers."""
    allow_downloads(items)


class Patient(Dispatcher):
    """Repeats each call whose outcome is unknown, as dispatchers should."""

    unknown_count = 0

    async def repeated(self, call: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await call()
            except Unavailable:
                self.unknown_count += 1
                await asyncio.sleep(0.1)

    async def offer(self, session, positions):
        return await self.repeated(lambda: super(Patient, self).offer(session, positions))

    async def deliver_once(self, session, *, wait_ms):
        lease = await self.repeated(lambda: session.poll(1_000, wait_ms=wait_ms, lease_ms=LEASE_MS))
        positions = list(lease.messages)
        for deliver_at_ms, position in zip(lease.messages.deliver_at_ms, positions, strict=True):
            self.delivered_count += 1
            if lease.messages.server_time_ms < deliver_at_ms:
                self.early.append((position, lease.messages.server_time_ms - deliver_at_ms))
        if positions:
            await self.acknowledge(session, lease.lease_id, positions)
        return len(positions)

    async def acknowledge(self, session, lease_id, positions):
        ledgers, entries = [each.ledger_id for each in positions], [each.entry_id for each in positions]
        answer = await self.repeated(lambda: session.ack(lease_id, ledgers, entries))
        assert not answer.stale_offsets
        self.finished.update(positions)


class Ticking(Patient):
    """A message is due every 25 ms all through an outage; polls go on while acknowledgements wait."""

    async def fill(self, session: TrackerSession, seconds: float) -> None:
        """Offer the messages of the next seconds."""
        positions = [Position(1, entry) for entry in range(round(seconds * 1_000 / PERIOD_MS))]
        begin_ms = now_ms() + 1_000
        self.offered = {position: begin_ms + PERIOD_MS * position.entry_id for position in positions}
        await self.offer(session, positions)
        self.handed_out: dict[Position, int] = dict.fromkeys(self.finished, now_ms())

    async def consume(self, session: TrackerSession) -> None:
        """Poll until all came, and acknowledge beside it."""
        async with asyncio.TaskGroup() as acknowledging:
            while len(self.handed_out) < len(self.offered):
                lease = await session.poll(1_000, wait_ms=200, lease_ms=LEASE_MS)
                positions = list(lease.messages)
                assert not self.handed_out.keys() & set(positions), "each comes once"
                self.handed_out |= dict.fromkeys(positions, lease.messages.server_time_ms)
                if positions:
                    acknowledging.create_task(self.acknowledge(session, lease.lease_id, positions))

    def early_or_late(self, until_ms: int) -> list[Position]:
        """Return the messages due by a time that came early, or much later than they should."""
        return [
            position
            for position, due_ms in self.offered.items()
            if due_ms <= until_ms and not 0 <= self.handed_out.get(position, 0) - due_ms <= LATE_S * 1_000
        ]


class Service:
    """A service with two trackers under load."""

    def __init__(self, process: ServiceProcess, loaded: TrackerSession, ticking: TrackerSession) -> None:
        self._process = process
        self.loaded = loaded
        self.ticking = ticking

    async def health(self) -> tuple[str, str]:
        """Return what the service says of itself, and why."""
        async with httpx.AsyncClient(timeout=60) as http:
            answer = (await http.get(f"http://{self._process.http_address}/health/ready")).json()
            return answer["status"], answer.get("reason", "")

    async def is_degraded(self, cause: str) -> bool:
        """Return whether the service says that it works in part, for that cause."""
        status, reason = await self.health()
        return status == "degraded" and cause in reason

    async def metric(self, name: str, **labels: str) -> float:
        """Return the sum of the series that have these labels."""
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.get(f"http://{self._process.http_address}/metrics")
            return summed(parsed(answer.text), name, **labels)


@asynccontextmanager
async def running_service(directory: Path, storage_url: str):
    """Start a service, and stop it in order."""
    process = await ServiceProcess.start(directory, storage_url=storage_url, settings=SEALING)
    try:
        async with connect(process.grpc_address) as client:
            loaded = await client.open_tracker(TOPIC, SUBSCRIPTION)
            yield Service(process, loaded, await client.open_tracker(TOPIC, "ticking"))
        assert await process.stop() == 0
    finally:
        await process.ensure_stopped()


async def until(reached: Callable[[], Awaitable[object]]) -> None:
    """Wait until a process that cannot tell has come so far."""
    async with asyncio.timeout(90):
        while not await reached():  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def url_of(cluster: Cluster, zookeeper_address: str) -> str:
    """Return the URL of a storage of the test's own."""
    cluster.require(3)
    return f"bookkeeper:zk://{zookeeper_address}/ledgers?root=/{uuid.uuid4().hex}&ensemble=3&writeQuorum=2&ackQuorum=2"


@asynccontextmanager
async def outage(service: Service, loaded: Patient, ticking: Ticking, away_s: float):
    """Load a service before, during and after what happens in the block."""
    working = asyncio.create_task(loaded.work(service.loaded))
    tasks = {working}

    async def has_worked() -> bool:
        return loaded.delivered_count > 100

    try:
        await until(has_worked)
        # Not before: on a busy machine all of it would have come before the outage.
        await ticking.fill(service.ticking, away_s + 3)
        consuming = asyncio.create_task(ticking.consume(service.ticking))
        tasks.add(consuming)
        yield working
        offered = loaded.next_ledger_id

        async def is_well() -> bool:
            return await service.health() == ("ready", "") and loaded.next_ledger_id > offered + 10

        await until(is_well)
        assert not working.done()
        await consuming
        assert ticking.early_or_late(now_ms()) == []
        assert await ticking.lost(service.ticking) == []
        assert (await service.ticking.stats()).pending_count == 0
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def passed(working: asyncio.Task, seconds: float) -> None:
    """Let the outage last, while the load goes on."""
    await asyncio.wait({working}, timeout=seconds)
    assert not working.done()


@pytest.mark.deep
@pytest.mark.parametrize("away_s", AWAY_S)
async def test_bookies_that_are_away(cluster: Cluster, tmp_path: Path, away_s: float):
    """Adds get UNAVAILABLE and are repeated; polls hand out what is in memory; nothing is lost or early."""
    storage_url = url_of(cluster, cluster.zookeeper.address)
    loaded, ticking = Patient(random.Random(1)), Ticking(random.Random(2))
    async with running_service(tmp_path, storage_url) as service, outage(service, loaded, ticking, away_s) as working:
        try:
            for bookie in cluster.bookies[:3]:
                bookie.process.kill()
            began_ms = now_ms()
            await passed(working, away_s)

            async def adds_fail() -> bool:
                is_degraded = await service.is_degraded("the add log is not written, adds fail")
                return is_degraded and loaded.unknown_count > 0

            await until(adds_fail)
            assert ticking.early_or_late(now_ms() - round(LATE_S * 1_000)) == []
            assert any(at_ms > began_ms for at_ms in ticking.handed_out.values())
            assert await service.metric("delayed_tracker_bookie_requests_total", outcome="bookie_unavailable")
        finally:
            await asyncio.to_thread(cluster.require, 3)
    await recovered_elsewhere(tmp_path, storage_url, loaded)


@pytest.mark.parametrize("away_s", AWAY_S)
async def test_a_zookeeper_that_is_away(cluster: Cluster, tmp_path: Path, away_s: float):
    """Adds go on in the ledger that is open; the log stays that of the service, also if its session expires."""
    async with running_proxy(cluster.zookeeper.port) as proxy:
        storage_url = url_of(cluster, proxy.address)
        loaded, ticking = Patient(random.Random(1)), Ticking(random.Random(2))
        async with (
            running_service(tmp_path, storage_url) as service,
            outage(service, loaded, ticking, away_s) as working,
        ):
            await without_zookeeper(proxy, service, loaded, working, away_s)
            assert ticking.early_or_late(now_ms() - round(LATE_S * 1_000)) == []

            async def is_connected() -> bool:
                return await service.metric("delayed_tracker_zookeeper_connected") == 1

            await until(is_connected)
            if away_s > SESSION_S:
                assert await service.metric("delayed_tracker_zookeeper_sessions_total") > 1
        await recovered_elsewhere(tmp_path, storage_url, loaded)


async def without_zookeeper(
    proxy: Proxy, service: Service, loaded: Patient, working: asyncio.Task, away_s: float
) -> None:
    proxy.turn_away()
    try:
        offered = loaded.next_ledger_id
        await passed(working, away_s)

        async def goes_on() -> bool:
            is_degraded = await service.is_degraded(f"ZooKeeper at {proxy.address} is not connected")
            return is_degraded and loaded.next_ledger_id > offered + 10

        await until(goes_on)
        assert not working.done()
        assert not loaded.unknown_count
    finally:
        proxy.serve_again()


async def recovered_elsewhere(tmp_path: Path, storage_url: str, loaded: Patient) -> None:
    """Assert that a process with an empty disk has all that the load knows of."""
    directory = tmp_path / "another"
    directory.mkdir()
    await finish(loaded, directory, storage_url, SEALING)
    assert loaded.early == []
