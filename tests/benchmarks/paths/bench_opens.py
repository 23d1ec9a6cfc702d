"""Opening many trackers at once, as after a restart: each is fenced by a commit, in the catalogue and in the add log."""

import asyncio
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
    "commits, and wake-ups of the event loop."
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
