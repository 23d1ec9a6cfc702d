"""Sends requests to Pulsar's own classes in one JVM."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from delayed_tracker.core.values.columns import Position
from tests.jvm.line_server import LineServer, running_line_server
from tests.jvm.pulsar_classes import class_path, find_java

PROGRAM: Final = Path(__file__).with_name("PulsarReads.java")
# The JVM runs only for seconds, so better compilation would cost more than it saves.
_JVM_OPTIONS: Final = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

Row = dict[str, Any]
"""Fields under the names of tests/data/pulsar-a; ``{"refused": why}`` for an entry that Pulsar does not read."""


class PulsarReads:
    """A running ``PulsarReads.java``, whose header comment describes the requests."""

    def __init__(self, program: LineServer) -> None:
        self._program = program

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
        row: Row = json.loads(self._program.ask(question))
        return row


@contextmanager
def running_pulsar_reads() -> Iterator[PulsarReads]:
    """Start the JVM, and stop it at the end.

    Raises:
        NoPulsarClasses: there is no Java, or Pulsar's classes cannot be fetched.
    """
    command = [find_java(), *_JVM_OPTIONS, "-cp", class_path(), str(PROGRAM)]
    with running_line_server(PROGRAM.name, command) as program:
        yield PulsarReads(program)


def _joined(entries: list[bytes]) -> str:
    return " ".join(map(_base64, entries))


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
