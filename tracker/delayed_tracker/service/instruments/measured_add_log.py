"""A wrapper around any add log that measures the duration and the outcome of each call."""

from collections.abc import Sequence
from typing import Final

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.measured_calls import MeasuredCalls
from delayed_tracker.service.telemetry.spans import Spans
from delayed_tracker.storage.add_log import AddLog, LogAppend, LogExtent, LogPage

LOG_OPERATIONS: Final = ("log_append", "log_take_over", "log_read", "log_cut", "log_extents", "log_size_bytes")
"""Operations of the protocol, except start and close. The prefix tells them from those of the snapshot storage."""


class MeasuredAddLog(MeasuredCalls):
    """Implementation of :class:`delayed_tracker.storage.add_log.AddLog` that passes each call to another add log.

    Args:
        inner: add log that is not started.
        backend: name of the storage, as in its URL.
        clock: measures the durations.
        slow_ms: calls that take longer are logged; 0 logs none.
        spans: traces the calls, if given.
    """

    def __init__(
        self, inner: AddLog, backend: str, clock: Clock, *, slow_ms: int = 0, spans: Spans | None = None
    ) -> None:
        super().__init__(LOG_OPERATIONS, backend, clock, slow_ms=slow_ms, spans=spans)
        self.inner = inner

    async def start(self) -> None:
        """See the protocol."""
        await self.inner.start()

    async def close(self) -> None:
        """See the protocol."""
        await self.inner.close()

    async def log_id(self) -> str:
        """See the protocol; called once after the start, and not measured."""
        return await self.inner.log_id()

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """See the protocol."""
        return await self.measured(
            "log_append", lambda: self.inner.append(parts, writer=writer), tracker_count=len(parts)
        )

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """See the protocol."""
        return await self.measured(
            "log_take_over",
            lambda: self.inner.take_over(topic, cursor, epoch=epoch, writer=writer),
            topic=topic,
            subscription=cursor,
        )

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """See the protocol."""
        return await self.measured(
            "log_read",
            lambda: self.inner.read(topic, cursor, after=after, bytes_max=bytes_max),
            topic=topic,
            subscription=cursor,
        )

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """See the protocol."""
        await self.measured("log_cut", lambda: self.inner.cut(cuts), tracker_count=len(cuts))

    async def extents(self) -> list[LogExtent]:
        """See the protocol."""
        return await self.measured("log_extents", self.inner.extents)

    async def size_bytes(self) -> int:
        """See the protocol."""
        return await self.measured("log_size_bytes", self.inner.size_bytes)
