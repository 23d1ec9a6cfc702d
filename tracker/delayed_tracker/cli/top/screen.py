"""Live screen of ``top``: refreshes it, reads keys, and restores the terminal."""

import asyncio
import os
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from delayed_tracker.cli.terminal.keyboard import keyboard
from delayed_tracker.cli.top.drawing import HEAD_LINES, drawn
from delayed_tracker.cli.top.rows import Sort, View
from delayed_tracker.cli.top.watch import Watch
from delayed_tracker.client import Unavailable

_SORT_OF_KEY = {sort[0]: sort for sort in Sort}
_KEYS_AT_ONCE = 64


class LiveScreen:
    """Screen that shows one view after the other on the terminal's alternate screen."""

    def __init__(self, watch: Watch, console: Console, *, sort: Sort, row_max: int | None) -> None:
        self._watch = watch
        self._console = console
        self._sort = sort
        self._row_max = row_max
        self._again = asyncio.Event()
        """Set to refresh before the interval is over."""
        self._view: View | None = None

    async def run(self, interval_s: float, count: int | None) -> None:
        """Refresh every ``interval_s`` until q, Ctrl-C, SIGTERM, or ``count`` refreshes.

        The terminal is always restored at the end.
        """
        live = Live(console=self._console, screen=True, auto_refresh=False)
        with live:
            looking = asyncio.create_task(self._keep_looking(live, interval_s, count))
            try:
                with (
                    _pressed_keys(lambda key: self._pressed(key, looking)),
                    _signals(looking.cancel, self._again.set),
                    # A key or a signal ends the task by cancelling it.
                    suppress(asyncio.CancelledError),
                ):
                    await looking
            finally:
                looking.cancel()

    async def _keep_looking(self, live: Live, interval_s: float, count: int | None) -> None:
        looked = 0
        while count is None or looked < count:
            if looked:
                with suppress(TimeoutError):
                    async with asyncio.timeout(interval_s):
                        await self._again.wait()
                self._again.clear()
            looked += 1
            trouble = ""
            room = max(self._console.height - HEAD_LINES, 1)
            try:
                self._view = await self._watch.look(min(room, self._row_max or room), self._sort)
            except Unavailable as error:
                trouble = f"{error.message}; trying again every {interval_s:g} s"
            live.update(self._drawn(trouble), refresh=True)

    def _drawn(self, trouble: str) -> Text | Group:
        if self._view is None:
            return Text(trouble, "bold red")
        return drawn(self._view, width=self._console.width, sort=self._sort, trouble=trouble)

    def _pressed(self, key: str, looking: "asyncio.Task[None]") -> None:
        if key == "q":
            looking.cancel()
        elif key in _SORT_OF_KEY:
            self._sort = _SORT_OF_KEY[key]
            self._again.set()


@contextmanager
def _pressed_keys(pressed: Callable[[str], object]) -> Iterator[None]:
    """Call ``pressed`` with each key, and echo none. Without a terminal on stdin there are no keys."""
    terminal = keyboard()
    if terminal is None:
        yield
        return
    typed_at = terminal.fileno()
    as_it_was = termios.tcgetattr(typed_at)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            typed = os.read(typed_at, _KEYS_AT_ONCE)
        except OSError:
            typed = b""
        if not typed:
            # The terminal is closed: treated like q.
            loop.remove_reader(typed_at)
            typed = b"q"
        for key in typed.decode("ascii", "replace"):
            pressed(key)

    tty.setcbreak(typed_at)
    loop.add_reader(typed_at, read)
    try:
        yield
    finally:
        loop.remove_reader(typed_at)
        termios.tcsetattr(typed_at, termios.TCSADRAIN, as_it_was)


@contextmanager
def _signals(end: Callable[[], object], resized: Callable[[], object]) -> Iterator[None]:
    """Call ``end`` after SIGINT, SIGTERM or SIGHUP, and ``resized`` when the terminal changes its size."""
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: end, signal.SIGTERM: end, signal.SIGHUP: end, signal.SIGWINCH: resized}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)
