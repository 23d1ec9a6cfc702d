"""AddMessages of 1,000 with the add log and without it, beside Redis with an append-only file on the same disk."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import chain

from tests.benchmarks.calls.bench_grpc_add import IN_FLIGHT, load_of, repeat
from tests.benchmarks.inputs.disk import fsyncs
from tests.benchmarks.inputs.serving import Served, served
from tests.benchmarks.inputs.shapes import BATCH, Shape
from tests.benchmarks.measure import Reading, Run, percentile, require
from tests.benchmarks.peers.redis_peer import redis_adds
from tests.benchmarks.rows import Row, Unit, per_second

ABOUT = (
    "One client process with one dispatcher, then with four, each with a tracker of its own: 1,000 indexes a batch over 7 "
    "days, 8 batches at a time for each dispatcher, nothing sealed; SQLite on the disk. One dispatcher alone waits for the "
    "disk: each of its batches waits for a commit or two, and 8 batches is what it has under way. Several share the "
    "commits. Two services run side by side, one without the add log (trackerDurableAdds=false); repeats alternate between "
    "them, 15 of each, and a share is that of two repeats in a row. Redis, where it is measured: ZADD of 1,000 members, as many "
    "commands under way over one connection, hiredis, its append-only file on the same disk and never rewritten. Fsyncs are of "
    "4 KiB in a file of their own on that disk, 4 a second while the services are measured."
)
POLICIES = ("everysec", "always")
FSYNC_PAUSE_MS = 250
ROUNDS = 3
"""Rounds of repeats. A machine that other work slows for a second changes a single share by a third."""
SETTINGS = ("true", "false")
"""Values of trackerDurableAdds, in the order of the measurements."""
DISPATCHERS = {"one dispatcher": 1, "durable": 4}
"""Number of dispatchers by the start of the rows' keys; the goals are for several."""


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure Redis under both policies, then the two services in turn, for each number of dispatchers."""
    settings = {
        "delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket),
        "mutableIndexesMax": str(2 * run.scale.adds),
    }
    if run.with_peers:
        for key, count in DISPATCHERS.items():
            for policy in POLICIES:
                redis_adds(run, [BATCH], count * IN_FLIGHT, key=f"{key} add {policy}", fsync=policy)
    async with (
        served(run, {**settings, "trackerDurableAdds": "true"}) as durable,
        served(run, {**settings, "trackerDurableAdds": "false"}) as volatile,
        fsyncs(run.new_directory(), pause_ms=FSYNC_PAUSE_MS) as durations_ms,
    ):
        services = dict(zip(SETTINGS, (durable, volatile), strict=True))
        for key, count in DISPATCHERS.items():
            for row in await _measured(run, services, key, count):
                yield row
        require("the add log", durable.log_bytes > 0)
    fsync_ms = durations_ms()
    yield Row("fsync", "fsync meanwhile: p50", Unit.MS, (percentile(fsync_ms, 0.5),), len(fsync_ms))
    yield Row("fsync", "fsync meanwhile: max", Unit.MS, (fsync_ms[-1],), len(fsync_ms))


async def _measured(run: Run, services: dict[str, Served], key: str, dispatcher_count: int) -> list[Row]:
    load = load_of(run, Shape.WEEK, BATCH, in_flight=IN_FLIGHT)
    dispatchers = "one dispatcher" if dispatcher_count == 1 else f"{dispatcher_count} dispatchers"
    load = replace(load, what=f"{load.what}, {dispatchers}", tracker_count=dispatcher_count)
    readings: dict[str, list[Reading]] = {value: [] for value in SETTINGS}
    for counts in chain(*(run.repeats(f"{load.what}, with the add log and without") for _ in range(ROUNDS))):
        for value, service in services.items():
            reading = await repeat(service, load)
            if counts:
                readings[value].append(reading)
    with_log, without = (readings[value] for value in SETTINGS)
    shares = tuple(off.wall_ns / on.wall_ns for on, off in zip(with_log, without, strict=True))
    return [
        per_second(f"{key} volatile", f"{load.what}, without the add log", without, load.count, Shape.WEEK),
        *(
            per_second(
                f"{key} add {policy}",
                f"{load.what}, with the add log; the peer has appendfsync {policy}",
                with_log,
                load.count,
                Shape.WEEK,
            )
            for policy in POLICIES
        ),
        Row(f"{key} share", f"{load.what}, with the add log", Unit.SHARE, shares, load.count, Shape.WEEK),
    ]
