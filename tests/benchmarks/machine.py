"""Facts about the machine: its name, its load, and time and memory of this process or another."""

import ctypes
import gc
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_RESET_PEAK = "5"
"""Value for /proc/PID/clear_refs that resets the peak, see proc(5)."""


def describe() -> str:
    """Return processor, cores, memory, system and Python."""
    model = platform.processor() or platform.machine()
    for line in _lines(Path("/proc/cpuinfo")):
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    system = f"{platform.system()} {platform.release()}"
    return f"{model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {system}, Python {platform.python_version()}"


def load_average() -> str:
    """Return the load of the last 1, 5 and 15 minutes; it includes the benchmarks."""
    return " ".join(f"{load:.2f}" for load in os.getloadavg())


def version_of(*command: str) -> str | None:
    """Return the first line that a program prints about its version, or None if it is missing."""
    if shutil.which(command[0]) is None:
        return None
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return (said.stdout or said.stderr).strip().partition("\n")[0]


def timed(work: Callable[[], None]) -> float:
    """Return how many seconds something takes."""
    started = time.monotonic()
    work()
    return time.monotonic() - started


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
        """Physical memory now, without pages of files."""
        return self._status("RssAnon")

    @property
    def peak_bytes(self) -> int:
        """Peak physical memory since the last :meth:`reset_peak`, pages of files included."""
        return self._status("VmHWM")

    def reset_peak(self) -> int:
        """Reset the peak; return the bytes resident now, pages of files included."""
        Path(f"/proc/{self.pid}/clear_refs").write_text(_RESET_PEAK, encoding="ascii")
        return self._status("VmRSS")

    def _status(self, name: str) -> int:
        for line in _lines(Path(f"/proc/{self.pid}/status")):
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise OSError(f"process {self.pid} says nothing about {name}; is it still running?")


def settled_bytes() -> int:
    """Return the memory of this process after all releasable memory has gone back to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return ProcessMeter(os.getpid()).resident_bytes


def forget_cached_pages(path: Path) -> None:
    """Make the system drop the pages of a file, so that the next read comes from the disk.

    The file is written back first, because ``posix_fadvise(POSIX_FADV_DONTNEED)`` keeps dirty pages.
    """
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def cached_share(path: Path) -> float | None:
    """Return the share of a file's pages that are in the file cache, or None if there is no ``fincore``."""
    if shutil.which("fincore") is None:
        return None
    command = ["fincore", "--bytes", "--noheadings", "--output", "RES,SIZE", str(path)]
    resident, size = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return int(resident) / int(size)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
