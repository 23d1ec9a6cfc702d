"""Each alert fires in its own fault, in no other, and clears when the fault is gone."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest

from delayed_tracker.client import ClientSettings, DelayedTrackerClient, TrackerSession
from delayed_tracker.service.clock import SystemClock
from delayed_tracker.service.instruments.instruments import LATENESS_BOUNDS_S
from delayed_tracker.storage.errors import LogBroken
from delayed_tracker.storage.testing.faulty import FaultPlan
from tests.integration.harness.dispatcher import now_ms
from tests.prometheus.binaries import find_program
from tests.prometheus.live import PATIENT, Service, eventually, prometheus, scaled_rules, textfile_exporter
from tests.prometheus.queries import RULES
from tests.service.harness.shell import ControlledStorage, Gate
from tests.service.metrics.served_storage import ServedStorage

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(900)]

TOPIC, HOUR_MS = "persistent://lab/main/delayed", 3_600_000
LATE_S = 1.0
"""Lateness from which the scaled rule of late hand-offs may hold: its 2 s lie in the bucket that begins here."""
SOON_MS_MAX = 1_600
"""Longest wait of a message that is due soon; what is polled four seconds after it came is late nevertheless."""
FULL = 1_000_000_000_000
BUCKETS = {
    "unstored": {"min_index_count_per_bucket": 1},
    "slow merges": {"min_index_count_per_bucket": 1, "buckets_max": 1},
}

Fault = Callable[[Service, TrackerSession, asyncio.Event], Awaitable[None]]
"""Continues until the event is set, and then repairs what it did."""


async def pause(over: asyncio.Event, seconds: float) -> bool:
    """Wait so long, or until the fault is over; return True if it continues."""
    try:
        async with asyncio.timeout(seconds):
            await over.wait()
    except TimeoutError:
        return True
    return False


async def well(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Add and deliver messages in time, and note whether the machine lets it."""
    entry, before_s = 0, monotonic()
    while await pause(over, 0.1):
        await session.add_columns([now_ms() + 200], [1], [entry])
        entry += 1
        begun_s = monotonic()
        async with await session.poll(100):
            pass
        # What falls due between two polls is late by less than the time between them.
        service.late_s_max = max(service.late_s_max, monotonic() - before_s)
        before_s = begun_s
    await deliver_all(session)


async def add_soon(session: TrackerSession, wait_ms: int, entries: Sequence[int]) -> int:
    """Add messages that are due after a wait, and return it: on a busy machine it is doubled until they come before it."""
    while True:
        added = await session.add_columns([now_ms() + wait_ms] * len(entries), [1] * len(entries), entries)
        if added.added_count:
            return wait_ms
        wait_ms = min(2 * wait_ms, SOON_MS_MAX)


async def deliver_all(session: TrackerSession) -> None:
    """Hand off what is left, because it would be due and not polled."""
    while (await session.stats()).pending_count:
        async with await session.poll(100, wait_ms=1_000):
            pass


