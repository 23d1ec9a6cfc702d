"""Worker processes that Spark's daemon keeps for later tasks."""

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
