"""AddMessages of 1,000 with the add log and without it, beside Redis with an append-only file on the same disk."""

from collections.abc import AsyncIterator

from tests.benchmarks.inputs.disk import fsyncs
from tests.benchmarks.inputs.serving import served
from tests.benchmarks.inputs.shapes import BATCH, Shape
from tests.benchmarks.measure import Reading, Run, percentile, require
from tests.benchmarks.paths.bench_grpc_add import IN_FLIGHT, load_of, repeat
from tests.benchmarks.peers.redis_peer import redis_adds
from tests.benchmarks.rows import Row, Unit, per_second

ABOUT = (
    "One client with one tracker, 1,000 indexes a batch over 7 days, 8 batches at a time, nothing sealed; SQLite on the "
    "disk. Two services run side by side, one without the add log (trackerDurableAdds=false); repeats alternate between "
    "them, and a share is that of two repeats in a row. Redis, where it is measured: ZADD of 1,000 members, 8 commands "
    "under way over one connection, hiredis, its append-only file on the same disk and never rewritten. Fsyncs are of "
    "4 KiB in a file of their own on that disk, 20 a second while the services are measured."
)
POLICIES = ("everysec", "always")
FSYNC_PAUSE_MS = 50
SETTINGS = ("true", "false")
"""Values of trackerDurableAdds, in the order of the measurements."""


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure Redis under both policies, then the two services in turn."""
    if run.with_peers:
        for policy in POLICIES:
            redis_adds(run, [BATCH], IN_FLIGHT, key=f"durable add {policy}", fsync=policy)
    load = load_of(run, Shape.WEEK, BATCH, in_flight=IN_FLIGHT)
    readings: dict[str, list[Reading]] = {value: [] for value in SETTINGS}
    settings = {
        "delayedDeliveryMinIndexCountPerBucket": str(run.scale.bucket),
        "mutableIndexesMax": str(2 * run.scale.adds),
    }
    async with (
        served(run, {**settings, "trackerDurableAdds": "true"}) as durable,
        served(run, {**settings, "trackerDurableAdds": "false"}) as volatile,
        fsyncs(run.new_directory(), pause_ms=FSYNC_PAUSE_MS) as durations_ms,
    ):
        services = dict(zip(SETTINGS, (durable, volatile), strict=True))
        for counts in run.repeats(f"{load.what}, with the add log and without"):
            for value, service in services.items():
                reading = await repeat(service, load)
                if counts:
                    readings[value].append(reading)
        require("the add log", durable.log_bytes > 0)
    with_log, without = (readings[value] for value in SETTINGS)
    yield per_second("volatile add", f"{load.what}, without the add log", without, load.count, Shape.WEEK)
    for policy in POLICIES:
        what = f"{load.what}, with the add log; the peer has appendfsync {policy}"
        yield per_second(f"durable add {policy}", what, with_log, load.count, Shape.WEEK)
    shares = tuple(off.wall_ns / on.wall_ns for on, off in zip(with_log, without, strict=True))
    yield Row("durable share", f"{load.what}, with the add log", Unit.SHARE, shares, load.count, Shape.WEEK)
    fsync_ms = durations_ms()
    yield Row("fsync", "fsync meanwhile: p50", Unit.MS, (percentile(fsync_ms, 0.5),), len(fsync_ms))
    yield Row("fsync", "fsync meanwhile: max", Unit.MS, (fsync_ms[-1],), len(fsync_ms))
