"""Tests of jobs that share a turn of a thread: one commit, each job's own error, and the order of all."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, StorageUnavailable
from delayed_tracker.storage.sqlite.schema import SNAPSHOTS_SCHEMA
from delayed_tracker.storage.sqlite.threads import SqliteThreads, transaction


class Opened:
    """An open file with a table of numbers, the statements of its writer, and the jobs of its one reader in their order."""

    def __init__(self, threads):
        self.threads = threads
        self.statements = []
        self.order = []
        self.passing = threading.Event()

    def commits(self):
        return self.statements.count("COMMIT")

    async def hold(self, run):
        """Keep the thread of ``run`` busy until ``passing`` is set; return the task."""
        begun = threading.Event()

        def wait(_connection):
            begun.set()
            self.passing.wait()

        task = asyncio.ensure_future(run(wait))
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
                return passed(number, fail)

        return asyncio.ensure_future((self.threads.write if alone else self.threads.write_together)(job))

    def look(self, name, *, fail=None, alone=False):
        """Begin to read, and return the task."""

        def job(_connection):
            self.order.append(name)
            return passed(name, fail)

        return asyncio.ensure_future((self.threads.read if alone else self.threads.read_together)(job))


def passed(result, fail):
    """Return the result of a job that is not to fail."""
    if fail is not None:
        raise fail
    return result


@asynccontextmanager
async def opened(tmp_path):
    threads = SqliteThreads(tmp_path / "t.db", SNAPSHOTS_SCHEMA, reader_count=1)
    found = Opened(threads)

    def prepare(connection):
        connection.execute("CREATE TABLE numbers (n INTEGER)")
        connection.set_trace_callback(found.statements.append)

    await threads.open(prepare)
    try:
        yield found
    finally:
        found.passing.set()
        await threads.close()


async def settled(tasks):
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_jobs_that_wait_for_the_writer_share_a_commit(tmp_path):
    """At most 64 of them."""
    async with opened(tmp_path) as w:
        held = await w.hold(w.threads.write)
        tasks = await settled([w.note(number) for number in range(100)])
        w.passing.set()
        assert await asyncio.gather(held, *tasks) == [None, *range(100)]
        assert w.commits() == 2
        assert await w.numbers() == [*range(100)]


async def test_a_job_alone_is_committed_alone(tmp_path):
    async with opened(tmp_path) as w:
        assert [await w.note(number) for number in range(3)] == [0, 1, 2]
        assert w.commits() == 3


async def test_a_job_that_fails_fails_alone(tmp_path):
    """All others are written, each once, and only that one raises."""
    async with opened(tmp_path) as w:
        held = await w.hold(w.threads.write)
        conflict = SnapshotConflict("epoch 3 is older than 4")
        tasks = [w.note(number, fail=conflict if number == 2 else None) for number in range(5)]
        await settled(tasks)
        w.passing.set()
        await held
        assert await asyncio.gather(*tasks, return_exceptions=True) == [0, 1, conflict, 3, 4]
        assert sorted(await w.numbers()) == [0, 1, 3, 4]


async def test_no_job_overtakes_an_earlier_one(tmp_path):
    """A job that is given after one that is committed alone does not join those before that."""
    async with opened(tmp_path) as w:
        held = await w.hold(w.threads.write)
        tasks = []
        for number in range(6):
            tasks.append(w.note(number, alone=number == 3))
            await settled(tasks)
        w.passing.set()
        assert await asyncio.gather(held, *tasks) == [None, *range(6)]
        assert await w.numbers() == [*range(6)]
        assert w.commits() == 3


async def test_a_caller_that_goes_away_takes_nobody_along(tmp_path):
    async with opened(tmp_path) as w:
        held = await w.hold(w.threads.write)
        tasks = await settled([w.note(number) for number in range(3)])
        tasks[1].cancel()
        await settled(tasks)
        w.passing.set()
        assert await asyncio.gather(held, tasks[0], tasks[2]) == [None, 0, 2]
        assert await w.numbers() == [0, 1, 2]


async def test_a_file_that_was_removed_fails_all(tmp_path):
    async with opened(tmp_path) as w:
        held = await w.hold(w.threads.write)
        tasks = await settled([w.note(number) for number in range(3)])
        (tmp_path / "t.db").unlink()
        w.passing.set()
        await held
        for task in tasks:
            with pytest.raises(StorageUnavailable, match="removed or replaced"):
                await task


async def test_reads_that_wait_for_a_reader_share_its_turn(tmp_path):
    """A later one joins the turn that waits, also before a read that has a turn of its own."""
    async with opened(tmp_path) as r:
        held = await r.hold(r.threads.read)
        tasks = await settled([r.look("first"), r.look("alone", alone=True), r.look("second")])
        r.passing.set()
        assert await asyncio.gather(held, *tasks) == [None, "first", "alone", "second"]
        assert r.order == ["first", "second", "alone"]


async def test_a_turn_of_a_reader_has_64_jobs_at_most(tmp_path):
    async with opened(tmp_path) as r:
        held = await r.hold(r.threads.read)
        tasks = await settled([r.look(0), r.look("alone", alone=True), *map(r.look, range(1, 70))])
        r.passing.set()
        assert await asyncio.gather(held, *tasks) == [None, 0, "alone", *range(1, 70)]
        assert r.order == [*range(64), "alone", *range(64, 70)]


async def test_a_read_that_fails_fails_alone(tmp_path):
    """A caller that has gone away changes nothing for the others."""
    async with opened(tmp_path) as r:
        held = await r.hold(r.threads.read)
        damaged = SnapshotCorrupt("page 3 fails its checksum")
        tasks = await settled([r.look(number, fail=damaged if number == 2 else None) for number in range(4)])
        tasks[1].cancel()
        await settled(tasks)
        r.passing.set()
        await held
        assert await asyncio.gather(tasks[0], *tasks[2:], return_exceptions=True) == [0, damaged, 3]
        assert r.order[:3] == [0, 1, 2]
        assert sorted(r.order[3:]) == [0, 2, 3]
