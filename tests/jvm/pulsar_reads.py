"""Sends requests to Pulsar's own classes in one JVM."""

import base64
import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from delayed_tracker.core.values.columns import Position
from tests.jvm.pulsar_classes import class_path, find_java

PROGRAM: Final = Path(__file__).with_name("PulsarReads.java")
# The JVM runs only for seconds, so better compilation would cost more than it saves.
_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Row = dict[str, Any]
"""Fields under the names of tests/data/pulsar-a; ``{"refused": why}`` for an entry that Pulsar does not read."""


class PulsarReads:
    """A running ``PulsarReads.java``, whose header comment describes the requests."""

    def __init__(self, process: subprocess.Popen[str], said: TextIO) -> None:
        self._process = process
        self._said = said

    def entry(self, entry: bytes) -> Row:
        """Return the content of a topic's entry, with its messages."""
        return self._ask(f"entry {_base64(entry)}")

    def compacted(self, entry: bytes) -> Row:
        """Return the content of an entry of a compacted ledger."""
        return self._ask(f"compacted {_base64(entry)}")

    def start(self, position: Position, compacted: list[bytes]) -> int | None:
        """Return the index in a compacted ledger at which reading from a position begins; None if behind its end."""
        place: int | None = self._ask(f"start {position.ledger_id} {position.entry_id} {_joined(compacted)}")["place"]
        return place

    def _ask(self, question: str) -> Row:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(question + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            self._process.wait()
            self._said.seek(0)
            raise AssertionError(f"{PROGRAM.name} ended with {self._process.returncode}:\n{self._said.read()}")
        row: Row = json.loads(answer)
        return row


@contextmanager
def running_pulsar_reads() -> Iterator[PulsarReads]:
    """Start the JVM, and stop it at the end.

    Raises:
        NoPulsarClasses: there is no Java, or Pulsar's classes cannot be fetched.
    """
    command = [find_java(), *_JVM_OPTIONS, "-cp", class_path(), str(PROGRAM)]
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as said,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=said, encoding="utf-8") as process,
    ):
        yield PulsarReads(process, said)


def _joined(entries: list[bytes]) -> str:
    return " ".join(map(_base64, entries))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
