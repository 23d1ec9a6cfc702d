"""The whole life of an index without the network: added, sealed, stored in SQLite, loaded, popped, drained."""

import asyncio
from collections.abc import Callable, Iterator

import numpy as np

from delayed_tracker.core.values.columns import IndexColumns
from tests.benchmarks.inputs.hosted import Hosted, hosted
from tests.benchmarks.inputs.shapes import (
    ALL_DUE_MS,
    BATCH,
    NOW_MS,
    SOON_MS,
    WEEK_MS,
    Shape,
    batches,
    buckets,
    default_limits,
)
from tests.benchmarks.measure import Reading, Run, Stopwatch, require
from tests.benchmarks.rows import Row, Unit, per_index

ABOUT = (
    "20 ledgers of 50,000 through the service's own tracker over SQLite, default settings, batches of 1,000. All of it is "
    "sealed and stored before anything is due. Drained at once: the clock is set to after the last deadline, as for the "
    "peer (whose storage is memory). Drained as the week passes: a poller comes every five minutes of it."
)


def rows(run: Run) -> Iterator[Row]:
    """Measure each shape drained at once, then the week as it passes."""
    for shape in Shape:
        yield from _lives(run, shape, f"whole life, {shape.value}", step_ms=None)
    yield from _lives(run, Shape.WEEK, "whole life as the week passes", step_ms=WEEK_MS // run.scale.week_polls)


def _lives(run: Run, shape: Shape, what: str, *, step_ms: int | None) -> Iterator[Row]:
    indexes = IndexColumns.concat(list(buckets(shape, run.scale, run.scale.buckets)))
    count = len(indexes)
    filling: list[Reading] = []
    draining: list[Reading] = []
    on_disk: list[float] = []
    for counts in run.repeats(what):
        filled, drained, stored_bytes = asyncio.run(_life(run, what, indexes, step_ms))
        if counts:
            filling.append(filled)
            draining.append(drained)
            on_disk.append(stored_bytes / count)
    whole = [
        Reading(fill.wall_ns + drain.wall_ns, fill.cpu_ns + drain.cpu_ns, max(fill.peak_bytes, drain.peak_bytes))
        for fill, drain in zip(filling, draining, strict=True)
    ]
    if step_ms is not None:
        yield per_index("life passing", "whole life, drained as the week passes", whole, count, shape)
        yield per_index("drain passing", "of it: load, pop and delete", draining, count, shape)
        return
    yield per_index("life", "whole life, drained at once", whole, count, shape)
    yield per_index("fill", "of it: add, seal and store", filling, count, shape)
    yield per_index("drain", "of it: load, pop and delete", draining, count, shape)
    yield Row("disk", "snapshots on disk, file and log", Unit.BYTES_PER_INDEX, tuple(on_disk), count, shape)


async def _life(run: Run, what: str, indexes: IndexColumns, step_ms: int | None) -> tuple[Reading, Reading, int]:
    """Return the times of filling and draining, and the bytes on disk between them."""
    directory = run.new_directory()
    stored_bytes: list[int] = []
    async with hosted(directory / "tracker.db", default_limits(run.scale)) as tracker:
        filled, drained = await life_of(
            run,
            what,
            tracker,
            indexes,
            step_ms=step_ms,
            between=lambda: stored_bytes.append(sum(path.stat().st_size for path in directory.iterdir())),
        )
    return filled, drained, stored_bytes[0]


async def life_of(
    run: Run,
    what: str,
    tracker: Hosted,
    indexes: IndexColumns,
    *,
    step_ms: int | None = None,
    between: Callable[[], object] = lambda: None,
) -> tuple[Reading, Reading]:
    """Return the times of filling and of draining a tracker that is empty; wrong output raises WrongOutput.

    Args:
        run: has the number of buckets.
        what: for messages.
        tracker: over any storage.
        indexes: of all buckets.
        step_ms: time between two visits of the poller; None drains at once after the last deadline.
        between: called when all is stored and nothing is drained.
    """
    parts = batches(indexes)
    with Stopwatch() as watch:
        added = await tracker.add(parts)
        tracker.host.seal(tracker.epoch)
        await tracker.until(lambda: tracker.host.counters.snapshots_stored == run.scale.buckets)
    filled = watch.reading
    require(what, added == len(indexes) == tracker.host.stats().pending_count)
    between()
    with Stopwatch() as watch:
        taken = await _drain(tracker, indexes, step_ms)
        await tracker.until(lambda: tracker.host.counters.snapshots_deleted == run.scale.buckets)
    require(what, _each_once(IndexColumns.concat(taken), indexes) and tracker.host.stats().pending_count == 0)
    return filled, watch.reading


async def _drain(tracker: Hosted, indexes: IndexColumns, step_ms: int | None) -> list[IndexColumns]:
    if step_ms is None:
        tracker.clock.advance(ALL_DUE_MS - NOW_MS)
        return await tracker.take(len(indexes), BATCH)
    taken: list[IndexColumns] = []
    due_after = np.sort(indexes.deliver_at_ms)
    limits = tracker.registry.limits
    came = 0
    tracker.clock.advance(SOON_MS)
    for _ in range(0, WEEK_MS, step_ms):
        await tracker.pass_time(step_ms)
        due = int(np.searchsorted(due_after, limits.cutoff_ms(tracker.clock.now_ms()), side="right"))
        taken += await tracker.take(due - came, BATCH)
        came = due
    return taken


def _each_once(taken: IndexColumns, indexes: IndexColumns) -> bool:
    """Compare with the model: the same rows in any order."""
    order = np.lexsort((taken.entry_id, taken.ledger_id))
    return (
        np.array_equal(taken.ledger_id[order], indexes.ledger_id)
        and np.array_equal(taken.entry_id[order], indexes.entry_id)
        and np.array_equal(taken.deliver_at_ms[order], indexes.deliver_at_ms)
    )
