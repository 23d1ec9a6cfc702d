"""Spans of calls and storage operations."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from structlog.testing import capture_logs

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.service.telemetry.call_identity import with_call
from delayed_tracker.service.telemetry.tracing import Tracing
from delayed_tracker.storage.errors import SnapshotCorrupt
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, refused
from tests.service.harness.settings import settings_of
from tests.service.harness.shell import KEY, failing, running_service, settle

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACED = (("traceparent", f"00-{TRACE}-{PARENT}-01"),)
SERVICE = "delayed_tracker.v1.DelayedDeliveryTrackerService"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter):
    tracing = Tracing(exporter)
    yield tracing
    tracing.close()


def spans_of(tracing, exporter, name):
    tracing.flush()
    return [span for span in exporter.get_finished_spans() if span.name == name]


async def test_a_call_is_a_span_below_the_callers(tracing, exporter):
    """The storage operations of a call are children of its span, with bucket and tracker."""
    async with running_service(spans=tracing) as service:
        epoch = await opened(service)
        row = (service.clock.now_ms() + 1_000_000, 1, 0)
        await service.stub.AddMessages(add(epoch, row))
        seal = service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch), metadata=TRACED)
        await seal
        await settle()
    (call,) = spans_of(tracing, exporter, f"{SERVICE}/SealBucket")
    assert (call.kind, call.status.status_code) == (SpanKind.SERVER, StatusCode.UNSET)
    assert dict(call.attributes) == {
        "rpc.system": "grpc",
        "rpc.service": SERVICE,
        "rpc.method": "SealBucket",
        "rpc.grpc.status_code": 0,
    }
    assert (call.context.trace_id, call.parent.span_id) == (int(TRACE, 16), int(PARENT, 16))
    (stored,) = spans_of(tracing, exporter, "storage create_bucket_snapshot")
    assert (stored.kind, stored.status.status_code) == (SpanKind.CLIENT, StatusCode.UNSET)
    assert (stored.context.trace_id, stored.parent.span_id) == (int(TRACE, 16), call.context.span_id)
    assert dict(stored.attributes) == {
        "delayed_tracker.backend": "memory",
        "delayed_tracker.topic": KEY.topic,
        "delayed_tracker.subscription": KEY.subscription,
    }


async def test_log_lines_of_a_traced_call_name_its_trace(tracing):
    """Log lines have the trace id of their call."""
    with capture_logs(processors=[with_call]) as logs:
        async with running_service(spans=tracing) as service:
            request = pb.OpenTrackerRequest(tracker=REF, owner="tests")
            await service.stub.OpenTracker(request, metadata=TRACED)
    assert {line["trace_id"] for line in logs if line["event"] == "tracker opened"} == {TRACE}


async def test_calls_without_a_trace_begin_their_own(tracing, exporter):
    """Spans of different calls belong to different traces."""
    async with running_service(spans=tracing) as service:
        await opened(service)
        await opened(service)
    first, second = spans_of(tracing, exporter, f"{SERVICE}/OpenTracker")
    assert first.parent is None
    assert second.parent is None
    assert first.context.trace_id != second.context.trace_id


async def test_failures_are_errors_of_their_spans(tracing, exporter):
    """The span of a failed storage operation has the reason, and that of the call has the code."""
    async with running_service(spans=tracing) as service:
        service.storage.before["list"] = failing(SnapshotCorrupt("bad checksum"))
        error, _, _ = await refused(service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests")))
        assert error.code() is grpc.StatusCode.DATA_LOSS
        await refused(service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF)))
    # The second one tells the operator whether there is such a tracker.
    listed, _ = spans_of(tracing, exporter, "storage list")
    assert (listed.status.status_code, listed.status.description) == (StatusCode.ERROR, "bad checksum")
    assert listed.attributes["error.type"] == "SNAPSHOT_CORRUPT"
    (call,) = spans_of(tracing, exporter, f"{SERVICE}/OpenTracker")
    assert (call.status.status_code, call.attributes["rpc.grpc.status_code"]) == (StatusCode.ERROR, 15)
    (refusal,) = spans_of(tracing, exporter, f"{SERVICE}/GetTrackerStats")
    assert (refusal.status.status_code, refusal.attributes["rpc.grpc.status_code"]) == (StatusCode.UNSET, 5)


async def test_what_time_causes_belongs_to_no_call(tracing, exporter):
    """A load ahead of a deadline has a trace of its own."""
    async with running_service(spans=tracing) as service:
        epoch = await opened(service)
        await service.stub.AddMessages(add(epoch, (service.clock.now_ms() + 60_000, 1, 0)), metadata=TRACED)
        await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch), metadata=TRACED)
        await settle()
        service.clock.advance(59_000)
        await settle()
    (loaded,) = spans_of(tracing, exporter, "storage get_bucket_snapshot_segments")
    assert loaded.parent is None
    assert loaded.attributes["delayed_tracker.bucket_id"] == 1


def test_the_environment_names_the_service(monkeypatch, exporter):
    """The service's own name is only the default."""
    for given, expected in (("", "delayed-tracker"), ("tracker-eu", "tracker-eu")):
        monkeypatch.setenv("OTEL_SERVICE_NAME", given)
        exporter.clear()
        tracing = Tracing(exporter)
        tracing.call("service", "Method", ()).end(grpc.StatusCode.OK)
        tracing.flush()
        (span,) = exporter.get_finished_spans()
        assert span.resource.attributes["service.name"] == expected
        tracing.close()
        exporter = InMemorySpanExporter()


