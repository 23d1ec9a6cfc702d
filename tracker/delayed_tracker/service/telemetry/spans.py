"""What the service tells of calls and storage operations to whoever traces them. Nobody does, unless it is configured.

``delayed_tracker.service.telemetry.tracing`` implements it with OpenTelemetry, which need not be installed.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Protocol

import grpc


class CallSpan(Protocol):
    """One call under way."""

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        ...

    def end(self, code: grpc.StatusCode) -> None:
        """It was answered with this code."""
        ...


class Spans(Protocol):
    """Where spans are begun."""

    def call(self, service: str, method: str, metadata: Iterable[tuple[str, str | bytes]]) -> CallSpan:
        """Begin the span of a call in this task, within the caller's trace if the metadata names one."""
        ...

    def storage(self, operation: str, where: dict[str, str | int]) -> AbstractContextManager[None]:
        """A span for one call to the storage; an error of the block is the span's, too, and goes on.

        Args:
            operation: as the storage's protocol names it.
            where: what it is about, such as ``bucket_id``, ``topic`` and ``subscription``.
        """
        ...
