"""AddMessages over gRPC, by size of batch, one call at a time and several, with and without seals."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import numpy as np

from delayed_tracker.client import TrackerSession
from delayed_tracker.core.values.columns import IndexColumns, Int64Array
from delayed_tracker.v1 import tracker_pb2
from delayed_tracker.wire.columns import pack_indexes
from delayed_tracker.wire.message_columns import ADD_COLUMNS
from tests.benchmarks.inputs.serving import TOPIC, Served, at_a_time, served
from tests.benchmarks.inputs.shapes import BATCH, NOW_MS, Shape, batches, offered
from tests.benchmarks.measure import Reading, Run, require
from tests.benchmarks.peers.echo_peer import echo_calls
from tests.benchmarks.peers.generator import generated_calls, generator
from tests.benchmarks.peers.redis_peer import redis_adds
from tests.benchmarks.rows import Row, Unit, per_second

ABOUT = (
    "The service is a process of its own with default settings over SQLite; the client, an asyncio program with numpy "
    "columns, runs beside it on the same cores. Adds that one session makes at the same time share calls, of which one "
    "is under way, or two of large ones; in a stream, small batches share messages in the same way. Redis, where it is "
    "measured: ZADD of as many members, as many commands under way, one connection, hiredis, nothing written to disk. "
    "Echo: grpc.aio on both sides, as here, of as many bytes, which are given back as they are: what it takes is not the "
    "tracker's. The compiled client makes a call for each add, so what it takes is the service's share. "
    "By the profile of a call of one position that takes 1,280 us beside an echo of 480, on the same machine and with the "
    "log in memory: 700 us of processor time are those of the service's event loop, of which an echo takes 270, 120 to 200 "
    "the handler, and 175 what the add log asks of it; the log's thread takes 150 (SQLite's commit), and another 100 "
    "on a disk that syncs in 60; the client takes 390, of which an echo takes 240. Without the add log a call takes 420 us "
    "more than an echo. Client and service make one task more than an echo does, the commit's, and the service's loop "
    "takes 15.6 steps instead of 11.5. Tried besides, for the echo: uvloop (6 to 13 % of the service's processor time, "
    "nothing of the median beyond the noise; with uvloop in the client, too, 415 instead of 480 us), gRPC's older network "
    "code (GRPC_EXPERIMENTS without event_engine_client and event_engine_listener: 5 to 9 %, by a switch that goes "
    "away), both together (8 to 15 %), gRPC's server of threads (as fast; 100 us slower as soon as its threads hand a call "
    "to the event loop, where the trackers are), its latency and throughput targets, other pollers, no probes, no "
    "support of forks, its minimal stack, one arena, one core for both (none beyond the noise). Tried, too: single adds over one "
    "stream instead of calls. One at a time takes 1,300 to 1,420 us instead of 1,680 to 2,000, beside an echo of 670 to 740, "
    "but of 8 at a time each takes 350 to 400 instead of 210 to 300, because the session's calls carry all that wait. "
    "Eight adds that share calls as long as an echo's 480 to 650 us would be 12,300 to 16,700 a second: 12,000 leaves a call "
    "nothing for the tracker, nor for the disk. "
    "While everything seals, an index takes the service 540 ns: its event loop 250, a fifth of it the sockets', the "
    "threads that sort and encode 100, the writer of snapshots 80, that of the add log 75; it takes the client 150, and two "
    "cores that both programs keep busy would pass 2.9 M a second. Tried: batches of 10,000 (2.4 to 2.8 M/s beside 1.8 to "
    "2.0), 64 calls at a time, which the client joins (2.9), with columnar snapshots (3.2 to 3.8), these with 8 calls (2.0 to "
    "2.3), without the add log (1.4 to 1.9), files instead of SQLite (2.1), one thread that encodes (2.1 to 2.8)."
)
IN_FLIGHT = 8
_ADD_METHOD = "delayed_tracker.v1.DelayedDeliveryTrackerService/AddMessages"
_subscriptions = (f"adds {number}" for number in itertools.count())


@dataclass(frozen=True, slots=True)
class Load:
    """Load of one repeat."""

    what: str
    parts: list[IndexColumns]
    shape: Shape
    in_flight: int
    """Calls at a time of each tracker; 0 uses a stream."""
    tracker_count: int = 1

    @property
    def count(self) -> int:
        """Number of indexes."""
        return sum(len(part) for part in self.parts)


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure Redis and an echo first, then calls of each size, then the shapes, then seals."""
    sizes = run.scale.batch_sizes
    if run.with_peers:
        redis_adds(run, sizes, IN_FLIGHT)
    settings = {
        "delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket),
        # One ledger is not sealed, however many indexes it has.
        "mutableIndexesMax": str(2 * run.scale.adds),
    }
    echoes = await echo_calls(run, sizes)
    async with served(run, settings) as service:
        for size in sizes:
            load = load_of(run, Shape.WEEK, size, in_flight=1)
            readings = await _measured(run, service, load)
            us_per_call = tuple(reading.wall_ns / 1e3 / len(load.parts) for reading in readings)
            yield Row(f"grpc call {size}", load.what, Unit.US_PER_CALL, us_per_call, load.count, Shape.WEEK)
            above = tuple(us - echoes[size] for us in us_per_call)
            yield Row("grpc above echo", "of it above an echo", Unit.US_PER_CALL, above, load.count, Shape.WEEK)
            if size == BATCH:
                yield per_second("grpc add alone", load.what, readings, load.count, Shape.WEEK)
        for size in sizes:
            for shape in Shape if size == BATCH else (Shape.WEEK,):
                load = load_of(run, shape, size, in_flight=IN_FLIGHT)
                key = "grpc add" if size == BATCH else f"grpc add {size}"
                yield per_second(key, load.what, await _measured(run, service, load), load.count, shape)
        async for row in _generated(run, service):
            yield row
        load = load_of(run, Shape.WEEK, 1, in_flight=0)
        yield per_second("grpc add stream 1", load.what, await _measured(run, service, load), load.count, Shape.WEEK)
        load = load_of(run, Shape.WEEK, BATCH, in_flight=0)
        yield per_second("grpc add", load.what, await _measured(run, service, load), load.count, Shape.WEEK)
        for shape in Shape:
            load = load_of(run, shape, BATCH, in_flight=IN_FLIGHT, is_sealed=True)
            yield per_second("grpc add sealing", load.what, await _measured(run, service, load), load.count, shape)


