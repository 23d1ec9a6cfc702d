"""Opening many trackers at once, as after a restart: each is fenced by a commit, in the catalogue and in the add log."""

import asyncio
import gc
from collections.abc import AsyncIterator
from pathlib import Path

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog
from tests.benchmarks.inputs.shapes import NOW_MS, default_limits
from tests.benchmarks.measure import Run, Stopwatch, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "Trackers with one index each in the add log, opened all at once by a registry over SQLite that has just started: "
    "everything but the network. Two syncs for each tracker, one after the other, would take minutes; those that wait share "
    "commits, reads, and wake-ups of the event loop. By the profile an opening is processor time of the event loop, 0.2 ms of a "
    "new tracker and 0.35 to 0.45 ms of one with an index, and 0.1 to 0.2 ms of SQLite's threads, which take turns with it for the "
    "interpreter: some 1,250 calls of Python functions, none above 4 %. Its state is listed, its epoch written, its log taken "
    "over, a host with its parts is made, the log's page applied to a core (a quarter of the loop's time), the owner noted. Kept: "
    "16 at a time (with 2, more than twice the time), shared commits and wake-ups, the first page of the log in the answer of "
    "taking over. Kept last: small reads that wait for a thread share its turn, as commits did (half the time: each hand-over of "
    "the interpreter between two cores had cost as much as the read), and Python collects everything a tenth as often (a third "
    "of the time: each such collection visits all trackers that are open). Tried without effect: 32, 48 and 64 at a time, fewer "
    "statements of SQL, smaller pages, threads of their own for reading. On one core the same takes as long as on two."
)
_LATER_MS = 3_600_000


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure the first opening, and openings after a restart."""
    count = run.scale.scraped_trackers
    first, again = [], []
    for _ in run.fresh_repeats(f"opening {count:,} trackers", is_long=False):
        directory = run.new_directory()
        first.append(await _opened(run, directory, count, has_index=False))
        again.append(await _opened(run, directory, count, has_index=True))
    yield Row("opens", f"{count:,} new trackers", Unit.MS, tuple(first), count)
    yield Row("opens", f"{count:,} trackers after a restart", Unit.MS, tuple(again), count)


async def _opened(run: Run, directory: Path, count: int, *, has_index: bool) -> float:
    """Open all trackers and add an index to each that has none; return the milliseconds until the last one was open."""
    registry = TrackerRegistry(
        open_storage(f"sqlite:{directory / 'tracker.db'}"),
        default_limits(run.scale),
        clock=ManualClock(NOW_MS),
        add_log=SqliteAddLog(directory / "tracker.db.add-log"),
    )
    await registry.start()
    try:
        gc.collect()  # a service that starts has nothing to forget
        keys = [TrackerKey(f"persistent://lab/main/{number}", "opens") for number in range(count)]
        with Stopwatch() as watch:
            opened = await asyncio.gather(*(registry.open(key, owner="me", mark_delete=None) for key in keys))
        pending = [registry.host(key).stats().pending_count for key in keys]
        require("opening trackers", pending == [int(has_index)] * count)
        if not has_index:
            one = IndexColumns.of([(NOW_MS + _LATER_MS, 1, 0)])
            for key, each in zip(keys, opened, strict=True):
                registry.host(key).add(each.epoch, one)
    finally:
        await registry.close()
    return watch.reading.wall_ns / 1e6
