"""Calls to a storage or an add log: how many had which outcome, how long they took, spans, lines about slow ones."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.instruments.histogram import Histogram
from delayed_tracker.service.telemetry.spans import Spans
from delayed_tracker.service.telemetry.storage_log import SlowStorage
from delayed_tracker.storage.errors import (
    LogBroken,
    SnapshotConflict,
    SnapshotCorrupt,
    SnapshotNotFound,
    StorageUnavailable,
)

Answer = TypeVar("Answer")

_OUTCOMES: Final = (
    (StorageUnavailable, "unavailable"),
    (SnapshotNotFound, "not_found"),
    (SnapshotCorrupt, "corrupt"),
    (SnapshotConflict, "conflict"),
    (LogBroken, "broken"),
    (asyncio.CancelledError, "cancelled"),
)
_OTHER: Final = "failed"
STORAGE_OUTCOMES: Final = ("ok", *(outcome for _, outcome in _OUTCOMES), _OTHER)
STORAGE_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class OperationCalls:
    """The calls of one operation."""

    __slots__ = ("durations", "outcomes")

    def __init__(self) -> None:
        self.outcomes = dict.fromkeys(STORAGE_OUTCOMES, 0)
        self.durations = Histogram(STORAGE_BOUNDS_S)


class MeasuredCalls:
    """Measurements of the calls to one backend.

    Args:
        operations: names of the operations that are measured.
        backend: name of the storage, as in its URL.
        clock: measures the durations.
        slow_ms: calls that take longer are logged; 0 logs none.
        spans: traces the calls, if given.
    """

    def __init__(
        self, operations: Iterable[str], backend: str, clock: Clock, *, slow_ms: int = 0, spans: Spans | None = None
    ) -> None:
        self.backend = backend
        self.operations = {name: OperationCalls() for name in operations}
        self._clock = clock
        self._slow = SlowStorage(clock, slow_ms=slow_ms)
        self._spans = spans

    async def measured(self, name: str, call: Callable[[], Awaitable[Answer]], **where: str | int) -> Answer:
        """Return the result of a call, or raise its error, and record it.

        Args:
            name: of the operation.
            call: begins the operation.
            where: subject of the call, such as ``bucket_id``, ``topic`` and ``subscription``.
        """
        calls = self.operations[name]
        begun_ms, outcome = self._clock.elapsed_ms(), "ok"
        try:
            if self._spans is None:
                return await call()
            with self._spans.storage(name, {"backend": self.backend, **where}):
                return await call()
        except BaseException as error:
            outcome = next((name for kind, name in _OUTCOMES if isinstance(error, kind)), _OTHER)
            raise
        finally:
            calls.outcomes[outcome] += 1
            took_ms = self._clock.elapsed_ms() - begun_ms
            calls.durations.observe(took_ms / 1_000)
            self._slow.ended(name, where, took_ms=took_ms, outcome=outcome)
