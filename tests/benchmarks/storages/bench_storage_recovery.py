"""Time until a new process answers correctly about a stored position, from each storage."""

import asyncio
from collections.abc import Iterator

from tests.benchmarks.inputs.shapes import Shape
from tests.benchmarks.inputs.stored import store_buckets
from tests.benchmarks.measure import Run
from tests.benchmarks.paths.bench_recovery import recover_elsewhere
from tests.benchmarks.rows import Row, Unit
from tests.benchmarks.storages.places import PLACES, Place
from tests.jvm.pulsar_classes import NoPulsarClasses

ABOUT = (
    "200 buckets in each storage, written and closed by another process. Each repeat is a process of its own; measured is "
    "from opening the storage, connections included, to the answer that one position is tracked and another is not. Over "
    "bookies the process opens its add log, too, and takes over the tracker's. Again: the same process closes everything "
    "and opens it once more. File caches are warm, and servers run on the same two cores. S3 is moto, a double in Python."
)


def rows(run: Run) -> Iterator[Row]:
    """Measure each storage, with the most pending indexes of the scale."""
    for opened in PLACES:
        try:
            with opened(run) as place:
                yield from _recoveries(run, place, run.scale.pending[-1])
        except NoPulsarClasses as missing:
            run.skip(f"a recovery from bookies: {missing}")


def _recoveries(run: Run, place: Place, pending: int) -> Iterator[Row]:
    what, url = f"open {place.name} to first answer", place.url("recovered")
    asyncio.run(store_buckets(run, url, pending))
    first, again = [], []
    for _ in run.fresh_repeats(what, is_long=False):
        first_ms, again_ms = recover_elsewhere(run, what, url, pending, with_log=place.has_own_log)
        first.append(first_ms)
        again.append(again_ms)
    key = "recovery from bookies" if place.has_own_log else "recovery from"
    yield Row(key, what, Unit.MS, tuple(first), pending, Shape.WEEK)
    yield Row(key, "again in the same process", Unit.MS, tuple(again), pending, Shape.WEEK)
