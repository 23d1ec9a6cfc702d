"""Calls over gRPC, counted by the names that its ecosystem's servers use.

Source: go-grpc-prometheus, whose spelling of types and codes dashboards expect.
"""

from typing import Final

import grpc

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.histogram import Histogram

CALL_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def _go_name(code: grpc.StatusCode) -> str:
    """``DEADLINE_EXCEEDED`` -> ``DeadlineExceeded``; two are irregular in Go."""
    if code is grpc.StatusCode.CANCELLED:
        return "Canceled"
    return "OK" if code is grpc.StatusCode.OK else code.name.title().replace("_", "")


_CODE_NAMES: Final = {code: _go_name(code) for code in grpc.StatusCode}
CALL_CODES: Final = tuple(_CODE_NAMES.values())
"""Values of the label ``grpc_code``."""


class MethodCalls:
    """The calls of one method.

    Args:
        service: full name.
        method: without the service.
        is_stream: whether both sides stream; else neither does.
    """

    __slots__ = ("durations", "handled", "is_stream", "method", "service", "started")

    def __init__(self, service: str, method: str, *, is_stream: bool) -> None:
        self.service = service
        self.method = method
        self.is_stream = is_stream
        self.started = 0
        self.handled = dict.fromkeys(CALL_CODES, 0)
        """By the name of the code; all from the beginning, so that the first failure shows as a rise."""
        self.durations = Histogram(CALL_BOUNDS_S)


class CallCounts:
    """All methods that are served."""

    def __init__(self, clock: Clock) -> None:
        self.methods: list[MethodCalls] = []
        self._clock = clock

    def serve(self, service: str, method: str, *, is_stream: bool) -> MethodCalls:
        """Begin to count a method."""
        calls = MethodCalls(service, method, is_stream=is_stream)
        self.methods.append(calls)
        return calls

    def begin(self, calls: MethodCalls) -> float:
        """Note that a call begins; returns when."""
        calls.started += 1
        return self._clock.elapsed_ms()

    def end(self, calls: MethodCalls, begun_ms: float, code: grpc.StatusCode) -> None:
        """Note that it has ended."""
        calls.handled[_CODE_NAMES[code]] += 1
        calls.durations.observe((self._clock.elapsed_ms() - begun_ms) / 1_000)
