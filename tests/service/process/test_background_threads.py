"""Threads for work that no caller waits for."""

import errno
import os
import sys
import threading

import pytest

from delayed_tracker.service.process.background_threads import NICENESS, background_threads


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives each thread a niceness of its own")
def test_workers_give_way_and_nobody_else_does():
    """The threads of the pool are nicer than the thread that made it, which keeps its own niceness."""

    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    with background_threads(2) as workers:
        assert workers.submit(niceness).result() == min(19, before + NICENESS)
    assert niceness() == before


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives each thread a niceness of its own")
def test_workers_work_where_their_priority_may_not_be_set(monkeypatch):
    """A filter of system calls refuses it, as that of a unit of systemd does."""

    def refused(*_: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "setpriority", refused)
    with background_threads(1) as workers:
        assert workers.submit(sum, (1, 2)).result() == 3
