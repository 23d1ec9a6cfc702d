"""Threads that make the shared calls of a session. A program may have thousands of sessions, most of them idle."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

IDLE_S: Final = 1.0
"""Seconds without work after which a thread ends."""


class CallThreads:
    """A few threads that run tasks in the order of their arrival; each ends when it has had none for a while."""

    def __init__(self, threads_max: int, *, name: str, idle_s: float = IDLE_S) -> None:
        self._threads_max = threads_max
        self._name = name
        self._idle_s = idle_s
        # Guards everything below; the threads wait on it.
        self._changed = threading.Condition()
        self._tasks: deque[Callable[[], None]] = deque()
        self._count = 0
        self._idle_count = 0

    def submit(self, task: Callable[[], None]) -> None:
        """Run a task, which raises nothing, in one of the threads.

        Raises:
            RuntimeError: there is no thread, and none could be started; the task is not run.
        """
        with self._changed:
            self._tasks.append(task)
            if len(self._tasks) <= self._idle_count:
                self._changed.notify()
            elif self._count < self._threads_max:
                try:
                    self._start()
                except RuntimeError:
                    if not self._count:
                        self._tasks.pop()
                        raise
                    # A thread that is at work runs it next.

    def _start(self) -> None:
        # A daemon, so that a program that does not leave its session can end.
        threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._count += 1

    def _run(self) -> None:
        while (task := self._next()) is not None:
            try:
                task()
            except BaseException:
                with self._changed:
                    self._count -= 1
                raise

    def _next(self) -> Callable[[], None] | None:
        """Return the next task; None if none came in time: then the thread ends."""
        with self._changed:
            self._idle_count += 1
            self._changed.wait_for(lambda: self._tasks, timeout=self._idle_s)
            self._idle_count -= 1
            if self._tasks:
                return self._tasks.popleft()
            self._count -= 1
            return None
