"""A program that answers each line of its input with a line, as those in Java do that tests ask."""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO


class LineServer:
    """A running program; only one thread may ask it."""

    def __init__(self, name: str, process: subprocess.Popen[str], said: TextIO) -> None:
        self._name = name
        self._process = process
        self._said = said
        self._asked = self._answered = 0

    def ask(self, request: str) -> str:
        """Send a request, and return its answer; both are a line.

        Raises:
            AssertionError: the program has ended; with what it said.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asked += 1
        self._process.stdin.write(request + "\n")
        self._process.stdin.flush()
        # A test whose time was over has left an answer that is not this one's.
        while self._answered < self._asked:
            answer = self._process.stdout.readline()
            if not answer:
                self._process.wait()
                self._said.seek(0)
                raise AssertionError(f"{self._name} ended with {self._process.returncode}:\n{self._said.read()}")
            self._answered += 1
        return answer


@contextmanager
def running_line_server(name: str, command: Sequence[str]) -> Iterator[LineServer]:
    """Start a program, and close its input at the end, which ends it."""
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as said,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, encoding="utf-8") as process,
    ):
        yield LineServer(name, process, said)
