"""Standard input as a terminal, and questions that are asked on it."""

import asyncio
import sys
from typing import TextIO

from delayed_tracker.cli.terminal.failures import BadUsage
from delayed_tracker.cli.terminal.output import notice_console, progress_shown


def keyboard() -> TextIO | None:
    """Return standard input if it is a terminal. It may be closed, and Python then has none."""
    # Typeshed does not know of a closed one.
    stdin: TextIO | None = sys.stdin
    return stdin if stdin is not None and stdin.isatty() else None


async def require_consent(question: str, *, yes: bool) -> None:
    """Ask on the terminal before something is changed; return if the answer is yes.

    The event loop goes on meanwhile, and an interrupt ends the wait.

    Args:
        question: says what is changed; names in it are printed as they are in other notices.
        yes: True if ``--yes`` was given; then nothing is asked.
    Raises:
        BadUsage: there is no terminal to ask on, or the answer is no; nothing was changed.
    """
    if yes:
        return
    terminal = keyboard()
    if not progress_shown() or terminal is None:
        raise BadUsage(f"--yes: {question}? give it to go on without a terminal; nothing was changed")
    notice_console().print(f"{question}? [y/N] ", end="", soft_wrap=True)
    if (await _typed_line(terminal)).strip().lower() not in {"y", "yes"}:
        raise BadUsage("the answer was no; nothing was changed")


async def _typed_line(terminal: TextIO) -> str:
    """Return the next line. A terminal has something to read as soon as a whole line was typed."""
    loop = asyncio.get_running_loop()
    typed = asyncio.Event()
    loop.add_reader(terminal.fileno(), typed.set)
    try:
        await typed.wait()
    finally:
        loop.remove_reader(terminal.fileno())
    return terminal.readline()
