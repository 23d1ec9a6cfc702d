"""Threads that the system refuses, as at a limit of a process or at the end of Python."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_new_threads() -> Iterator[None]:
    """Let every start of a thread fail in the block, as CPython does at the limit of threads."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield
