"""Programs in Java that tests share, and the time that a test has."""

import signal
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.jvm.download_time import allow_download
from tests.jvm.line_server import running_line_server

ECHO = """
import os, signal, sys
for line in sys.stdin:
    lines = [line]
    if line == "late\\n":
        os.kill(os.getppid(), signal.SIGUSR1)
        lines.append(sys.stdin.readline())
    print(*lines, sep="", end="", flush=True)
"""
"""Answers each line with the same; "late" after the next one has come."""


class TimeIsOver(Exception):
    pass


@pytest.fixture
def interruptions() -> Iterator[None]:
    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise TimeIsOver

    before = signal.signal(signal.SIGUSR1, interrupt)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("interruptions")
def test_an_answer_that_nobody_waited_for_is_not_the_next_one():
    """Timeouts interrupt a test anywhere, and the next test asks the same program."""
    with running_line_server("echo", [sys.executable, "-c", ECHO]) as program:
        assert program.ask("one") == "one\n"
        with pytest.raises(TimeIsOver):
            program.ask("late")
        assert program.ask("two") == "two\n"
        assert program.ask("three") == "three\n"


def test_a_program_that_ended_says_why():
    """With its status, and what it wrote to standard error."""
    failing = [sys.executable, "-c", "input(); raise SystemExit('no classes')"]
    with (
        running_line_server("failing", failing) as program,
        pytest.raises(AssertionError, match="failing ended with 1:\nno classes"),
    ):
        program.ask("anything")


def test_downloads_never_shorten_a_timeout(request: pytest.FixtureRequest):
    """Neither that of a test nor that of its module."""
    request.node.add_marker(pytest.mark.timeout(5_000), append=False)
    allow_download(request.node, 1_200)
    assert request.node.get_closest_marker("timeout").args == (5_000,)
    allow_download(request.node, 6_000)
    assert request.node.get_closest_marker("timeout").args == (6_000,)
