"""Measuring: a warm-up, several repeats, wall and processor time, peak memory, verified output."""

import gc
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from tests.benchmarks.goals import Peer
from tests.benchmarks.inputs.scale import Scale
from tests.benchmarks.machine import ProcessMeter

State = TypeVar("State")


class WrongOutput(Exception):
    """Raised if the measured code gave wrong output, so that its time means nothing."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Result of one repeat."""

    wall_ns: int
    cpu_ns: int
    """Processor time of all threads of all measured processes, in nanoseconds."""
    peak_bytes: int
    """Peak bytes of the measured process above its memory at the start."""


class Stopwatch:
    """Meter of the work inside a ``with``; :attr:`reading` is the result.

    Args:
        served_by: the process that does the work. Memory is its own; processor time is its and this process's. None is
            this process.
    """

    def __init__(self, served_by: int | None = None) -> None:
        self._server = ProcessMeter(served_by or os.getpid())
        self._is_remote = served_by is not None

    def __enter__(self) -> Self:
        gc.collect()
        self._resident = self._server.reset_peak()
        self._server_cpu_ns = self._server.cpu_ns if self._is_remote else 0
        self._cpu_ns = time.process_time_ns()
        self._started_ns = time.perf_counter_ns()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall_ns = time.perf_counter_ns() - self._started_ns
        cpu_ns = time.process_time_ns() - self._cpu_ns
        if self._is_remote:
            cpu_ns += self._server.cpu_ns - self._server_cpu_ns
        self.reading = Reading(wall_ns, cpu_ns, max(0, self._server.peak_bytes - self._resident))


@dataclass(slots=True)
class Run:
    """One run of benchmarks: its scale, its directory, and its progress messages."""

    scale: Scale
    directory: Path
    """On the disk to be measured; its creator empties it."""
    with_peers: bool = False
    """True if other systems are started and measured, too."""
    java_bench: Path | None = None
    """The harness around Pulsar's own trackers, if available."""
    peers: dict[str, Peer] = field(default_factory=dict)
    """Numbers of peers in this run, by key of ``goals.py``."""
    skipped: list[str] = field(default_factory=list)
    """Measurements that were skipped, with reasons."""
    _directory_count: int = 0

    def note(self, text: str) -> None:
        """Print the progress."""
        print(f"{time.strftime('%H:%M:%S')}  {text}", file=sys.stderr, flush=True)

    def skip(self, text: str) -> None:
        """Skip a measurement; print the reason and add it to the report."""
        self.skipped.append(text)
        self.note(f"skipped: {text}")

    def new_directory(self) -> Path:
        """Return a new empty directory."""
        self._directory_count += 1
        path = self.directory / str(self._directory_count)
        path.mkdir()
        return path

    def repeats(self, what: str) -> Iterator[bool]:
        """Yield False for the warm-up, which does not count, then True for each repeat; print the progress."""
        self.note(f"{what}: warm-up")
        yield False
        for _ in self._each(what, self.scale.repeats):
            yield True

    def fresh_repeats(self, what: str, *, is_long: bool) -> Iterator[int]:
        """Yield the number of each repeat of work that runs in a new process, or whose parts are already warm."""
        return self._each(what, self.scale.long_repeats if is_long else self.scale.repeats)

    def _each(self, what: str, repeats: int) -> Iterator[int]:
        for repeat in range(1, repeats + 1):
            self.note(f"{what}: {repeat} of {repeats}")
            yield repeat

    def measure(
        self,
        what: str,
        *,
        prepare: Callable[[], State],
        run: Callable[[State], object],
        verify: Callable[[State], bool],
    ) -> list[Reading]:
        """Measure ``run`` on fresh state, repeatedly; wrong output ends the run with WrongOutput."""
        readings = []
        for counts in self.repeats(what):
            state = prepare()
            with Stopwatch() as watch:
                run(state)
            require(what, verify(state))
            if counts:
                readings.append(watch.reading)
        return readings


def require(what: str, is_right: bool) -> None:
    """Raise WrongOutput unless the output is right."""
    if not is_right:
        raise WrongOutput(f"{what}: the output is wrong, so the time means nothing")


def percentile(ascending: Sequence[float], share: float) -> float:
    """Return the smallest value that is not below ``share`` of all; ``ascending`` is sorted and not empty."""
    return ascending[min(len(ascending) - 1, int(len(ascending) * share))]
