"""Bounds on the work for 100,000 indexes: calls, objects, bytes and storage operations.

No clock is read, so a busy machine changes nothing; a count differs from run to run by a few objects at most. Each
bound is a tenth above the count at the time it was set. A Python loop over indexes exceeds it by far, and so does one
over segments. A change that makes something cheaper also lowers the bound; a change that raises one states the reason.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import config

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog
from delayed_tracker.storage.worker_threads import WorkerThreads
from tests.benchmarks.inputs.hosted import hosted_over
from tests.benchmarks.inputs.shapes import (
    ALL_DUE,
    ALL_DUE_MS,
    BATCH,
    HOUR_MS,
    NOW,
    NOW_MS,
    WEEK_MS,
    Shape,
    batches,
    offered,
)
from tests.benchmarks.work import CountingStorage, StorageWork, Work, work_of
from tests.core.harness.shell import Shell
from tests.service.harness.shell import InlineExecutor, settle, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="kernels are loops in Python with NUMBA_DISABLE_JIT=1"),
]

COUNT = 100_000
BUCKET = 50_000
WEEK = offered(Shape.WEEK, COUNT, per_ledger=BUCKET)
PARTS = batches(WEEK)


BUCKETS = 20
"""Buckets of the tests in which a week passes."""


def week_in_buckets(count: int) -> list[IndexColumns]:
    """Return so many rows over a week, each bucket's in a ledger of its own."""
    return [offered(Shape.WEEK, count // BUCKETS, per_ledger=COUNT, first_ledger=n, seed=n) for n in range(BUCKETS)]


def loaded_shell(limits: TrackerLimits, parts: list[IndexColumns]) -> Shell:
    """Return a tracker that has stored these rows, and has all of them in memory."""
    shell = Shell(TrackerCore(limits), now_ms=NOW_MS)
    for part in parts:
        shell.core.add(received(part), shell.now)
    shell.core.seal_mutable_bucket(shell.now)
    shell.perform_all()
    assert shell.core.stats().loaded_count == sum(map(len, parts))
    return shell


def within(work: object, bounds: object) -> None:
    """Fail with all counts beside their bounds."""
    too_many = [field.name for field in fields(work) if getattr(work, field.name) > getattr(bounds, field.name)]
    assert not too_many, f"{', '.join(too_many)}:\n{work} exceeds\n{bounds}"


def received(part: IndexColumns) -> IndexColumns:
    """Return separate columns, as they come out of a request."""
    return IndexColumns(part.deliver_at_ms.copy(), part.ledger_id.copy(), part.entry_id.copy())


def test_work_of_adding():
    """Adding keeps columns and bitmaps, and no object for each index."""

    def add(core: TrackerCore) -> TrackerCore:
        for part in PARTS:
            core.add(received(part), NOW)
        return core

    limits = TrackerLimits(min_index_count_per_bucket=2 * COUNT)
    within(
        work_of(lambda: TrackerCore(limits), add),
        Work(
            python_calls=7_000,
            native_calls=5_200,
            kernel_calls=0,
            lines=17_000,
            peak_objects=950,
            kept_bytes=2_730_000,
            peak_bytes=2_790_000,
        ),
    )


def test_work_of_leaping_over_removed_copies():
    """100,000 removed copies between two due positions are not skipped in pairs."""

    def sealed_and_trimmed() -> Shell:
        shell = Shell.with_limits(TrackerLimits(min_index_count_per_bucket=1, tick_ms=0))
        shell.add((5_000, 2, 0), (7_000, 2, 1))
        dead = np.zeros(COUNT, np.int64)
        shell.core.add(IndexColumns(dead + 6_000, dead + 1, np.arange(COUNT)), shell.now)
        shell.core.seal_mutable_bucket(shell.now)
        shell.perform_all()
        shell.pass_time(10_000)
        shell.core.advance_mark_delete(Position(1, COUNT), shell.now)
        return shell

    def pop(shell: Shell) -> None:
        assert shell.pop_rows(2, lease_ms=10) == [(5_000, 2, 0), (7_000, 2, 1)]

    within(
        work_of(sealed_and_trimmed, pop),
        Work(
            python_calls=1_010,
            native_calls=870,
            kernel_calls=5,
            lines=2_950,
            peak_objects=350,
            kept_bytes=12_000,
            peak_bytes=5_700_000,
        ),
    )


def test_work_of_popping_what_is_in_memory():
    """Popping in batches of 1,000 from two loaded sealed buckets keeps nothing."""
    limits = TrackerLimits(prefetch_window_ms=2 * WEEK_MS, loaded_indexes_max=2 * COUNT)

    def drain(core: TrackerCore) -> None:
        while len(core.pop_due(BATCH, ALL_DUE, lease_ms=0).indexes):
            pass
        assert len(core) == 0

    within(
        work_of(lambda: loaded_shell(limits, PARTS).core, drain),
        Work(
            python_calls=8_100,
            native_calls=5_200,
            kernel_calls=10,
            lines=18_800,
            peak_objects=450,
            kept_bytes=50_000,
            peak_bytes=5_500_000,
        ),
    )


def test_work_of_a_whole_life():
    """In a whole life, from adding to draining, the storage is read by buckets, not by segments."""

    async def life(storage: CountingStorage) -> None:
        limits = TrackerLimits(min_index_count_per_bucket=BUCKET)
        async with hosted_over(storage, limits, workers=InlineExecutor()) as tracker:
            assert await tracker.add([received(part) for part in PARTS]) == COUNT
            tracker.host.seal(tracker.epoch)
            await until(lambda: tracker.host.counters.snapshots_stored == COUNT // BUCKET)
            assert tracker.host.stats().loaded_count == 0
            tracker.clock.advance(ALL_DUE_MS - NOW_MS)
            await tracker.take(COUNT, BATCH)
            await until(lambda: tracker.host.counters.snapshots_deleted == COUNT // BUCKET)

    storages: list[CountingStorage] = []

    def prepare() -> CountingStorage:
        storages.append(CountingStorage())
        return storages[-1]

    within(
        work_of(prepare, lambda storage: asyncio.run(life(storage))),
        Work(
            python_calls=46_000,
            native_calls=28_000,
            kernel_calls=40,
            lines=131_000,
            peak_objects=7_900,
            kept_bytes=100_000,
            peak_bytes=11_800_000,
        ),
    )
    for storage in storages:
        within(
            storage.work,
            StorageWork(
                calls=20,
                segment_reads=4,
                catalogue_writes=5,
                written_bytes=2_000_000,
                read_bytes=1_620_000,
                catalogue_bytes=38_600,
            ),
        )


def test_reads_as_the_week_passes():
    """Polled each hour, twenty buckets are read by their share of what is read ahead, not once a poll.

    Of 100,000 rows 12,000 may be in memory ahead of their time, so each load takes 600 of the 5,000 in its bucket. Buckets
    that would soon be read are read with others, so that what was merged ahead is seldom disturbed.
    """
    parts = week_in_buckets(COUNT)
    due_ms = np.sort(np.concatenate([part.deliver_at_ms for part in parts]))
    limits = TrackerLimits(min_index_count_per_bucket=COUNT // BUCKETS, read_ahead_indexes=12_000)

    async def week(storage: CountingStorage) -> None:
        async with hosted_over(storage, limits, workers=InlineExecutor()) as tracker:
            assert await tracker.add([batch for part in parts for batch in batches(part)]) == COUNT
            tracker.host.seal(tracker.epoch)
            await until(lambda: tracker.host.counters.snapshots_stored == BUCKETS)
            came = 0
            while came < COUNT:
                await tracker.pass_time(HOUR_MS)
                due = int(np.searchsorted(due_ms, limits.cutoff_ms(tracker.clock.now_ms()), side="right"))
                await tracker.take(due - came, BATCH)
                came = due
                reads_after_polls.append(storage.work.segment_reads)
            await until(lambda: tracker.host.counters.snapshots_deleted == BUCKETS)

    storage = CountingStorage()
    reads_after_polls: list[int] = [0]
    asyncio.run(week(storage))
    assert storage.work.segment_reads <= BUCKETS * (5_000 // 600 + 1)
    assert len(set(reads_after_polls)) - 1 <= 20, "polls between which segments were read"


def test_work_of_popping_as_the_week_passes():
    """A poll every five minutes takes what an earlier one has merged: one of twelve touches the twenty buckets."""
    count, step_ms = 20_000, 300_000
    limits = TrackerLimits(min_index_count_per_bucket=count // BUCKETS, prefetch_window_ms=2 * WEEK_MS)
    parts = week_in_buckets(count)

    def loaded() -> Shell:
        shell = loaded_shell(limits, parts)
        poll(shell, 60)  # what is merged ahead grows to an hour
        return shell

    def poll(shell: Shell, times: int) -> None:
        for _ in range(times):
            shell.now_ms += step_ms
            while len(shell.core.pop_due(BATCH, shell.now, lease_ms=0).indexes):
                pass

    within(
        work_of(loaded, lambda shell: poll(shell, 120)),
        Work(
            python_calls=30_700,
            native_calls=20_900,
            kernel_calls=22,
            lines=77_000,
            peak_objects=450,
            kept_bytes=30_000,
            peak_bytes=60_000,
        ),
    )


async def test_jobs_of_opening_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A new tracker takes shares of a read and of two commits, and nothing of the worker threads besides."""
    count, held = 200, HeldJobs()

    def submit(threads: WorkerThreads, function: Callable[[], Any], **options: Any) -> "asyncio.Future[Any]":
        return held.submit(threads, function, **options)

    registry = TrackerRegistry(
        open_storage(f"sqlite:{tmp_path / 'tracker.db'}"),
        TrackerLimits(),
        clock=ManualClock(NOW_MS),
        workers=NoExecutor(),
        add_log=SqliteAddLog(tmp_path / "tracker.db.add-log"),
    )
    await registry.start()
    keys = [TrackerKey(f"persistent://lab/main/{number}", "opens") for number in range(count)]
    monkeypatch.setattr(WorkerThreads, "submit", submit)
    opening = asyncio.gather(*(registry.open(key, owner="me", mark_delete=None) for key in keys))
    while not opening.done():
        await settle()
        await held.run()
    await opening
    monkeypatch.undo()
    await registry.close()
    assert 0 < held.count <= count // 5


class HeldJobs:
    """Lets jobs of worker threads begin together, once the event loop has nothing else to do.

    How many requests share a job would otherwise depend on how soon the threads get a core.
    """

    def __init__(self) -> None:
        self.count = 0
        self._begun = threading.Event()
        self._outcomes: list[asyncio.Future[Any]] = []
        self._submit = WorkerThreads.submit

    def submit(self, threads: WorkerThreads, function: Callable[[], Any], **options: Any) -> "asyncio.Future[Any]":
        """Take the place of ``WorkerThreads.submit``."""
        begun = self._begun

        def held() -> Any:
            begun.wait()
            return function()

        self.count += 1
        self._outcomes.append(self._submit(threads, held, **options))
        return self._outcomes[-1]

    async def run(self) -> None:
        """Let the jobs begin that were given until now, and wait for them."""
        outcomes, self._outcomes = self._outcomes, []
        begun, self._begun = self._begun, threading.Event()
        begun.set()
        if outcomes:
            await asyncio.wait(outcomes)


class NoExecutor(Executor):
    """Refuses work: nothing may need a worker thread."""

    def submit(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("a worker thread was asked for")
