"""How a benchmark measures: fixed seeds, several repeats, median and spread, the machine named, the output verified."""

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

REPEATS = 5
ROWS: list[str] = []
"""Every row of this run, for README.md."""
State = TypeVar("State")


@dataclass(frozen=True, slots=True)
class Measured:
    """Nanoseconds per index of each repeat."""

    name: str
    count: int
    ns_per_index: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.ns_per_index)

    def __str__(self) -> str:
        spread = f"{min(self.ns_per_index):,.1f} to {max(self.ns_per_index):,.1f}"
        return f"{self.name:<44} {self.count:>11,}  {self.median:>9,.1f} ns per index  ({spread})"


def measure(
    name: str,
    count: int,
    *,
    prepare: Callable[[], State],
    run: Callable[[State], object],
    verify: Callable[[State], bool],
) -> Measured:
    """Time ``run`` on fresh state, ``REPEATS`` times, and print the row; wrong output fails the benchmark."""
    samples = []
    for _ in range(REPEATS):
        state = prepare()
        gc.collect()
        gc.disable()
        started = time.perf_counter_ns()
        run(state)
        elapsed_ns = time.perf_counter_ns() - started
        gc.enable()
        assert verify(state), f"{name}: the output is wrong"
        samples.append(elapsed_ns / count)
    measured = Measured(name, count, tuple(samples))
    report(str(measured))
    return measured


def report(row: str) -> None:
    """Print a row and keep it."""
    print(row)
    ROWS.append(row)


def machine() -> str:
    """Processor, cores and Python of this run."""
    model = platform.processor() or platform.machine()
    cpu_description = Path("/proc/cpuinfo")
    if cpu_description.exists():
        for line in cpu_description.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    return f"{model}, {os.cpu_count()} cores, Python {platform.python_version()}, {platform.system()}"
