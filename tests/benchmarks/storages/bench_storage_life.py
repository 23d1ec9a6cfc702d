"""The whole life of an index over each storage: added, sealed, stored, loaded, popped, drained."""

import asyncio
from collections.abc import Iterator

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.hosted import hosted_over
from tests.benchmarks.inputs.shapes import Shape, buckets, default_limits
from tests.benchmarks.measure import Reading, Run
from tests.benchmarks.paths.bench_life import life_of
from tests.benchmarks.rows import Row, per_index
from tests.benchmarks.storages.places import PLACES, Place
from tests.jvm.pulsar_classes import NoPulsarClasses

ABOUT = (
    "As the whole life over SQLite above, drained at once, in the same run over each storage: a bucket of 50,000 is about "
    "2,000 segments, so 2,000 entries of a ledger, and one object. Servers share the two cores with the service, and their "
    "processor time and memory are not counted. One bookie has one copy of each entry; three have two, of an ensemble of "
    "three. S3 is moto, a double in Python: its row says what the service costs and what moto takes, nothing about S3."
)


def rows(run: Run) -> Iterator[Row]:
    """Measure each storage."""
    indexes = IndexColumns.concat(list(buckets(Shape.WEEK, run.scale, run.scale.buckets)))
    for opened in PLACES:
        try:
            with opened(run) as place:
                yield from _lives(run, place, indexes)
        except NoPulsarClasses as missing:
            run.skip(f"a life over bookies: {missing}")


def _lives(run: Run, place: Place, indexes: IndexColumns) -> Iterator[Row]:
    what = f"whole life over {place.name}"
    filling: list[Reading] = []
    draining: list[Reading] = []
    for number, counts in enumerate(run.repeats(what)):
        filled, drained = asyncio.run(_life(run, what, place.url(f"life{number}"), indexes))
        if counts:
            filling.append(filled)
            draining.append(drained)
    whole = [
        Reading(fill.wall_ns + drain.wall_ns, fill.cpu_ns + drain.cpu_ns, max(fill.peak_bytes, drain.peak_bytes))
        for fill, drain in zip(filling, draining, strict=True)
    ]
    count = len(indexes)
    yield per_index("life over", what, whole, count, Shape.WEEK)
    yield per_index("fill over", "of it: add, seal and store", filling, count, Shape.WEEK)
    yield per_index("drain over", "of it: load, pop and delete", draining, count, Shape.WEEK)


async def _life(run: Run, what: str, url: str, indexes: IndexColumns) -> tuple[Reading, Reading]:
    async with hosted_over(open_storage(url), default_limits(run.scale)) as tracker:
        return await life_of(run, what, tracker, indexes)
