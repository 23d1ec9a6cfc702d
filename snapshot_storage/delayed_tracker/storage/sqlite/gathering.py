"""Jobs that share one turn of a thread. Handing a small job to a thread and back takes longer than the job itself."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple, TypeVar, cast

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.storage.worker_threads import WorkerThreads

T = TypeVar("T")
Job = Callable[[sqlite3.Connection], T]
TOGETHER_MAX: Final = 64
"""Jobs of one turn: some milliseconds of the thread."""


class _Turn(NamedTuple):
    """Jobs that wait for the same turn."""

    jobs: list[Job[object]]
    results: "asyncio.Future[list[object] | None]"


class Gathering:
    """Jobs that wait for a thread, up to ``TOGETHER_MAX`` for one turn of it.

    Args:
        threads: run the turns.
        perform: runs one job on a connection; called by the threads.
        block: around the jobs of one turn, if they are several.
    """

    def __init__(
        self,
        threads: WorkerThreads,
        perform: Callable[[Job[list[object]]], list[object]],
        block: Callable[[sqlite3.Connection], contextlib.AbstractContextManager[object]],
    ) -> None:
        self._threads = threads
        self._perform = perform
        self._block = block
        self._lock = threading.Lock()
        self._waiting: _Turn | None = None

    async def run(self, job: Job[T], *, alone: Callable[[Job[T]], Awaitable[T]]) -> T:
        """Return the result of a job, which runs even if the caller is cancelled.

        If one job of a turn fails, each runs again with ``alone``, unless its caller was cancelled.
        """
        with self._lock:
            turn = self._waiting
            if turn is None or len(turn.jobs) >= TOGETHER_MAX:
                jobs: list[Job[object]] = []
                turn = self._waiting = _Turn(jobs, self._threads.submit(partial(self._run, jobs), runs_anyway=True))
            place = len(turn.jobs)
            turn.jobs.append(job)
        results = await asyncio.shield(turn.results)
        return await alone(job) if results is None else cast("T", results[place])

    def keep_order(self) -> None:
        """Let later jobs wait for another turn, so that they do not overtake what is given to the thread now."""
        with self._lock:
            self._waiting = None

    def _run(self, jobs: list[Job[object]]) -> list[object] | None:
        """Return the results of a turn; None if one of several jobs failed, so that each has to run alone."""
        with self._lock:
            if self._waiting is not None and self._waiting.jobs is jobs:
                self._waiting = None
        if len(jobs) == 1:
            return self._perform(lambda connection: [jobs[0](connection)])

        def run_all(connection: sqlite3.Connection) -> list[object]:
            with self._block(connection):
                return [job(connection) for job in jobs]

        # The job that has the error raises it again when it runs alone.
        with contextlib.suppress(DelayedTrackerError, sqlite3.Error):
            return self._perform(run_all)
        return None
