"""The interface through which the service traces calls and storage operations, if tracing is configured.

``delayed_tracker.service.telemetry.tracing`` implements it with OpenTelemetry, which need not be installed.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

import grpc


class CallSpan(Protocol):
    """Span of one call in flight."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        ...

    def end(self, code: grpc.StatusCode) -> None:
        """End the span with the status code of the answer."""
        ...


class Spans(Protocol):
    """Factory of spans."""

    def call(self, service: str, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> CallSpan:
        """Begin the span of a call in this task, as a part of the caller's trace if the metadata names one."""
        ...

    def storage(self, operation: str, where: dict[str, str | int]) -> AbstractContextManager[None]:
        """Return a context manager with the span of one call to the storage. The span records an error of the block.

        Args:
            operation: name of the operation in the storage's protocol.
            where: subject of the call, such as ``bucket_id``, ``topic`` and ``subscription``.
        """
        ...