@pytest.mark.slow
@pytest.mark.parametrize("grace_ms", [0, 60_000])
async def test_a_collector_that_is_not_there_does_not_hold_up_the_end(grace_ms):
    """Spans that cannot be sent within two seconds, or within the grace period, are dropped."""
    settings = settings_of(
        storage_url="memory:",
        grpc_listen_address="127.0.0.1:0",
        http_listen_address="127.0.0.1:0",
        shutdown_grace_ms=grace_ms,
        tracing_endpoint="http://127.0.0.1:1",
    )
    server = TrackerServer(settings)
    bound = await server.start()
    async with grpc.aio.insecure_channel(str(bound.grpc)) as channel:
        call = channel.unary_unary(f"/{SERVICE}/GetTrackerStats")
        with pytest.raises(grpc.aio.AioRpcError):
            await call(b"")
    async with asyncio.timeout(30):
        await server.stop()


def test_a_collector_receives_the_spans():
    """A flush sends spans over OTLP, with the service's name."""
    received = []

    class Collector(TraceServiceServicer):
        def Export(self, request, context):
            received.append(request)
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    tracing = Tracing.to(f"http://127.0.0.1:{port}")
    tracing.call(SERVICE, "OpenTracker", TRACED).end(grpc.StatusCode.OK)
    tracing.close()
    server.stop(None).wait()
    ((resource,),) = (request.resource_spans for request in received)
    assert "delayed-tracker" in {attribute.value.string_value for attribute in resource.resource.attributes}
    (span,) = resource.scope_spans[0].spans
    assert (span.name, span.trace_id.hex()) == (f"{SERVICE}/OpenTracker", TRACE)


@pytest.mark.parametrize(
    "endpoint",
    [
        "collector:4317",
        "http://",
        "http://collector",
        "http://collector:0",
        "http://collector:x",
        "http://collector:99999",
        "http://collector:4317/v1/traces",
        "http://user:secret@collector:4317",
    ],
)
def test_an_endpoint_of_another_form_is_refused(endpoint):
    """The error has an example of an endpoint."""
    with pytest.raises(InvalidInput, match=rf"tracingEndpoint.*{endpoint}.*http://HOST:PORT"):
        settings_of(tracing_endpoint=endpoint)


def test_endpoints_with_host_and_port_are_accepted():
    """Names, IPv4 and IPv6 addresses are hosts."""
    for endpoint in ("http://127.0.0.1:4317", "https://collector.example:443", "http://[::1]:4317"):
        assert settings_of(tracing_endpoint=endpoint).telemetry.tracing_endpoint == endpoint


@pytest.mark.slow
def test_without_the_extra_nothing_is_imported_and_the_setting_names_it():
    """OpenTelemetry is imported only if tracing is configured."""
    script = """
import sys
sys.modules["opentelemetry"] = None
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.server import TrackerServer
from delayed_tracker.service.settings.settings import Settings
memory = {"bucketSnapshotStorageUrl": "memory:"}
TrackerServer(Settings().with_values(memory))
try:
    TrackerServer(Settings().with_values(memory | {"tracingEndpoint": "http://127.0.0.1:4317"}))
except InvalidInput as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "tracingEndpoint" in done.stdout
    assert "pip install 'delayed-tracker[tracing]'" in done.stdout
