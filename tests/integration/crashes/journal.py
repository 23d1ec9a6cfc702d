"""Journal of a load client: a line before each call and one after it, with the time of the wall clock.

A call that has only the first line was not answered. Lines are in the order in which they happened, because one event
loop writes them. The client counts on an answer only after its line is written.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""``at`` (seconds since 1970), ``call`` (number), and either ``kind`` with what was sent, or ``answer``."""


class Journal:
    """Journal that is being written."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")
        self._last_call = 0

    def begin(self, kind: str, **sent: object) -> int:
        """Note that a call is about to be sent; return its number."""
        self._last_call += 1
        self._write(call=self._last_call, kind=kind, **sent)
        return self._last_call

    def answered(self, call: int, **answer: object) -> None:
        """Note the answer of a call."""
        self._write(call=call, answer=answer)

    def _write(self, **event: object) -> None:
        self._file.write(json.dumps({"at": time.time(), **event}, separators=(",", ":")) + "\n")
        self._file.flush()


def read_journal(path: Path, *, until: float | None = None) -> Iterator[Event]:
    """Yield the events of a journal up to a time, inclusive. The last line may be cut off: its writer was killed."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            if not line.endswith("\n"):
                return
            event = json.loads(line)
            if until is not None and event["at"] > until:
                return
            yield event
