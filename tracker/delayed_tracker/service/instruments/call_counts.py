"""Counts calls over gRPC, under the metric names of the gRPC ecosystem.

Source: go-grpc-prometheus, whose spelling of types and codes dashboards expect.
"""

import enum
from typing import Final

import grpc

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.histogram import Histogram

CALL_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def _go_name(code: grpc.StatusCode) -> str:
    """Return Go's name of a code: ``DEADLINE_EXCEEDED`` -> ``DeadlineExceeded``. Two are irregular in Go."""
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "OK" if code is grpc.StatusCode.OK else code.name.title().replace("_", "")


_CODE_NAMES: Final = {code: _go_name(code) for code in grpc.StatusCode}
CALL_CODES: Final = tuple(_CODE_NAMES.values())
"""Values of the label ``grpc_code``."""


class CallType(enum.Enum):
    """Sides of a method that stream: values of the label ``grpc_type``."""

    UNARY = "unary"
    SERVER_STREAM = "server_stream"
    BIDI_STREAM = "bidi_stream"


class MethodCalls:
    """Counts of the calls of one method.

    Args:
        service: full name of the service.
        method: name without the service.
        kind: which sides stream.
    """

    __slots__ = ("durations", "handled", "kind", "method", "service", "started")

    def __init__(self, service: str, method: str, kind: CallType) -> None:
        self.service = service
        self.method = method
        self.kind = kind
        self.started = 0
        self.handled = dict.fromkeys(CALL_CODES, 0)
        """Ended calls by code name. All codes are present from the start, so that the first failure shows as a rise."""
        self.durations = Histogram(CALL_BOUNDS_S)


class CallCounts:
    """Counts of all methods that are served."""

    def __init__(self, clock: Clock) -> None:
        self.methods: list[MethodCalls] = []
        self._clock = clock

    def serve(self, service: str, method: str, kind: CallType) -> MethodCalls:
        """Add a method and return its counts."""
        calls = MethodCalls(service, method, kind)
        self.methods.append(calls)
        return calls

    def begin(self, calls: MethodCalls) -> float:
        """Record that a call begins, and return the time for :meth:`end`."""
        calls.started += 1
        return self._clock.elapsed_ms()

    def end(self, calls: MethodCalls, begun_ms: float, code: grpc.StatusCode) -> None:
        """Record that a call has ended."""
        calls.handled[_CODE_NAMES[code]] += 1
        calls.durations.observe((self._clock.elapsed_ms() - begun_ms) / 1_000)
