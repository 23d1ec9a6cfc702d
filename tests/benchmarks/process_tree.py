"""Time and memory of a process and all that it started, read from /proc: a Spark driver, its Java, its Python workers."""

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.machine import ProcessMeter

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _TIMES = 0, 1, slice(11, 15)
"""Behind the name in /proc/PID/stat, see proc(5); times are of user and system, its own and of children that ended."""
_ENDED = "Z"


@dataclass(frozen=True, slots=True)
class Peaks:
    """Most physical memory of one process of each kind, in bytes, pages of files included; 0 if there was none."""

    worker: int
    """Python that a task runs in."""
    java: int


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process and all below it that live now."""

    root: int

    @property
    def cpu_ns(self) -> int:
        """Processor time so far, of processes that have ended too, in steps of a clock tick (10 ms)."""
        ticks = sum(sum(map(int, fields[_TIMES])) for fields in self._processes().values())
        return ticks * 1_000_000_000 // _TICKS_PER_SECOND

    def reset_peaks(self) -> None:
        """Begin to look for new peaks."""
        for pid in self._living():
            ProcessMeter(pid).reset_peak()

    def peaks(self) -> Peaks:
        """Since the last :meth:`reset_peaks`, of processes below the root that still live."""
        found: dict[bool, int] = defaultdict(int)
        for pid in self._living()[1:]:
            is_java = Path(f"/proc/{pid}/exe").resolve().name == "java"
            found[is_java] = max(found[is_java], ProcessMeter(pid).peak_bytes)
        return Peaks(worker=found[False], java=found[True])

    def _living(self) -> list[int]:
        """Those that have memory; the root first."""
        return [pid for pid, fields in self._processes().items() if fields[_STATE] != _ENDED]

    def _processes(self) -> dict[int, list[str]]:
        """What the system says about each; the root first."""
        told: dict[int, list[str]] = {}
        children: dict[int, list[int]] = defaultdict(list)
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    stat = (directory / "stat").read_text(encoding="utf-8", errors="replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue  # It has ended since; what it took is its parent's now.
                pid = int(directory.name)
                told[pid] = stat.rpartition(")")[2].split()
                children[int(told[pid][_PARENT])].append(pid)
        pids = [self.root]
        for pid in pids:
            pids += children[pid]
        return {pid: told[pid] for pid in pids}