async def _generated(run: Run, service: Served) -> AsyncIterator[Row]:
    """Measure single adds by a compiled client, one at a time and several: each has a call of its own."""
    command = generator()
    if command is None:
        run.skip("adds by a compiled client: needs Java and `make other-languages`")
        return
    for in_flight in (1, IN_FLIGHT):
        load = load_of(run, Shape.WEEK, 1, in_flight=in_flight)
        how = "one call at a time" if in_flight == 1 else f"{in_flight} calls at a time"
        what = f"AddMessages of 1 by a compiled client (grpc-java, encoded ahead), {how}"
        samples: list[float] = []
        for counts in run.repeats(what):
            subscription = next(_subscriptions)
            async with await service.client.open_tracker(TOPIC, subscription) as session:
                tracker = tracker_pb2.TrackerRef(topic=TOPIC, subscription=subscription)
                head = tracker_pb2.AddMessagesRequest(tracker=tracker, epoch=session.epoch)
                found = await generated_calls(
                    command,
                    service.process.grpc_address,
                    _ADD_METHOD,
                    [ADD_COLUMNS.encoded(head, pack_indexes(*_columns_of(part))) for part in load.parts],
                    warm_ups=len(load.parts) // 4,
                    in_flight=in_flight,
                    directory=run.new_directory(),
                )
                require(what, (await session.stats()).pending_count == load.count)
                await session.delete()
            run.note(
                f"{found.calls / found.seconds:,.0f} calls/s, p50 {found.p50_us:.0f} us, p99 {found.p99_us:.0f} us"
            )
            if counts:
                samples.append(found.seconds * 1e6 / found.calls)
        yield Row(f"grpc generator {in_flight}", what, Unit.US_PER_CALL, tuple(samples), load.count, Shape.WEEK)


