"""Processes that Spark keeps for later, as its daemon runs them."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from spark_rebuild.python_worker import end_quietly


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program of this process is Spark's daemon, whose workers raise what they are given."""

    def worker(error: BaseException | None) -> int:
        if error is not None:
            raise error
        return 0

    program = ModuleType("__main__")
    program.__spec__ = SimpleNamespace(name="pyspark.daemon")  # type: ignore[assignment]
    program.worker = worker  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__main__", program)
    return program


def test_a_worker_ends_without_a_traceback_when_spark_has_gone(daemon):
    """Its status says that it is of no use any more; nothing else changes, however often it is asked for."""
    end_quietly()
    quiet = daemon.worker
    end_quietly()
    assert daemon.worker is quiet
    assert quiet(BrokenPipeError()) == 1
    assert quiet(None) == 0
    with pytest.raises(EOFError):
        quiet(EOFError())


def test_other_programs_are_left_alone(daemon):
    """Drivers, and whatever else imports the package."""
    daemon.__spec__.name = "tracker.cli.spark"
    before = daemon.worker
    end_quietly()
    assert daemon.worker is before
    daemon.__spec__ = None
    end_quietly()
    assert daemon.worker is before
