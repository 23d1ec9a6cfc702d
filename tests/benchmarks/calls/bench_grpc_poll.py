"""PollScheduledMessages over gRPC, by size of poll: hand-offs, and leases that are acknowledged."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import numpy as np

from delayed_tracker.client import TrackerSession
from delayed_tracker.core.values.columns import IndexColumns
from tests.benchmarks.inputs.serving import TOPIC, Served, at_a_time, served
from tests.benchmarks.inputs.shapes import BATCH, Shape, batches, offered
from tests.benchmarks.measure import Reading, Run, require
from tests.benchmarks.peers.redis_peer import redis_polls
from tests.benchmarks.rows import Row, Unit, per_second

ABOUT = (
    "Everything is due when the first poll comes, and part of it has been sealed and stored by then, as default settings "
    "have it. Redis, where it is measured: ZRANGEBYSCORE and ZREM of what it gave, one after the other, as a queue has "
    "to. Deadlines lie within a second (dense), or on one millisecond; a week does not pass while a benchmark runs. "
    "By the profile a poll is the call: an echo of one byte over gRPC's asyncio API takes 500 to 680 us of processor time, "
    "250 of them the client's, and a poll of one index takes 100 more, however few are due; each index adds some 130 ns, "
    "77 of them to pop it. The two processes take turns, so calls that come one at a time leave half of the machine idle. "
    "Polls that one session makes at the same time therefore share calls while more is due, two under way at most, each "
    "with a lease of its own: a third of the processor time of a call for each. Tried besides: one lease for all that "
    "share a call (acknowledging a part of a lease passes over the whole of it, twice the time of calls of their own); "
    "HTTP/2 windows and frames of megabytes, no bandwidth probes, gRPC's throughput target, its minimal stack, larger "
    "reads (none beyond the noise); gRPC's server of threads (250 us for its side of a call instead of 400, but each poll "
    "that waits would hold a thread). Answers above 128 KB cost 300 us more, for the allocator then maps their memory "
    "anew. What was leased is acknowledged as a whole, by the lease's id and its count, and acks made at the same time "
    "share calls, too: a call for each, naming every position, made a leased poll cost 1,520 ns per index instead of "
    "400."
)
IN_FLIGHT = (8, 32)
_FILL_US_PER_INDEX = 10
"""Far more than filling takes, so that nothing is due when it is added."""
_subscriptions = (f"polls {number}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one repeat."""

    size: int
    count: int
    shape: Shape
    in_flight: int
    is_leased: bool = False

    @property
    def what(self) -> str:
        """Name in the report."""
        verb = "PollScheduledMessages and AckMessages" if self.is_leased else "PollScheduledMessages"
        how = "one call at a time" if self.in_flight == 1 else f"{self.in_flight} calls at a time"
        return f"{verb} of {self.size:,}, {how}"


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure Redis first, then the time of a call and the rate, for each size, then the other ways of taking."""
    sizes = run.scale.batch_sizes
    if run.with_peers:
        redis_polls(run, sizes)
    alone = [poll_of(run, size, Shape.DENSE, in_flight=1) for size in sizes]
    loads = [
        *alone,
        poll_of(run, BATCH, Shape.ONE, in_flight=1),
        *(poll_of(run, BATCH, Shape.DENSE, in_flight=in_flight) for in_flight in IN_FLIGHT),
        *(poll_of(run, BATCH, Shape.DENSE, in_flight=in_flight, is_leased=True) for in_flight in (1, *IN_FLIGHT)),
    ]
    async with served(run, {"isDelayedDeliveryDeliverAtTimeStrict": "true"}) as service:
        trackers = await filled(run, service, loads)
        for load, sessions in zip(loads, trackers, strict=True):
            readings = await _measured(run, service, load, sessions)
            if load in alone:
                us_per_call = tuple(reading.wall_ns / 1e3 * load.size / load.count for reading in readings)
                yield Row("grpc poll call", load.what, Unit.US_PER_CALL, us_per_call, load.count, load.shape)
            key = "grpc poll" if load.size == BATCH else f"grpc poll {load.size}"
            yield per_second(key, load.what, readings, load.count, load.shape)


def poll_of(run: Run, size: int, shape: Shape, *, in_flight: int, is_leased: bool = False) -> Load:
    count = size * max(1, min(run.scale.calls, run.scale.polled // size))
    return Load(size, count, shape, in_flight, is_leased)


async def filled(run: Run, service: Served, loads: list[Load]) -> list[list[TrackerSession]]:
    """Fill a tracker for each repeat of each load; return when all indexes in them are due."""
    trackers = run.scale.repeats + 1
    count = trackers * sum(load.count for load in loads)
    last_ms = _now_ms() + run.scale.poll_lead_ms + count * _FILL_US_PER_INDEX // 1_000
    run.note(
        f"filling {trackers * len(loads)} trackers with {count:,} indexes that are due in {last_ms - _now_ms():,} ms"
    )
    sessions = [[await _onefilled(run, service, load, last_ms) for _ in range(trackers)] for load in loads]
    await asyncio.sleep(max(0, last_ms - _now_ms()) / 1_000)
    return sessions


async def _onefilled(run: Run, service: Served, load: Load, last_ms: int) -> TrackerSession:
    session = await service.client.open_tracker(TOPIC, next(_subscriptions))
    indexes = offered(load.shape, load.count, per_ledger=run.scale.bucket)
    spread_ms = run.scale.poll_spread_ms if load.shape is Shape.DENSE else 1
    deadlines = last_ms - np.random.default_rng(load.count).integers(0, spread_ms, load.count)
    for part in batches(IndexColumns(deadlines, indexes.ledger_id, indexes.entry_id), 10_000):
        answer = await session.add_columns(part.deliver_at_ms, part.ledger_id, part.entry_id)
        require(load.what, answer.added_count == len(part))
    return session


async def _measured(run: Run, service: Served, load: Load, sessions: list[TrackerSession]) -> list[Reading]:
    readings = []
    for counts, session in zip(run.repeats(f"{load.what}, {load.shape.value}"), sessions, strict=True):
        reading = await repeat(run, service, load, session)
        if counts:
            readings.append(reading)
    return readings


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


async def repeat(run: Run, service: Served, load: Load, session: TrackerSession) -> Reading:
    taken: list[tuple[int, int]] = []

    async def hand_off(size: int) -> None:
        messages = await session.poll_hand_off(size, wait_ms=10_000)
        require(load.what, len(messages) > 0)
        taken.append((len(messages), int(np.asarray(messages.entry_ids).sum())))

    async def lease(size: int) -> None:
        leased = await session.poll(size, wait_ms=10_000)
        messages = leased.messages
        answer = await leased.ack()
        require(load.what, answer.acked_count == len(messages) > 0)
        taken.append((len(messages), int(np.asarray(messages.entry_ids).sum())))

    poll = lease if load.is_leased else hand_off
    with service.stopwatch() as watch:
        # A poll gives what is loaded, which may be less than it asks for; the time of further polls counts.
        while (left := load.count - sum(count for count, _ in taken)) > 0:
            await at_a_time(load.in_flight, poll, [load.size] * -(-left // load.size))
    expected = int(offered(load.shape, load.count, per_ledger=run.scale.bucket).entry_id.sum())
    stats = await session.stats()
    require(
        load.what, sum(count for count, _ in taken) == load.count and stats.pending_count == stats.leased_count == 0
    )
    require(load.what, sum(entries for _, entries in taken) == expected)
    await session.delete()
    return watch.reading
