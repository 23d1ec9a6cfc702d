"""Tests of jobs that are committed together: one commit, each job's own error, and the order of all."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.sqlite.schema import SNAPSHOTS_SCHEMA
from delayed_tracker.storage.sqlite.threads import SqliteThreads, transaction


class Writer:
    """An open file with a table of numbers, and the statements that were executed."""

    def __init__(self, threads):
        self.threads = threads
        self.statements = []
        self.passing = threading.Event()

    def commits(self):
        return self.statements.count("COMMIT")

    async def hold(self):
        """Keep the writer busy until ``passing`` is set; return the task."""
        begun = threading.Event()

        def wait(_connection):
            begun.set()
            self.passing.wait()

        task = asyncio.ensure_future(self.threads.write(wait))
        await asyncio.to_thread(begun.wait)
        return task

    async def numbers(self):
        rows = await self.threads.read(lambda connection: connection.execute("SELECT n FROM numbers").fetchall())
        return [number for (number,) in rows]

    def note(self, number, *, fail=None, alone=False):
        """Begin to write a number, and return the task."""

        def job(connection):
            with transaction(connection):
                connection.execute("INSERT INTO numbers VALUES (?)", (number,))
                if fail is not None:
                    raise fail
            return number

        write = self.threads.write if alone else self.threads.write_together
        return asyncio.ensure_future(write(job))


@asynccontextmanager
async def writer(tmp_path):
    threads = SqliteThreads(tmp_path / "t.db", SNAPSHOTS_SCHEMA, reader_count=1)
    opened = Writer(threads)

    def prepare(connection):
        connection.execute("CREATE TABLE numbers (n INTEGER)")
        connection.set_trace_callback(opened.statements.append)

    await threads.open(prepare)
    try:
        yield opened
    finally:
        await threads.close()


async def settled(tasks):
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_jobs_that_wait_for_the_writer_share_a_commit(tmp_path):
    """At most 64 of them."""
    async with writer(tmp_path) as w:
        held = await w.hold()
        tasks = await settled([w.note(number) for number in range(100)])
        w.passing.set()
        assert await asyncio.gather(held, *tasks) == [None, *range(100)]
        assert w.commits() == 2
        assert await w.numbers() == [*range(100)]


async def test_a_job_alone_is_committed_alone(tmp_path):
    async with writer(tmp_path) as w:
        assert [await w.note(number) for number in range(3)] == [0, 1, 2]
        assert w.commits() == 3


async def test_a_job_that_fails_fails_alone(tmp_path):
    """All others are written, each once, and only that one raises."""
    async with writer(tmp_path) as w:
        held = await w.hold()
        conflict = SnapshotConflict("epoch 3 is older than 4")
        tasks = [w.note(number, fail=conflict if number == 2 else None) for number in range(5)]
        await settled(tasks)
        w.passing.set()
        await held
        assert await asyncio.gather(*tasks, return_exceptions=True) == [0, 1, conflict, 3, 4]
        assert sorted(await w.numbers()) == [0, 1, 3, 4]


async def test_no_job_overtakes_an_earlier_one(tmp_path):
    """A job that is given after one that is committed alone does not join those before that."""
    async with writer(tmp_path) as w:
        held = await w.hold()
        tasks = []
        for number in range(6):
            tasks.append(w.note(number, alone=number == 3))
            await settled(tasks)
        w.passing.set()
        assert await asyncio.gather(held, *tasks) == [None, *range(6)]
        assert await w.numbers() == [*range(6)]
        assert w.commits() == 3


async def test_a_caller_that_goes_away_takes_nobody_along(tmp_path):
    async with writer(tmp_path) as w:
        held = await w.hold()
        tasks = await settled([w.note(number) for number in range(3)])
        tasks[1].cancel()
        await settled(tasks)
        w.passing.set()
        assert await asyncio.gather(held, tasks[0], tasks[2]) == [None, 0, 2]
        assert await w.numbers() == [0, 1, 2]


async def test_a_file_that_was_removed_fails_all(tmp_path):
    async with writer(tmp_path) as w:
        held = await w.hold()
        tasks = await settled([w.note(number) for number in range(3)])
        (tmp_path / "t.db").unlink()
        w.passing.set()
        await held
        for task in tasks:
            with pytest.raises(StorageUnavailable, match="removed or replaced"):
                await task
