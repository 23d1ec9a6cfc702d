"""Spans of calls and storage operations by OpenTelemetry, sent to a collector over OTLP. Needs the extra ``tracing``.

The parent of a call's span is the caller's span, if the call's metadata carries one (W3C ``traceparent``). Storage
operations that the call causes are children of its span, also those that end after the answer. Effects of timers begin
a trace of their own. Sampling, headers, batching and attributes of the service follow the standard variables
``OTEL_*``.

Source: OpenTelemetry's semantic conventions for RPC and gRPC.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata as distributions
from typing import Final

import grpc
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from delayed_tracker.core.values.errors import DelayedTrackerError

_OUR_FAULTS: Final = frozenset({
    grpc.StatusCode.UNKNOWN,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
})  # fmt: skip
"""Codes that make the span of a server an error. The other codes are faults of the caller, or the caller has left."""
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class _OpenSpan:
    """Implementation of :class:`delayed_tracker.service.telemetry.spans.CallSpan`."""

    __slots__ = ("_span", "_token")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token = contexts.attach(trace.set_span_in_context(span))

    @property
    def trace_id(self) -> str:
        return trace.format_trace_id(self._span.get_span_context().trace_id)

    def end(self, code: grpc.StatusCode) -> None:
        self._span.set_attribute("rpc.grpc.status_code", code.value[0])
        if code in _OUR_FAULTS:
            self._span.set_status(trace.StatusCode.ERROR, code.name)
        self._span.end()
        contexts.detach(self._token)


class Tracing:
    """Implementation of :class:`delayed_tracker.service.telemetry.spans.Spans`.

    Args:
        exporter: receives ended spans in batches, from a thread of its own.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        own = {"service.name": "delayed-tracker", "service.version": distributions.version("delayed-tracker")}
        # Attributes from the environment take precedence over these.
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self._exporter = exporter
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("delayed_tracker.service")

    @classmethod
    def to(cls, endpoint: str) -> "Tracing":
        """Return spans for a collector at ``http://HOST:PORT`` (``https:`` for TLS). Connects with the first spans."""
        return cls(OTLPSpanExporter(endpoint=endpoint, insecure=endpoint.startswith("http:")))

    def call(self, service: str, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> _OpenSpan:
        """See the protocol."""
        carrier = {key: value for key, value in metadata if isinstance(value, str)}
        return _OpenSpan(
            self._tracer.start_span(
                f"{service}/{method}",
                context=_PROPAGATOR.extract(carrier, context=contexts.Context()),
                kind=trace.SpanKind.SERVER,
                attributes={"rpc.system": "grpc", "rpc.service": service, "rpc.method": method},
            )
        )

    @contextmanager
    def storage(self, operation: str, where: dict[str, str | int]) -> Iterator[None]:
        """See the protocol."""
        span = self._tracer.start_span(
            f"storage {operation}",
            kind=trace.SpanKind.CLIENT,
            attributes={f"delayed_tracker.{name}": value for name, value in where.items()},
        )
        try:
            yield
        except BaseException as error:
            if isinstance(error, DelayedTrackerError):
                kind, description = error.reason, error.message
            else:
                kind, description = type(error).__qualname__, ""
            span.set_attribute("error.type", kind)
            span.set_status(trace.StatusCode.ERROR, description)
            raise
        finally:
            span.end()

    def flush(self) -> None:
        """Send the spans that have ended. Blocks."""
        self._provider.force_flush()

    def close(self) -> None:
        """Send the spans that have ended, and stop. Blocks until then, or until :meth:`give_up` is called."""
        self._provider.shutdown()

    def give_up(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()
