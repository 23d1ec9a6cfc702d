"""The week as it passes: over each storage, with ten times as many buckets, and for a thousand trackers in one process."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.hosted import Hosted, hosted_over
from tests.benchmarks.inputs.shapes import (
    BATCH,
    NOW_MS,
    SOON_MS,
    WEEK_MS,
    Shape,
    batches,
    buckets,
    default_limits,
    offered,
)
from tests.benchmarks.measure import Reading, Run, Stopwatch, require
from tests.benchmarks.paths.bench_life import life_of
from tests.benchmarks.rows import Row, Unit, per_index
from tests.benchmarks.storages.places import PLACES, Place, sqlite, striped_bookies
from tests.jvm.pulsar_classes import NoPulsarClasses

ABOUT = (
    "Buckets of 50,000 with deadlines over 7 days, drained by a poller that comes every five minutes of the week, as in "
    "the whole life over SQLite: over each storage with 20 buckets, and over SQLite with 200. Reads are those of "
    "segments, each one request to an object store and a transaction of SQLite; a bookie is asked for several entries at "
    "once, if it has them all: not with a striped ledger. All servers share the two cores with the tracker, and have gone"
    " through such a week before. Of a week over SQLite with 20 buckets, two thirds of the time are polls, most of that "
    "the pop of 500 rows; loads take a sixth, timers an eighth. Tried: columnar snapshots (500 to 850 ns instead of 640 "
    "to 890), reading ahead twice as far, one read at a time (none beyond the noise). Of a week over bookies, 500 to 600 "
    "ns of an index are the tracker's, as over SQLite, 200 to 400 the client of bookies', for segments of 26 indexes are "
    "entries of their own, and the rest waiting for bookies. Tried with the striped ledger, which took 990 to 1,300 ns: "
    "columnar snapshots, of which a segment has four times the rows (730 to 970); a quarter as many entries on their way "
    "(1,360 to 1,480); four times as many (none beyond the noise). With 200 buckets, by the profile, the event loop takes"
    " all of the time: half of it puts the rows of a read, 2,000 on average, on the heap, a sixth chooses the next reads,"
    " and a seventh is the poller. Tried: columnar snapshots (780 to 880 instead of 920 to 1,100), reading ahead twice as"
    " far (as many reads) and four times (twice the reads and a third more time, for all trackers' room is full), 1 or 16"
    " reads at a time instead of 4 (none beyond the noise). Then the first day of such a week for a thousand trackers in "
    "one process with a bucket of 10,000 each, each with a poller that comes every five minutes; the share of a core is "
    "the processor time beside the day, that of the pollers included."
)
DAY_MS = WEEK_MS // 7
MANY_BUCKETS = 10
"""Times the usual number of buckets."""
TRACKERS = 1_000


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure each storage, then the larger week, then the trackers."""
    for opened in (*PLACES, striped_bookies):
        try:
            with opened(run) as place:
                async for row in _passing(run, place, run.scale.buckets):
                    yield row
        except NoPulsarClasses as missing:
            run.skip(f"a week over bookies: {missing}")
    with sqlite(run) as place:
        async for row in _passing(run, place, MANY_BUCKETS * run.scale.buckets):
            yield row
        async for row in _trackers(run, place):
            yield row


async def _passing(run: Run, place: Place, count: int) -> AsyncIterator[Row]:
    what = f"the week passes over {place.name}, {count} buckets"
    indexes = IndexColumns.concat(list(buckets(Shape.WEEK, run.scale, count)))
    scale = replace(run.scale, buckets=count)
    readings: list[Reading] = []
    reads: list[float] = []
    # A warm-up for the servers: a bookie that has just started takes twice the time, for Java is compiling.
    passes = run.repeats(what) if count == run.scale.buckets else (True for _ in run.fresh_repeats(what, is_long=True))
    for number, counts in enumerate(passes):
        url = place.url(f"week{count}-{number}")
        async with hosted_over(open_storage(url), default_limits(run.scale)) as tracker:
            _, drained = await life_of(
                replace(run, scale=scale), what, tracker, indexes, step_ms=WEEK_MS // run.scale.week_polls
            )
            if counts:
                reads.append(float(tracker.host.counters.segment_loads))
                readings.append(drained)
    yield per_index("week passing", f"{what}: load, pop and delete", readings, len(indexes), Shape.WEEK)
    yield Row("week reads", "of it: reads of segments", Unit.COUNT, tuple(reads), len(indexes), Shape.WEEK)


async def _trackers(run: Run, place: Place) -> AsyncIterator[Row]:
    """Let a day pass for a thousand trackers in one process."""
    count = min(TRACKERS, run.scale.scraped_trackers)
    bucket = run.scale.bucket // 5
    what = f"a day of the week passes in {count:,} trackers"
    clock = ManualClock(NOW_MS)
    limits = replace(default_limits(run.scale), min_index_count_per_bucket=bucket)
    registry = TrackerRegistry(open_storage(place.url("trackers")), limits, clock=clock)
    await registry.start()
    try:
        run.note(f"{what}: adding")
        trackers = [await _filled(registry, clock, number, bucket) for number in range(count)]
        run.note(f"{what}: passing")
        with Stopwatch() as watch:
            came = await _passed(run, trackers, clock)
        left = sum(tracker.host.stats().pending_count for tracker in trackers)
        require(what, came + left == count * bucket)
    finally:
        await registry.close()
    reading = watch.reading
    reads = sum(tracker.host.counters.segment_loads for tracker in trackers)
    yield per_index("week trackers", what, [reading], came, Shape.WEEK)
    yield Row("week share", "of it: share of a core", Unit.OF_A_CORE, (reading.cpu_ns / 1e6 / DAY_MS,), came)
    yield Row("week reads", "of it: reads of segments", Unit.COUNT, (float(reads),), came, Shape.WEEK)


async def _filled(registry: TrackerRegistry, clock: ManualClock, number: int, bucket: int) -> Hosted:
    key = TrackerKey(f"persistent://lab/main/week-{number}", "measured")
    opened = await registry.open(key, owner="benchmark", mark_delete=None)
    tracker = Hosted(registry, registry.host(key), clock, opened.epoch)
    await tracker.add(batches(offered(Shape.WEEK, bucket, per_ledger=bucket, seed=number), 10 * BATCH))
    tracker.host.seal(tracker.epoch)
    await tracker.until(lambda: tracker.host.counters.snapshots_stored == 1)
    return tracker


async def _passed(run: Run, trackers: list[Hosted], clock: ManualClock) -> int:
    """Let a day pass; return the indexes that were handed out, which are those that were due."""
    bucket = run.scale.bucket // 5
    due_after = [
        np.sort(offered(Shape.WEEK, bucket, per_ledger=bucket, seed=number).deliver_at_ms)
        for number in range(len(trackers))
    ]
    came = [0] * len(trackers)
    step_ms = WEEK_MS // run.scale.week_polls
    clock.advance(SOON_MS)
    for _ in range(0, DAY_MS, step_ms):
        clock.advance(step_ms)
        cutoff_ms = trackers[0].registry.limits.cutoff_ms(clock.now_ms())

        async def visit(number: int, cutoff_ms: int = cutoff_ms) -> None:
            due = int(np.searchsorted(due_after[number], cutoff_ms, side="right"))
            taken = await trackers[number].take(due - came[number], BATCH)
            came[number] += sum(map(len, taken))
            require("a tracker of many", came[number] == due)

        await asyncio.gather(*map(visit, range(len(trackers))))
    return sum(came)
