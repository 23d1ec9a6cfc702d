"""A first start answers while a child process compiles, and does not wait for it."""

import asyncio
import errno
import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from numba import config
from structlog.testing import capture_logs

from delayed_tracker.core.kernels.jit import Kernels, cached_in
from delayed_tracker.service.process.kernel_start import KernelLoader

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled with NUMBA_DISABLE_JIT=1"),
]

SUMS = """
from delayed_tracker.core.kernels.jit import COLUMN, Kernels

KERNELS = Kernels()

@KERNELS.add(COLUMN)
def total(values):
    found = 0
    for value in values:
        found += value
    return found
"""
COMPILES = """
import sys
sys.path.insert(0, {directory!r})
import sums
sums.KERNELS.load()
print(1, 1)
"""
WAITS = "import sys; print(0, 1, flush=True); sys.stdin.read()"
FAILS = "raise SystemExit('no compiler here')"


class Sums:
    """A module with one kernel, and the child process that compiles it."""

    def __init__(self, directory: Path):
        self.child = COMPILES.format(directory=str(directory))
        self.module = importlib.import_module("sums")

    @property
    def kernels(self) -> Kernels:
        return self.module.KERNELS

    @property
    def is_loaded(self) -> bool:
        return all(kernel.is_loaded for kernel in self.kernels)

    def total(self) -> int:
        return self.module.total(np.arange(5))


@pytest.fixture
def sums(tmp_path, monkeypatch):
    (tmp_path / "sums.py").write_text(SUMS, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield Sums(tmp_path)
    sys.modules.pop("sums")


@pytest.fixture
def cache(tmp_path):
    with cached_in(str(tmp_path / "cache")):
        yield tmp_path / "cache"


async def test_calls_are_answered_while_a_child_compiles(sums, cache):
    """Calls run machine code after the compilation, and the next start finds it in the cache."""
    starting = KernelLoader(sums.kernels, child=["-c", sums.child])
    with capture_logs() as logs:
        await starting.start()
        assert starting.is_compiling
        assert not sums.is_loaded
        assert sums.total() == 10
        await starting.wait_compiled()
    assert sums.is_loaded
    assert sums.total() == 10
    assert logs[0]["event"].startswith("compiling kernels in the background")
    assert logs[-1]["event"] == "kernels are compiled"
    assert list(cache.rglob("*.nbc"))
    await starting.stop()


async def test_a_start_with_everything_cached_compiles_nothing(sums, cache):
    """A start with a full cache logs that the kernels are loaded, and starts no process."""
    sums.kernels.load()
    later = KernelLoader(importlib.reload(sums.module).KERNELS, child=["-c", FAILS])
    with capture_logs() as logs:
        await later.start()
    assert not later.is_compiling
    assert [line["event"] for line in logs] == ["kernels are loaded"]
    await later.stop()


async def test_a_child_that_fails_is_replaced_by_a_thread(sums, cache):
    """After a failure of the child a thread compiles, and the log has the child's error output."""
    starting = KernelLoader(sums.kernels, child=["-c", FAILS])
    with capture_logs() as logs:
        await starting.start()
        await starting.wait_compiled()
    assert sums.is_loaded
    failed = next(line for line in logs if line["log_level"] == "warning")
    assert (failed["exit_status"], failed["said"]) == (1, "no compiler here")
    await starting.stop()


async def test_a_child_that_cannot_be_started_is_replaced_by_a_thread(sums, cache, monkeypatch):
    """The machine may have no room for another process."""

    async def refused(*_args, **_kwargs):
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refused)
    starting = KernelLoader(sums.kernels)
    with capture_logs() as logs:
        await starting.start()
        await starting.wait_compiled()
    assert sums.is_loaded
    assert "Resource temporarily unavailable" in next(line["said"] for line in logs if line["log_level"] == "warning")
    await starting.stop()


async def test_a_stop_after_a_load_that_failed_goes_on(sums, cache, monkeypatch):
    """The service drains whatever became of its kernels."""

    def broken():
        raise MemoryError("no room for a kernel")

    starting = KernelLoader(sums.kernels, child=["-c", FAILS])
    for kernel in sums.kernels:
        monkeypatch.setattr(kernel, "load", broken)
    with capture_logs() as logs:
        await starting.start()
        with pytest.raises(MemoryError):
            await starting.wait_compiled()
        await starting.stop()
    assert logs[-1]["event"] == "kernels were not compiled"


async def test_what_a_child_compiled_before_it_failed_is_used(sums, cache):
    """Nothing is compiled twice."""
    starting = KernelLoader(sums.kernels, child=["-c", f"{sums.child}\n{FAILS}"])
    with capture_logs() as logs:
        await starting.start()
        await starting.wait_compiled()
    assert sums.is_loaded
    assert [line["exit_status"] for line in logs if "exit_status" in line] == [1]
    assert not [line for line in logs if line["event"].startswith("compiling kernels in this process")]
    await starting.stop()


@pytest.mark.skipif(os.geteuid() == 0 and not Path("/proc/self").is_dir(), reason="root can write anywhere else")
async def test_without_a_place_for_a_cache_the_child_writes_to_a_temporary_directory(sums, tmp_path, monkeypatch):
    """The temporary directory is removed afterwards."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with cached_in("/proc/self/nowhere"):
        starting = KernelLoader(sums.kernels, child=["-c", sums.child])
        with capture_logs() as logs:
            await starting.start()
            await starting.wait_compiled()
    assert sums.is_loaded
    (warning,) = [line for line in logs if line["log_level"] == "warning"]
    assert warning["cache"] == "/proc/self/nowhere"
    assert "NUMBA_CACHE_DIR" in warning["remedy"]
    assert not list(tmp_path.glob("delayed-tracker-kernels-*"))
    await starting.stop()


async def test_a_stop_ends_the_child(sums, cache):
    """Calls in progress go on in Python after the child has ended."""
    starting = KernelLoader(sums.kernels, child=["-c", WAITS])
    await starting.start()
    await asyncio.wait_for(starting.stop(), 10)
    assert not starting.is_compiling
    assert sums.total() == 10


async def test_the_child_ends_with_the_service_that_started_it(tmp_path):
    """The child ends by itself if the service is killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "delayed_tracker.service.process.kernels",
        stdin=asyncio.subprocess.PIPE,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), 60) == 1


async def test_the_child_ends_well_while_the_service_lives():
    """Its thread that waits for the end of standard input does not disturb the end of Python."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "delayed_tracker.service.process.kernels",
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    said = await asyncio.wait_for(process.stderr.read(), 60)
    assert (await process.wait(), said) == (0, b"")
