"""The HTTP server over a real socket: health with its reasons, and metrics that Prometheus can read."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.http.application import build_app
from delayed_tracker.service.http.http_server import HttpServer
from delayed_tracker.service.process.health import Health, Stage
from delayed_tracker.service.process.listen import listen
from delayed_tracker.service.settings.address import Address
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage


@pytest.fixture
async def trackers() -> AsyncIterator[TrackerRegistry]:
    registry = TrackerRegistry(open_storage("memory:"), TrackerLimits())
    await registry.start()
    yield registry
    await registry.close()


@pytest.fixture
def health() -> Health:
    return Health()


@pytest.fixture
async def client(trackers: TrackerRegistry, health: Health) -> AsyncIterator[httpx.AsyncClient]:
    listener, bound = await listen("httpListenAddress", Address("127.0.0.1", 0))
    server = HttpServer(
        build_app(health, ServiceMetrics(trackers, version="1.2.3"), failures=trackers.calls.failures), listener
    )
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://{bound}", trust_env=False) as connected:
        yield connected
    await server.stop()


async def test_live_from_the_first_moment(client: httpx.AsyncClient):
    """A supervisor does not restart a service that is still opening its storage."""
    answer = await client.get("/health/live")
    assert (answer.status_code, answer.json()) == (200, {"status": "live"})


async def test_ready_only_between_start_and_drain(client: httpx.AsyncClient, health: Health):
    """Before the start and during the drain the answer is 503 with the reason."""
    answer = await client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["reason"].startswith("starting")
    await health.enter(Stage.SERVING)
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})
    await health.enter(Stage.DRAINING)
    answer = await client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["reason"].startswith("draining")


async def test_degraded_is_ready_with_a_reason(client: httpx.AsyncClient, health: Health):
    """While the storage fails, a serving service is still to be asked; before the start and in the drain it is not."""
    reasons = ["the add log is not written"]
    health.degradation = lambda: reasons[0]
    assert (await client.get("/health/ready")).status_code == 503
    await health.enter(Stage.SERVING)
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "degraded", "reason": "the add log is not written"})
    reasons[0] = ""
    answer = await client.get("/health/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


async def test_metrics_are_text_format_0_0_4(client: httpx.AsyncClient, trackers: TrackerRegistry):
    """The exposition parses, names its format, and contains the process metrics and the open trackers."""
    await trackers.open(TrackerKey("persistent://t/n/topic", "a / b % c"), owner="test", mark_delete=None)
    answer = await client.get("/metrics")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["delayed_tracker_build_info", ("version", "1.2.3")] == 1
    assert samples["delayed_tracker_open_trackers",] == 1
    assert samples["delayed_tracker_waiting_polls",] == 0
    assert samples["process_resident_memory_bytes",] > 0
    assert samples["process_open_fds",] > 0
    names = {name for name, *_ in samples}
    assert {"python_info", "python_gc_collections_total", "process_cpu_seconds_total"} <= names


@pytest.mark.parametrize("path", ["/", "/metric", "/health"])
async def test_other_paths_do_not_exist(client: httpx.AsyncClient, path: str):
    """Only the documented paths answer."""
    assert (await client.get(path)).status_code == 404


async def test_only_reading_is_allowed(client: httpx.AsyncClient):
    """No path changes anything."""
    assert (await client.post("/health/ready")).status_code == 405


async def test_server_that_never_started_releases_its_socket(trackers: TrackerRegistry, health: Health):
    """A failed start leaves no listener behind."""
    listener, bound = await listen("httpListenAddress", Address("127.0.0.1", 0))
    await HttpServer(
        build_app(health, ServiceMetrics(trackers, version="1"), failures=trackers.calls.failures), listener
    ).stop()
    again, _ = await listen("httpListenAddress", bound)
    again.close()


async def test_idle_connections_do_not_delay_the_stop(trackers: TrackerRegistry, health: Health):
    """The stop closes an idle connection instead of waiting for the client."""
    listener, bound = await listen("httpListenAddress", Address("127.0.0.1", 0))
    server = HttpServer(
        build_app(health, ServiceMetrics(trackers, version="1"), failures=trackers.calls.failures), listener
    )
    await server.start()
    reader, writer = await asyncio.open_connection(bound.host, bound.port)
    async with asyncio.timeout(10):
        await server.stop()
        assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
