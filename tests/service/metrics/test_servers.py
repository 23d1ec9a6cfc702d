"""Requests to the servers behind a storage are shown by server, operation and outcome."""

import dataclasses

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.instruments import server_families
from delayed_tracker.service.instruments.family import Family
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.service.storage.degradation import degradation_of
from delayed_tracker.service.telemetry.storage_log import FailureLog
from delayed_tracker.storage.capabilities import cluster_report_of
from delayed_tracker.storage.memory import MemoryStorage
from tests.service.harness.shell import make_registry
from tests.service.metrics.scraping import scraped
from tests.service.metrics.served_storage import ServedStorage

NAMES = [family.name for family in vars(server_families).values() if isinstance(family, Family)]


async def shown(inner):
    """Return the samples of the families of servers."""
    clock = ManualClock()
    registry = make_registry(MemoryStorage(), clock)
    await registry.start()
    samples = await scraped(registry, storage=MeasuredStorage(inner, "shelf", clock))
    await registry.close()
    return {key: value for key, value in samples.items() if key[0].startswith(tuple(NAMES))}


async def test_what_a_bookie_is_asked_and_answers():
    """Requests by operation and outcome, durations of those with a reply, bytes, and what is on its way."""
    storage = ServedStorage()
    storage.bookie.answered("ADD_ENTRY", "FENCED", 100, 0, 0.004)
    storage.bookie.failed("ADD_ENTRY", "BOOKIE_TIMED_OUT", 1_000)
    storage.bookie.connections, storage.bookie.replacements = 4, 5
    samples = await shown(storage)
    bookie = "bookie=b1:3181"
    add = (bookie, "operation=add_entry")
    for outcome in ("ok", "fenced", "bookie_timed_out"):
        assert samples["delayed_tracker_bookie_requests_total", *add, f"outcome={outcome}"] == 1
    durations = "delayed_tracker_bookie_request_duration_seconds"
    assert samples[f"{durations}_count", *add] == 2
    assert samples[f"{durations}_sum", *add] == 0.007
    assert samples[f"{durations}_bucket", bookie, "le=0.002", add[1]] == 0
    assert samples[f"{durations}_bucket", bookie, "le=0.005", add[1]] == 2
    assert samples["delayed_tracker_bookie_sent_bytes_total", *add] == 1_110
    assert samples["delayed_tracker_bookie_received_bytes_total", bookie, "operation=read_entry"] == 20
    assert samples["delayed_tracker_bookie_requests_in_flight", bookie] == 3
    assert samples["delayed_tracker_bookie_in_flight_bytes", bookie] == 400
    assert samples["delayed_tracker_bookie_connections_total", bookie] == 4
    assert samples["delayed_tracker_bookie_ensemble_changes_total", bookie] == 5
    assert samples["delayed_tracker_zookeeper_connected",] == 1
    assert samples["delayed_tracker_zookeeper_sessions_total",] == 2


async def test_what_an_object_store_is_asked_and_answers():
    """Requests by operation and outcome, durations, and bytes of both directions."""
    storage = ServedStorage()
    storage.request_counts.add_outcome("write", "conflict", 10)
    storage.request_counts.in_flight = 6
    samples = await shown(storage)
    write = ("backend=shelf", "operation=write")
    assert samples["delayed_tracker_object_requests_total", *write, "outcome=conflict"] == 13
    assert samples["delayed_tracker_object_requests_total", *write, "outcome=ok"] == 3
    assert samples["delayed_tracker_object_request_duration_seconds_count", *write] == 1
    assert samples["delayed_tracker_object_bytes_total", "backend=shelf", "direction=sent"] == 700
    assert samples["delayed_tracker_object_bytes_total", "backend=shelf", "direction=received"] == 800
    assert samples["delayed_tracker_object_requests_in_flight", "backend=shelf"] == 6


async def test_a_storage_without_servers_has_no_samples():
    """Nor has one that is closed."""
    assert await shown(MemoryStorage()) == {}
    closed = ServedStorage()
    closed.is_open = False
    assert not [key for key in await shown(closed) if "object" not in key[0]]


async def test_a_zookeeper_that_is_away_degrades_the_service():
    """The reason names its addresses and the consequence; a storage of another kind has no such reason."""
    failures = FailureLog(ManualClock(), retry_ms=100)
    report = cluster_report_of(ServedStorage())
    assert degradation_of(None, failures, report) == ""
    away = dataclasses.replace(report, zookeeper_connected=False)
    assert degradation_of(None, failures, away) == "ZooKeeper at zk:2181 is not connected, no tracker can be opened"
    assert cluster_report_of(MemoryStorage()) is None