def _columns_of(part: IndexColumns) -> tuple[Int64Array, Int64Array, Int64Array]:
    return part.deliver_at_ms, part.ledger_id, part.entry_id


def calls_of(run: Run, size: int) -> int:
    """Return the number of calls of a repeat: enough to send ``adds``, but not more than ``calls``."""
    return max(1, min(run.scale.calls, run.scale.adds // size))


def load_of(run: Run, shape: Shape, size: int, *, in_flight: int, is_sealed: bool = False) -> Load:
    """Return the calls of one repeat; with ``is_sealed``, in ledgers of a bucket each."""
    count = size * calls_of(run, size)
    indexes = offered(shape, count, per_ledger=run.scale.bucket if is_sealed else count)
    # The service uses the machine's clock: nothing is due, or nearly due, for another hour.
    later_ms = time.time_ns() // 1_000_000 - NOW_MS
    indexes = IndexColumns(indexes.deliver_at_ms + later_ms, indexes.ledger_id, indexes.entry_id)
    how = "as a stream" if not in_flight else "one call at a time" if in_flight == 1 else f"{in_flight} calls at a time"
    what = f"AddMessages of {size:,}, {how}" + (", sealing and storing meanwhile" if is_sealed else "")
    return Load(what, batches(indexes, size), shape, in_flight)


async def _measured(run: Run, service: Served, load: Load) -> list[Reading]:
    readings = []
    for counts in run.repeats(f"{load.what}, {load.shape.value}"):
        reading = await repeat(service, load)
        if counts:
            readings.append(reading)
    return readings


async def repeat(service: Served, load: Load) -> Reading:
    """Add to new trackers, verify what they have, delete them, and return the reading of the adds."""
    added: list[int] = []
    async with AsyncExitStack() as stack:
        sessions = [
            await stack.enter_async_context(await service.client.open_tracker(TOPIC, next(_subscriptions)))
            for _ in range(load.tracker_count)
        ]
        parts = [load.parts[number :: load.tracker_count] for number in range(load.tracker_count)]
        with service.stopwatch() as watch:
            await asyncio.gather(
                *(_add_all(session, own, load.in_flight, added) for session, own in zip(sessions, parts, strict=True))
            )
        pending = [(await session.stats()).pending_count for session in sessions]
        require(load.what, sum(added) == load.count and pending == [sum(map(len, own)) for own in parts])
        for session, own in zip(sessions, parts, strict=True):
            asked = own[len(own) // 2]
            require(load.what, all(await session.contains(asked.ledger_id, asked.entry_id)))
            require(load.what, not any(await session.contains(asked.ledger_id, asked.entry_id + np.int64(2**31))))
            await session.delete()
    return watch.reading


async def _add_all(session: TrackerSession, parts: list[IndexColumns], in_flight: int, added: list[int]) -> None:
    if in_flight:
        await at_a_time(in_flight, _adder(session, added.append), parts)
    else:
        added += [answer.added_count async for answer in session.add_stream(_stream(parts))]


def _adder(session: TrackerSession, note: Callable[[int], None]):
    async def add(part: IndexColumns) -> None:
        note((await session.add_columns(part.deliver_at_ms, part.ledger_id, part.entry_id)).added_count)

    return add


async def _stream(parts: list[IndexColumns]):
    for part in parts:
        yield part.deliver_at_ms, part.ledger_id, part.entry_id
