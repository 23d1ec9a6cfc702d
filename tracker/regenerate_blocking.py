"""Writes the parts of the blocking client that follow from the asyncio client, or checks that they are fresh.

Each module is the asyncio one without ``async`` and ``await``, and with a few words that differ.

python tracker/regenerate_blocking.py            write the files
python tracker/regenerate_blocking.py --check    compare only; exit 1 names every file that is stale
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CLIENT: Final = Path(__file__).resolve().parent / "delayed_tracker" / "client"
MODULES: Final = ("client", "lease", "ledgers", "offers", "session", "view")
TOKENS: Final = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\bAsync(Iterator|Iterable|Generator)\b", r"\1"),
    (r"\bdelayed_tracker\.client\.aio\b", "delayed_tracker.client.blocking"),
)
WORDS: Final = (
    (r"self\._calls\.require_loop\(\)", "self._adds.require_other_thread()"),
    (r"contextlib\.aclosing", "contextlib.closing"),
    (
        r"from collections\.abc import (.*)\n",
        r"from collections.abc import \1\nfrom concurrent.futures import Future\n",
    ),
    (r"(\n    def add_columns)", r"\n__ADD_SOON__\1"),
    (r" At most two calls of a session are in flight\.\s+Batches[^.]*\.", ""),
    (r"\n\n        Hand-offs share calls as leased polls do\.[^\n]*\n        \"\"\"", '"""'),
    (r"Small batches share requests while one is unanswered, for ``flush_delay_s`` at most\.\s+", ""),
    (r" An ack that is cancelled before it is sent is dropped\.", ""),
    (
        r"in a batch with others, and the result is its own\.",
        (
            "in a batch with those of other threads, and the result is its own.\n\n"
            "        A thread that adds several positions waits for each; with :meth:`add_soon` it does not."
        ),
    ),
    (r"The(\s+)tasks of one event loop may share it", r"Threads\1may share it"),
    ("read one by one on the event loop", "read one by one by a thread of gRPC"),
    (
        r"Programs without an event loop use ``delayed_tracker\.client\.blocking``",
        "Programs with an event loop use ``delayed_tracker.client``",
    ),
    ("One task at a time", "One thread at a time"),
)


ADD_SOON: Final = '''
    def add_soon(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> "Future[AddResult]":
        """Add one position without waiting for the result; blocks only while the buffer is full.

        Arguments, and errors of the future: as for :meth:`add`. If the future is cancelled before the position is in
        flight, the position is not sent.

        Callbacks of the future run in the thread that sends; meanwhile it sends nothing. There, this call does not
        block, and :meth:`add`, :meth:`leave`, :meth:`close` and :meth:`delete`, which wait for that thread, raise
        WrongThread.

        Raises:
            InvalidInput: a value is out of range; nothing was buffered.
            SessionClosed: this session was left or closed.
            ThreadNotStarted: the thread that sends could not be started; nothing was buffered.
        """
        self._require_open()
        return self._adds.add_soon(deliver_at_ms, ledger_id, entry_id)
'''
"""The one call that only threads need: on an event loop, a task does the same."""


def generate(module: str) -> str:
    """Return the text of a module of the blocking client."""
    text = (CLIENT / "aio" / f"{module}.py").read_text(encoding="utf-8")
    for pattern, replacement in TOKENS:
        text = re.sub(pattern, replacement, text)
    for ours, theirs in WORDS:
        text = re.sub(ours, theirs, text)
    text = text.replace("__ADD_SOON__\n", ADD_SOON.lstrip("\n"))
    header = f"# Written by `make blocking` from client/aio/{module}.py: edit that file.\n"
    return _formatted(header + text, CLIENT / "blocking" / f"{module}.py")


def _formatted(text: str, path: Path) -> str:
    for command in (("check", "--fix-only", "--unsafe-fixes", "--select=F401,I,UP", "--quiet"), ("format", "--quiet")):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(path), "-"]
        done = subprocess.run(ruff, input=text, capture_output=True, text=True, check=True)  # noqa: S603  # our own words
        text = done.stdout
    return text


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Write the blocking client from the asyncio one, or check it.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args(arguments).check
    stale = []
    for module in MODULES:
        path, text = CLIENT / "blocking" / f"{module}.py", generate(module)
        if path.read_text(encoding="utf-8") == text:
            continue
        stale.append(module)
        if check:
            sys.stderr.write(f"tracker/delayed_tracker/client/blocking/{module}.py: stale; run `make blocking`\n")
        else:
            path.write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote {path.name}\n")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
