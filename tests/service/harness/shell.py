"""A registry, or a whole gRPC service, in the test's own event loop, with a manual clock and a controlled storage."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor, Future
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import grpc

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.grpc.methods import serve_tracker
from delayed_tracker.service.grpc.servicer import TrackerServicer
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.memory import MemoryStorage
from delayed_tracker.v1 import tracker_pb2_grpc

AnswerT = TypeVar("AnswerT")

KEY = TrackerKey("persistent://shop/orders/events", "billing")
OTHER = TrackerKey("persistent://shop/orders/events", "shipping")
TINY = TrackerLimits(
    tick_ms=1,
    strict=True,
    min_index_count_per_bucket=5,
    mutable_indexes_max=50,
    late_indexes_max=10,
    max_step_per_segment_ms=1_000,
    max_indexes_per_segment=3,
    prefetch_window_ms=2_000,
    load_indexes_max=6,
    loaded_indexes_max=40,
    retry_backoff_ms=500,
)
"""Limits so small that rare paths are common."""


class InlineExecutor(Executor):
    """Executor that runs each function at once, so that one seed gives one order of events."""

    def submit(self, fn, /, *args, **kwargs):
        future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001  # an executor hands every error to its future
            future.set_exception(error)
        return future


Hook = Callable[..., Awaitable[None]]
"""Called with the operation's own arguments."""


class ControlledStorage:
    """The real reference storage; a test may delay or fail any of its operations, before or after it."""

    def __init__(self, inner=None):
        self.inner = inner or MemoryStorage()
        self.before: dict[str, Hook] = {}
        self.after: dict[str, Hook] = {}
        self.calls: list[str] = []
        self._gates: list[Gate] = []

    def open_gates(self):
        """Let go of every operation that a test still holds, as one does that failed before it opened its gate."""
        for gate in self._gates:
            gate.open()

    async def _pass(self, hook, *args, **kwargs):
        if isinstance(hook, Gate):
            self._gates.append(hook)
        await hook(*args, **kwargs)

    def __getattr__(self, name):
        operation = getattr(self.inner, name)

        async def controlled(*args, **kwargs):
            self.calls.append(name)
            if name in self.before:
                await self._pass(self.before[name], *args, **kwargs)
            answer = await operation(*args, **kwargs)
            if name in self.after:
                await self._pass(self.after[name], *args, **kwargs)
            return answer

        return controlled


class Gate:
    """Hook that holds its callers until it is opened."""

    def __init__(self):
        self.held_count = 0
        self._open = asyncio.Event()

    async def __call__(self, *_args, **_kwargs):
        self.held_count += 1
        await self._open.wait()

    def open(self):
        self._open.set()


def failing(*errors):
    """Return a hook that raises these errors, one for each call (None: none), and later does nothing."""
    left = list(errors)

    async def hook(*_args, **_kwargs):
        error = left.pop(0) if left else None
        if error is not None:
            raise error

    return hook


async def settle():
    """Run the event loop until every task waits for the clock or for the test."""
    loop = asyncio.get_running_loop()
    for _ in range(100_000):
        await asyncio.sleep(0)
        if not loop._ready:
            return
    raise AssertionError("the event loop never comes to rest: something spins")


async def elapse(clock: ManualClock, delay_ms: float):
    """Advance the clock, and let all tasks settle at every timer on the way."""
    await settle()
    left = delay_ms
    for _ in range(100_000):
        wait = clock.next_timer_in_ms()
        if wait is None or wait > left:
            clock.advance(left)
            await settle()
            return
        clock.advance(wait)
        left -= wait
        await settle()
    raise AssertionError("timers are set again and again without time passing")


POLL_SECONDS = 0.001
"""Pause between two checks of other threads. A check without a pause keeps them from running."""


async def until(condition: Callable[[], bool], *, within_s: float = 20):
    """Run the event loop, and with it the network, until a condition holds."""
    async with asyncio.timeout(within_s):
        for _ in range(100):
            if condition():
                return
            await asyncio.sleep(0)
        while not condition():  # noqa: ASYNC110  # no event signals the condition
            await asyncio.sleep(POLL_SECONDS)


async def as_time_passes(clock: ManualClock, answer: Awaitable[AnswerT], *, step_ms: float = 100) -> AnswerT:
    """Advance the clock until an awaitable that also needs the network or a thread has its result."""
    waiting = asyncio.ensure_future(answer)
    while not waiting.done():
        await elapse(clock, step_ms)
        await asyncio.wait([waiting], timeout=POLL_SECONDS)
    return waiting.result()


def make_registry(storage, clock, *, limits=TINY, service_limits=None, seed=0, workers=None, add_log=None, **log):
    return TrackerRegistry(
        storage,
        limits,
        service_limits=service_limits or ServiceLimits(),
        clock=clock,
        rng=random.Random(seed),
        workers=workers or InlineExecutor(),
        add_log=add_log,
        **log,
    )


def indexes(now_ms, *rows):
    """Return columns of (ledger, entry, due in ms)."""
    return IndexColumns.of([(now_ms + delay_ms, ledger, entry) for ledger, entry, delay_ms in rows])


def bucketful(now_ms, ledger, *, delay_ms=1_000_000, count=5, step_ms=10):
    """Return enough indexes of one ledger for a bucket, with distant deadlines."""
    return indexes(now_ms, *((ledger, entry, delay_ms + entry * step_ms) for entry in range(count)))


def rows(delivery):
    """Return (ledger, entry) of the delivered positions."""
    return list(zip(delivery.indexes.ledger_id.tolist(), delivery.indexes.entry_id.tolist(), strict=True))


@dataclass
class RunningService:
    address: str
    stub: tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub
    registry: TrackerRegistry
    storage: ControlledStorage
    clock: ManualClock


@asynccontextmanager
async def running_service(
    *, limits=TINY, service_limits=None, spans=None, add_log=None
) -> AsyncIterator[RunningService]:
    """Start a real grpc.aio server on a loopback port, with a channel to it."""
    storage, clock = ControlledStorage(), ManualClock()
    measured = MeasuredStorage(storage, "memory", clock, spans=spans)
    registry = make_registry(measured, clock, limits=limits, service_limits=service_limits, add_log=add_log)
    registry.calls.spans = spans
    await registry.start()
    server = grpc.aio.server()
    serve_tracker(TrackerServicer(registry), server, registry.calls)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    address = f"127.0.0.1:{port}"
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = tracker_pb2_grpc.DelayedDeliveryTrackerServiceStub(channel)
            yield RunningService(address, stub, registry, storage, clock)
    finally:
        storage.open_gates()
        await registry.close()
        await server.stop(None)
