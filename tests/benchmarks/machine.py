"""What the machine tells: its name, its load, and time and memory of a process, this one or another."""

import ctypes
import gc
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"
"""What /proc/PID/clear_refs takes for it, see proc(5)."""


def describe() -> str:
    """Processor, cores, memory, system and Python."""
    model = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}"
    return f"{model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {system}, Python {platform.python_version()}"


def load_average() -> str:
    """Of the last 1, 5 and 15 minutes; the benchmarks themselves count."""
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


def version_of(*command: str) -> str | None:
    """The first line that a program says about its version, or None if it is not there."""
    if shutil.which(command[0]) is None:
        return None
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return (said.stdout or said.stderr).strip().partition("\n")[0]


@dataclass(frozen=True, slots=True)
class ProcessMeter:
    """Time and memory of one process, read from /proc. Threads count, children do not."""

    pid: int

    @property
    def cpu_ns(self) -> int:
        """Processor time so far, in steps of a clock tick (10 ms)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1_000_000_000 // _TICKS_PER_SECOND

    @property
    def resident_bytes(self) -> int:
        """Physical memory now, less pages of files."""
        return self._status("RssAnon")

    @property
    def peak_bytes(self) -> int:
        """Most physical memory since the last :meth:`reset_peak`, pages of files included."""
        return self._status("VmHWM")

    def reset_peak(self) -> int:
        """Begin to look for a new peak; returns the bytes resident now, pages of files included."""
        Path(f"/proc/{self.pid}/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        for line in _lines(Path(f"/proc/{self.pid}/status")):
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise OSError(f"process {self.pid} says nothing about {name}; is it still running?")


def settled_bytes() -> int:
    """What this process keeps once everything it need not keep has gone back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return ProcessMeter(os.getpid()).resident_bytes


def forget_cached_pages(path: Path) -> None:
    """Have the system drop a file's pages, so that the next read comes from the disk.

    Written back first: ``posix_fadvise(POSIX_FADV_DONTNEED)`` keeps pages that are dirty.
    """
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(path: Path) -> float | None:
    """Share of a file's pages that are in the file cache, or None if there is no ``fincore`` to ask."""
    if shutil.which("fincore") is None:
        return None
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES,SIZE", str(path)]
    resident, size = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(resident) / int(size)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
