"""Measures the stages of a job, and reports each one when it begins."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Report = Callable[[str], None]
"""Called with the name of each stage when it begins."""


class StageTimer:
    """Timer of a job's stages.

    Args:
        report: called with the name of each stage; None reports nothing.
    """

    def __init__(self, report: Report | None) -> None:
        self.seconds: dict[str, float] = {}
        """Seconds by stage, in the order in which they first ended; one that runs again adds to its time."""
        self._report = report

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Report the block as a stage, and measure it, also if it raises."""
        if self._report is not None:
            self._report(name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun
