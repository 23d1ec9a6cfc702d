"""Fixture that runs the command in this process."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from delayed_tracker.cli.main import run


@dataclass(frozen=True)
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Return a function that runs ``delayed-tracker ARGUMENTS`` and returns its status and output."""

    def ran(*arguments: str) -> Ran:
        monkeypatch.setattr(sys, "argv", ["delayed-tracker", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        captured = capsys.readouterr()
        return Ran(int(ended.value.code or 0), captured.out, captured.err)

    return ran
