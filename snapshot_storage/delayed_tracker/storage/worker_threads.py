"""Threads for work that would block the event loop, at a fifth of the cost of the standard executor.

A small read of a storage takes 20 us, and as much again for each step that an executor's future needs to reach the loop's: a
condition, a chained future, and a wake-up of the loop for each outcome. Here the loop is woken once for all outcomes that
are there by then.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

from delayed_tracker.storage.errors import StorageUnavailable

T = TypeVar("T")


class _Job(NamedTuple):
    function: Callable[[], Any]
    outcome: "asyncio.Future[Any]"
    outcomes: "_Outcomes"
    runs_anyway: bool


class _Done(NamedTuple):
    outcome: "asyncio.Future[Any]"
    result: Any
    error: BaseException | None


class WorkerThreads:
    """Threads that run functions in the order in which they were given.

    Args:
        count: threads, from 1. They start with the first function.
        name: of the threads, before their number.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._outcomes: _Outcomes | None = None
        self._is_shut_down = False

    def submit(self, function: Callable[[], T], *, runs_anyway: bool = False) -> "asyncio.Future[T]":
        """Return the future outcome of a function, which belongs to the running loop.

        Args:
            function: called without arguments, in one of the threads.
            runs_anyway: True to run it even if the future is cancelled before it begins.

        Raises:
            StorageUnavailable: no thread could be started, so the function does not run.
        """
        assert not self._is_shut_down
        loop = asyncio.get_running_loop()
        if len(self._threads) < self._count:
            self._start_one()
        if self._outcomes is None or self._outcomes.loop is not loop:
            self._outcomes = _Outcomes(loop)
        outcome: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(function, outcome, self._outcomes, runs_anyway))
        return outcome

    def _start_one(self) -> None:
        # They hold no lock that outlives them, so a program that ends without a shutdown need not wait.
        thread = threading.Thread(target=self._work, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if self._threads:  # fewer do the work, until another can be started
                return
            raise StorageUnavailable(
                f"no thread {thread.name!r} could be started: the process, its user or its container has as many as it may "
                "have; raise that limit"
            ) from error
        self._threads.append(thread)

    def shutdown(self) -> None:
        """Finish the functions that were given, and end. Blocks; no function may be given any more."""
        self._is_shut_down = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.runs_anyway or not job.outcome.cancelled():
                job.outcomes.put(_run(job))
            del job  # or it would keep the outcome until the next one


def _run(job: _Job) -> _Done:
    try:
        return _Done(job.outcome, job.function(), None)
    except BaseException as error:  # noqa: BLE001  # raised again by whoever waits for the outcome
        return _Done(job.outcome, None, error)


class _Outcomes:
    """Outcomes on their way to the loop that waits for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._done: list[_Done] = []

    def put(self, done: _Done) -> None:
        """Give an outcome to the loop; called by a thread."""
        with self._lock:
            self._done.append(done)
            is_first = len(self._done) == 1
        if is_first:
            try:
                self.loop.call_soon_threadsafe(self._hand_over)
            except RuntimeError:  # the loop was closed, and nobody waits any more
                with self._lock:
                    self._done.clear()

    def _hand_over(self) -> None:
        with self._lock:
            done, self._done = self._done, []
        for outcome, result, error in done:
            if outcome.done():  # its caller was cancelled
                continue
            if error is None:
                outcome.set_result(result)
            else:
                outcome.set_exception(error)