async def stopped(service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Stop the service, and start it again on the same port."""
    await service.stop()
    await over.wait()
    await service.start()


async def early(service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Increment the counter itself, because no fault from outside can deliver early."""
    service.server.trackers.instruments.early_count += 1
    await over.wait()


class MovableClock(SystemClock):
    """The machine's clock, which a fault sets forward and back."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


CLOCK = MovableClock()


async def clock_set(_service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Set the service's clock back and forth."""
    while await pause(over, 2.5):
        CLOCK.ahead_ms = HOUR_MS - CLOCK.ahead_ms


async def late(_service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Poll only every four seconds."""
    entry, wait_ms = 0, 200
    while not over.is_set():
        wait_ms = await add_soon(session, wait_ms, range(entry, entry + 10))
        entry += 10
        await pause(over, 4)
        async with await session.poll(1_000):
            pass
    await well_for_a_while(session, entry)


async def well_for_a_while(session: TrackerSession, entry: int) -> None:
    """Hand off in time until late ones have left the rates."""
    for later in range(entry, entry + 20):
        await session.add_columns([now_ms() + 200], [1], [later])
        async with await session.poll(10, wait_ms=1_000):
            pass
    await deliver_all(session)


async def unpolled(_service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Add without polling."""
    await add_soon(session, 200, range(10))
    await over.wait()
    await session.clear()


async def unstored(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Make every store fail."""
    service.storage.plan = FaultPlan(error_before=1.0)
    ledger = 0
    while await pause(over, 0.3):
        await session.add_columns([now_ms() + HOUR_MS], [ledger], [0])
        ledger += 1
    service.storage.plan = FaultPlan()
    await session.clear()


async def slow_merges(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Store and catalogue two buckets; the merge that is then due cannot read them."""
    controlled = ControlledStorage(service.storage.inner)
    controlled.before["get_bucket_snapshot_segments"] = Gate()
    service.storage.inner = controlled
    for ledger in range(3):
        await session.add_columns([now_ms() + HOUR_MS], [ledger], [0])
    await over.wait()
    controlled.before.clear()
    controlled.open_gates()
    await session.clear()


async def damaged(service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Count a damaged snapshot itself, because reads that fail are another alert's."""
    (host,) = service.server.trackers.hosts()
    host.counters.snapshots_corrupt += 1
    await over.wait()


async def unacknowledged(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Acknowledge every message only the second time, and note whether the machine lets both be in time."""
    entry, wait_ms = 0, 50
    while await pause(over, 0.1):
        begun_s = monotonic()
        wait_ms = await add_soon(session, wait_ms, [entry])
        entry += 1
        await session.poll(1, wait_ms=wait_ms + 1_000, lease_ms=100)
        async with await session.poll(1, wait_ms=wait_ms + 1_000):
            pass
        service.late_s_max = max(service.late_s_max, monotonic() - begun_s - wait_ms / 1_000)
    await deliver_all(session)


async def slow_recovery(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Delay the answer of the catalogue during a recovery."""
    release = asyncio.Event()

    async def until_released(_seconds: float) -> None:
        await release.wait()

    service.storage._sleep = until_released
    service.storage.plan = FaultPlan(latency_ms=1)
    patient = ClientSettings(open_timeout_s=900)  # the alerts of the other faults may take long on a busy machine
    async with DelayedTrackerClient.connect(str(service.bound.grpc), settings=patient) as client:
        opening = asyncio.ensure_future(client.open_tracker(TOPIC, "other"))
        await over.wait()
        release.set()
        service.storage.plan = FaultPlan()
        await opening


async def no_space(service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Report little free space on the disk of the storage."""
    service.storage.plan = FaultPlan(free_bytes=1)
    await over.wait()
    service.storage.plan = FaultPlan(free_bytes=FULL)


async def log_fails(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Make every commit to the add log fail while an add waits for one."""
    service.add_log.plan = FaultPlan(error_before=1.0)
    adding = asyncio.ensure_future(session.add_columns([now_ms() + HOUR_MS], [1], [0]))
    await over.wait()
    service.add_log.plan = FaultPlan()
    await asyncio.gather(adding, return_exceptions=True)
    await session.clear()


async def log_breaks(service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Set the error of a failed fsync itself, because the file system makes none; then restart."""
    log = service.server.trackers.log
    assert log is not None
    log.failure = LogBroken("as after a failed fsync")
    await over.wait()
    await service.stop()
    await service.start()


async def log_fills(service: Service, session: TrackerSession, over: asyncio.Event) -> None:
    """Lower the limit to just above what the log has, while no snapshot is stored."""
    release = asyncio.Event()

    async def until_released(_seconds: float) -> None:
        await release.wait()

    service.storage._sleep = until_released
    service.storage.plan = FaultPlan(latency_ms=1)
    await session.add_columns([now_ms() + HOUR_MS] * 100, [1] * 100, range(100))
    log = service.server.trackers.log
    assert log is not None
    before = replace(log.limits)
    log.limits.adopt(replace(before, add_log_bytes_max=log.log_bytes * 11 // 10))
    await over.wait()
    log.limits.adopt(before)
    release.set()
    service.storage.plan = FaultPlan()
    await session.clear()


async def bookie_fails(service: Service, _session: TrackerSession, over: asyncio.Event) -> None:
    """Count requests to bookies, of which one does not answer."""
    served = ServedStorage()
    service.storage.cluster_report = served.cluster_report
    while await pause(over, 0.1):
        served.bookie.failed("ADD_ENTRY", "BOOKIE_TIMED_OUT", 1)


EXPECTED: dict[str, tuple[Fault, set[str]]] = {
    "well": (well, set()),
    "stopped": (stopped, {"DelayedTrackerDown"}),
    "early": (early, {"DelayedTrackerEarlyHandoff"}),
    "late": (late, {"DelayedTrackerHandoffsLate"}),
    "unpolled": (unpolled, {"DelayedTrackerDueNotPolled"}),
    "unstored": (unstored, {"DelayedTrackerStorageFailing", "DelayedTrackerFallbackToMemory"}),
    "slow merges": (slow_merges, {"DelayedTrackerMergeBacklog"}),
    "damaged": (damaged, {"DelayedTrackerDataLost"}),
    "unacknowledged": (unacknowledged, {"DelayedTrackerLeasesExpire"}),
    "clock": (clock_set, {"DelayedTrackerClockSet"}),
    "slow recovery": (slow_recovery, {"DelayedTrackerRecoveryLong"}),
    "bookie fails": (bookie_fails, {"DelayedTrackerBookieFailing"}),
    "log fails": (log_fails, {"DelayedTrackerLogFailing"}),
    "log breaks": (log_breaks, {"DelayedTrackerLogBroken"}),
    "log fills": (log_fills, {"DelayedTrackerLogFilling"}),
    "no space": (no_space, {"DelayedTrackerStorageFilling"}),
}


async def test_each_alert_fires_in_its_own_fault_and_clears_after(tmp_path: Path):
    """All services run at once, each but one with a fault; then all faults are repaired."""
    program = find_program("prometheus")
    # In debug mode so many services take a whole core, and on a busy machine Prometheus finds none of them in time.
    asyncio.get_running_loop().set_debug(False)
    services = {
        name: Service(
            tmp_path,
            name.replace(" ", "-"),
            clock=CLOCK if name == "clock" else None,
            strict=True,
            **BUCKETS.get(name, {}),
        )
        for name in EXPECTED
    }
    over = asyncio.Event()
    wanted = {(alert, name) for name, (_, alerts) in EXPECTED.items() for alert in alerts}
    async with AsyncExitStack() as stack:
        sessions = {}
        for name, service in services.items():
            await service.start()
            stack.push_async_callback(service.stop)
            client = await stack.enter_async_context(
                DelayedTrackerClient.connect(str(service.bound.grpc), settings=PATIENT)
            )
            sessions[name] = await client.open_tracker(TOPIC, "subscription")
        addresses = {name: str(service.bound.http) for name, service in services.items()}
        node = await stack.enter_async_context(textfile_exporter(""))
        (tmp_path / "prometheus").mkdir()
        watching = await stack.enter_async_context(prometheus(program, tmp_path / "prometheus", addresses, node))

        async def all_up() -> bool:
            return await watching.value('count (up{job="delayed-tracker"} == 1)') == len(services)

        await eventually(all_up, "all services are scraped")
        seen: set[tuple[str, str]] = set()

        async def all_fire() -> bool:
            seen.update(await watching.firing())
            return wanted <= seen

        async with asyncio.TaskGroup() as faults:
            for name, (fault, _) in EXPECTED.items():
                faults.create_task(fault(services[name], sessions[name], over))
            await eventually(all_fire, "each alert fires", unless=lambda: wanted - seen)
            over.set()
        busy = {("DelayedTrackerHandoffsLate", name) for name, each in services.items() if each.late_s_max > LATE_S}
        assert seen - busy == wanted

        firing: set[tuple[str, str]] = set()

        async def none_fires() -> bool:
            firing.clear()
            firing.update(await watching.firing())
            return not firing

        await eventually(none_fires, "all alerts clear", unless=lambda: firing)


def test_scaled_rules_have_a_sixtieth_of_the_times():
    """Every time in the rules is scaled."""
    texts = {path.name: path.read_text() for path in RULES}
    scaled = {name: scaled_rules(text) for name, text in texts.items()}
    assert "[10000ms]" in scaled["recording_rules.yml"]
    alerts = scaled["alerting_rules.yml"]
    assert "p99_rate5m > 2\n" in alerts
    assert max(bound for bound in LATENESS_BOUNDS_S if bound <= 2) == LATE_S
    for gone in ("5m\n", "10m\n", "30m\n", "[10m]", "> 60", "> 30", "86400"):
        assert gone in texts["alerting_rules.yml"] or gone == "5m\n"
        assert gone not in alerts
