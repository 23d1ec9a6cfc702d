"""Jobs that share one turn of a thread. Handing a small job to a thread and back takes longer than the job itself."""

import asyncio
import threading
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar

Job = TypeVar("Job")
Outcome = TypeVar("Outcome")

TOGETHER_MAX: Final = 64
"""Jobs of one turn: some milliseconds of the thread."""


class _Waiting(NamedTuple, Generic[Job, Outcome]):
    """Jobs that wait for the same turn."""

    jobs: list[Job]
    outcome: "asyncio.Future[Outcome]"


class Gathering(Generic[Job, Outcome]):
    """Jobs that wait for a thread, up to ``TOGETHER_MAX`` for one turn of it.

    Args:
        submit: gives a list of jobs to the thread, and returns the outcome of the turn. The list may grow until the thread
            calls :meth:`begin` with it.
    """

    def __init__(self, submit: Callable[[list[Job]], "asyncio.Future[Outcome]"]) -> None:
        self._submit = submit
        self._lock = threading.Lock()
        self._waiting: _Waiting[Job, Outcome] | None = None

    async def run(self, job: Job) -> tuple[Outcome, int]:
        """Return the outcome of the turn in which a job has run, and the job's place in it.

        The job runs even if the caller is cancelled.
        """
        with self._lock:
            waiting = self._waiting
            if waiting is None or len(waiting.jobs) >= TOGETHER_MAX:
                jobs: list[Job] = []
                waiting = self._waiting = _Waiting(jobs, self._submit(jobs))
            place = len(waiting.jobs)
            waiting.jobs.append(job)
        return await asyncio.shield(waiting.outcome), place

    def begin(self, jobs: list[Job]) -> None:
        """Let later jobs wait for another turn: this one begins. Called by the thread."""
        with self._lock:
            if self._waiting is not None and self._waiting.jobs is jobs:
                self._waiting = None

    def keep_order(self) -> None:
        """Let later jobs wait for another turn, so that they do not overtake what is given to the thread now."""
        with self._lock:
            self._waiting = None
