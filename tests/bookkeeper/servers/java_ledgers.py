"""Sends requests to BookKeeper's own client in one JVM."""

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bookkeeper.servers.server_process import java_command
from tests.jvm.line_server import LineServer, running_line_server

PROGRAM: Final = Path(__file__).with_name("JavaLedgers.java")
BOOKIE_SEEN_TIMEOUT_S: Final = 60.0
"""Time within which Java's client must see a bookie that has registered."""

Answer = dict[str, Any]


class JavaFailed(Exception):
    """BookKeeper's client raised an exception; ``name`` is its class."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class JavaLedgers:
    """A running ``JavaLedgers.java``, whose header comment describes the requests."""

    def __init__(self, program: LineServer) -> None:
        self._program = program

    def create(
        self,
        uri: str,
        *,
        ensemble: int = 1,
        write_quorum: int = 1,
        ack_quorum: int = 1,
        digest: str = "CRC32C",
        password: bytes = b"",
        custom: Mapping[str, bytes] | None = None,
        seen_within_s: float = BOOKIE_SEEN_TIMEOUT_S,
    ) -> int:
        """Create a ledger, and return its id. ``digest`` is a name of Java: CRC32, CRC32C, MAC or DUMMY."""
        answer = self._ask_until_seen(
            "BKNotEnoughBookiesException",
            seen_within_s,
            uri,
            "create",
            ensemble=ensemble,
            writeQuorum=write_quorum,
            ackQuorum=ack_quorum,
            digest=digest,
            password=_base64(password),
            custom={key: _base64(value) for key, value in (custom or {}).items()},
        )
        return int(answer["ledger"])

    def add(self, uri: str, ledger_id: int, payloads: Sequence[bytes]) -> int:
        """Add entries, wait until all are acknowledged, and return the id of the last one."""
        return int(self.ask(uri, "add", ledger=ledger_id, payloads=[*map(_base64, payloads)])["entry"])

    def close(self, uri: str, ledger_id: int) -> Answer:
        """Close a ledger that was created here, and return its ``last`` entry and ``length``."""
        return self.ask(uri, "close", ledger=ledger_id)

    def open(
        self, uri: str, ledger_id: int, *, recover: bool = False, digest: str = "CRC32C", password: bytes = b""
    ) -> Answer:
        """Open a ledger, and return its ``last`` entry, ``length`` and ``closed``."""
        return self.ask(uri, "open", ledger=ledger_id, recover=recover, digest=digest, password=_base64(password))

    def read(self, uri: str, ledger_id: int, first: int, last: int) -> list[bytes]:
        """Return the payloads of entries of a ledger that was created or opened here."""
        answer = self._ask_until_seen(
            "BKBookieHandleNotAvailableException",
            BOOKIE_SEEN_TIMEOUT_S,
            uri,
            "read",
            ledger=ledger_id,
            first=first,
            last=last,
        )
        return [base64.b64decode(payload) for payload in answer["payloads"]]

    def delete(self, uri: str, ledger_id: int) -> None:
        """Delete a ledger."""
        self.ask(uri, "delete", ledger=ledger_id)

    def write(self, uri: str, ledger_id: int, *, size: int, count: int) -> int:
        """Add entries of a size, as many at a time as a writer of ours, and return the nanoseconds until the last answer."""
        return int(self.ask(uri, "write", ledger=ledger_id, size=size, count=count)["ns"])

    def scan(self, uri: str, ledger_id: int, *, size: int, count: int) -> int:
        """Read what :meth:`write` has added, as far ahead as a reader of ours, and return the nanoseconds."""
        return int(self.ask(uri, "scan", ledger=ledger_id, size=size, count=count)["ns"])

    def describe(self, ledger_id: int, value: bytes) -> Answer:
        """Return the fields of a stored value of metadata, as Java parses it; bytes are decoded."""
        answer = self.ask("", "describe", ledger=ledger_id, value=_base64(value))
        answer["password"] = base64.b64decode(answer["password"])
        answer["custom"] = {key: base64.b64decode(custom) for key, custom in answer["custom"].items()}
        return answer

    def _ask_until_seen(self, refusal: str, within_s: float, uri: str, do: str, **fields: Any) -> Answer:
        """Ask again while the client refuses with this error: it learns by a watch of ZooKeeper that a bookie is there."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                return self.ask(uri, do, **fields)
            except JavaFailed as failed:
                if failed.name != refusal or time.monotonic() > deadline:
                    raise

    def ask(self, uri: str, do: str, **fields: Any) -> Answer:
        """Send one request, and return the answer.

        Raises:
            JavaFailed: BookKeeper's client raised an exception.
        """
        answer: Answer = json.loads(self._program.ask(json.dumps({"do": do, "uri": uri, **fields})))
        if "error" in answer:
            raise JavaFailed(answer["error"], answer["message"])
        return answer


@contextmanager
def running_java_ledgers(options: Sequence[str] = ("-Xmx512m",)) -> Iterator[JavaLedgers]:
    """Start the JVM, and stop it at the end.

    Args:
        options: of the JVM, after those of the servers.
    Raises:
        NoPulsarClasses: there is no Java, or BookKeeper's classes cannot be fetched.
    """
    with running_line_server(PROGRAM.name, java_command(options, [str(PROGRAM)])) as program:
        yield JavaLedgers(program)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
