"""Questions to Pulsar's own classes, one JVM for all of them."""

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
# It runs for seconds: compiling well would take longer than it saves.
_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Row = dict[str, Any]
"""Fields under the names of tests/data/pulsar-a; ``{"refused": why}`` for what Pulsar does not read."""


class PulsarReads:
    """A running ``PulsarReads.java``, whose head says what it answers."""

    def __init__(self, process: subprocess.Popen[str], said: TextIO) -> None:
        self._process = process
        self._said = said

    def entry(self, entry: bytes) -> Row:
        """What an entry of a topic says, and the messages in it."""
        return self._ask(f"entry {_base64(entry)}")

    def compacted(self, entry: bytes) -> Row:
        """What an entry of a compacted ledger says."""
        return self._ask(f"compacted {_base64(entry)}")

    def start(self, position: Position, compacted: list[bytes]) -> int | None:
        """Where in a compacted ledger, of these entries, reading from a position on begins; None is behind its end."""
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
    """Starts the JVM, and ends it.

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
