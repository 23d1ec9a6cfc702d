"""Time and memory of a process and its descendants, read from /proc: a Spark driver, its Java, its Python workers."""

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.machine import ProcessMeter

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STATE, _PARENT, _TIMES = 0, 1, slice(11, 15)
"""Fields after the name in /proc/PID/stat, see proc(5); the times are user and system, of itself and of ended children.
"""
_ENDED = "Z"


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak physical memory of one process of each kind, in bytes, pages of files included; 0 if there was none."""

    worker: int
    """Python process that runs a task."""
    java: int


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """A process and all its living descendants."""

    root: int

    @property
    def cpu_ns(self) -> int:
        """Processor time so far, ended processes included, in steps of a clock tick (10 ms)."""
        ticks = sum(sum(map(int, fields[_TIMES])) for fields in self._processes().values())
        return ticks * 1_000_000_000 // _TICKS_PER_SECOND

    def reset_peaks(self) -> None:
        """Reset the peaks."""
        for pid in self._living():
            ProcessMeter(pid).reset_peak()

    def peaks(self) -> Peaks:
        """Return the peaks since the last :meth:`reset_peaks`, of processes below the root that still live."""
        found: dict[bool, int] = defaultdict(int)
        for pid in self._living()[1:]:
            is_java = Path(f"/proc/{pid}/exe").resolve().name == "java"
            found[is_java] = max(found[is_java], ProcessMeter(pid).peak_bytes)
        return Peaks(worker=found[False], java=found[True])

    def _living(self) -> list[int]:
        """Return the processes that have memory, the root first."""
        return [pid for pid, fields in self._processes().items() if fields[_STATE] != _ENDED]

    def _processes(self) -> dict[int, list[str]]:
        """Return the fields of /proc/PID/stat for each process, the root first."""
        told: dict[int, list[str]] = {}
        children: dict[int, list[int]] = defaultdict(list)
        for directory in Path("/proc").iterdir():
            if directory.name.isdigit():
                try:
                    stat = (directory / "stat").read_text(encoding="utf-8", errors="replace")
                except (FileNotFoundError, ProcessLookupError):
                    continue  # It has ended since; its times now belong to its parent.
                pid = int(directory.name)
                told[pid] = stat.rpartition(")")[2].split()
                children[int(told[pid][_PARENT])].append(pid)
        pids = [self.root]
        for pid in pids:
            pids += children[pid]
        return {pid: told[pid] for pid in pids}
