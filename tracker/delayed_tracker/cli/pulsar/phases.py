"""Shows the progress of work in several phases, of which a terminal has room for one bar at a time."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from delayed_tracker.cli.terminal.output import progress
from delayed_tracker.ledger.progress import Progress


class Phases:
    """Bars of phases that follow each other; a context manager. The first step of a phase ends the bar of the one before."""

    def __init__(self) -> None:
        self._bar = ExitStack()
        self._titles: tuple[str, str] | None = None
        self._show: Progress = lambda _done, _total: None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """End the bar that is shown, before something else is printed; the next step begins another."""
        self._bar.close()
        self._titles = None

    def phase(self, title: str, unit: str) -> Progress:
        """Return what is called with the steps of one phase that are done, and all; the unit is that of a step."""

        def show(done: int, total: int) -> None:
            if self._titles != (title, unit):
                self._bar.close()
                self._show = self._bar.enter_context(progress(title, unit))
                self._titles = (title, unit)
            self._show(done, total)

        return show
