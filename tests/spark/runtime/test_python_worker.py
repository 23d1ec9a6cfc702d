"""Worker processes that Spark's daemon keeps for later tasks."""

import ctypes
import os
import subprocess
import sys
import traceback
from types import ModuleType, SimpleNamespace

import pytest

from delayed_tracker.spark.runtime.python_worker import suppress_disconnect_traceback


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Make Spark's daemon the program of this process; it prints the error that ends a worker."""
    program = ModuleType("__main__")
    program.__spec__ = SimpleNamespace(name="pyspark.daemon")  # type: ignore[assignment]
    program.traceback = traceback  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", program)
    return program


def printed(daemon: ModuleType, error: Exception, capsys: pytest.CaptureFixture[str]) -> str:
    """Return the output of the daemon when a worker ends with this error."""

    def worker() -> None:
        raise error

    try:
        worker()
    except type(error):
        daemon.traceback.print_exc()
    return capsys.readouterr().err


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_ends_without_a_traceback_when_spark_has_gone(daemon, capsys, error):
    """From the first task on, a lost connection prints nothing; other errors print a traceback as before."""
    assert type(error).__name__ in printed(daemon, error, capsys)
    suppress_disconnect_traceback()
    suppress_disconnect_traceback()
    assert printed(daemon, error, capsys) == ""
    assert "EOFError" in printed(daemon, EOFError(), capsys)
    assert "NoneType" in daemon.traceback.format_exc()


def test_other_programs_are_left_alone(daemon):
    """Drivers and other programs that import the package are not changed."""
    daemon.__spec__.name = "delayed_tracker.cli.spark"
    suppress_disconnect_traceback()
    assert daemon.traceback is traceback
    daemon.__spec__ = None
    suppress_disconnect_traceback()
    assert daemon.traceback is traceback


FAULTS = """
import resource, sys
import numpy as np
from delayed_tracker.spark.runtime.python_worker import is_worker, keep_freed_memory

assert not is_worker()
if "kept" in sys.argv:
    keep_freed_memory()

def piece():
    columns = [np.ones(3_000_000, np.uint8) for _ in range(10)]

piece()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
piece()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(
    not hasattr(ctypes.CDLL(None), "mallopt"), reason="this C library has no settings for its allocator"
)
@pytest.mark.parametrize(
    ("arguments", "environment", "is_kept"),
    [(("kept",), {}, True), ((), {}, False), (("kept",), {"MALLOC_MMAP_THRESHOLD_": "131072"}, False)],
)
def test_arrays_of_the_next_piece_are_not_mapped_anew(arguments, environment, is_kept):
    """Columns of 30 MB take the pages of the piece before; not without the setting, or if the user has one."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    command = [sys.executable, "-c", FAULTS, *arguments]
    ran = subprocess.run(command, env={**own, **environment}, capture_output=True, text=True, check=True)
    pages = 10 * 3_000_000 // os.sysconf("SC_PAGE_SIZE")
    assert (int(ran.stdout) < pages / 10) is is_kept
