"""Questions on a terminal: what is an answer, what ends the wait, and what happens without a terminal."""

import asyncio
import os
import pty
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from delayed_tracker.cli.terminal.keyboard import require_consent

ASK = """
import asyncio
from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.cli.terminal.keyboard import require_consent
try:
    asyncio.run(require_consent("delete 57 trackers", yes=False))
except BadUsage as error:
    print(error.message, flush=True)
except KeyboardInterrupt:
    print("interrupted", flush=True)
else:
    print("deleted", flush=True)
"""


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[Process, int]]:
    """Yield a process that has asked on a terminal, and the terminal's other end."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", ASK, stdin=theirs, stderr=theirs, stdout=PIPE, start_new_session=True
    )
    os.close(theirs)
    try:
        shown = b""
        while not shown.endswith(b"[y/N] "):
            shown += await asyncio.to_thread(os.read, ours, 1_000)
        yield process, ours
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        os.close(ours)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (b"y\n", "deleted"),
        (b"YES \n", "deleted"),
        (b"\n", "the answer was no; nothing was changed"),
        (b"yess\n", "the answer was no; nothing was changed"),
        (b"\x04", "the answer was no; nothing was changed"),
    ],
)
async def test_only_yes_is_consent(typed: bytes, said: str):
    """A line that is not yes, and the end of the input, are a no."""
    async with asking() as (process, terminal):
        os.write(terminal, typed)
        answer, _ = await process.communicate()
    assert answer.decode().strip() == said


async def test_an_interrupt_ends_the_wait():
    """Ctrl-C at the question ends the command, without a further key."""
    async with asking() as (process, _terminal):
        process.send_signal(signal.SIGINT)
        answer, _ = await process.communicate()
    assert answer.decode().strip() == "interrupted"


@pytest.mark.parametrize("stdin", ["closed", "null"])
async def test_without_a_terminal_the_option_is_asked_for(stdin: str):
    """A script gets an error that names the option, also if it has closed standard input."""
    closing = "import os, sys; sys.stdin = None\n" if stdin == "closed" else ""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", closing + ASK, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    answer, complaints = await process.communicate()
    assert answer.decode().startswith("--yes: delete 57 trackers? give it to go on without a terminal")
    assert complaints == b""


async def test_yes_asks_nothing():
    """With the option there is no question."""
    await require_consent("delete 57 trackers", yes=True)
