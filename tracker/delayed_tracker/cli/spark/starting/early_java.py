"""Starts Java for a command line before the imports of its command, which take a second of their own.

The command line is only looked at here. The command itself parses it, and uses this Java if it would start the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.cli.spark.spark_output import SparkOutput
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.spark.runtime.java_start import JavaStart, has_java
from delayed_tracker.spark.runtime.session_settings import is_local, is_submitted, session_settings

_JOBS: Final = ("rebuild", "verify", "index", "inspect")
_HELP: Final = ("-h", "--help")


@dataclass(frozen=True, slots=True)
class EarlyJava:
    """Java that a command line will probably need."""

    start: JavaStart
    output: SparkOutput
    log: Path | None

    def fits(self, settings: Mapping[str, str], log: Path | None) -> bool:
        """Return True if a command with these settings and this log would start the same Java."""
        return self.start.settings == settings and self.log == log


_started: list[EarlyJava] = []
"""At most one, which no command has taken yet."""


@contextmanager
def early_java(arguments: Sequence[str]) -> Iterator[None]:
    """Start Java if the arguments look like a job on this machine; end it after the block if no command has taken it."""
    early = _start(arguments)
    if early is not None:
        _started.append(early)
    try:
        yield
    finally:
        if _started:
            _discard(_started.pop())


def take_early_java(settings: Mapping[str, str], log: Path | None) -> EarlyJava | None:
    """Return the Java that was started for these settings, which the caller then owns; None if there is none."""
    if not _started:
        return None
    early = _started.pop()
    if early.fits(settings, log):
        return early
    _discard(early)
    return None


def _discard(early: EarlyJava) -> None:
    early.start.discard()
    with early.output:
        pass


def _start(arguments: Sequence[str]) -> EarlyJava | None:
    command = next(iter(arguments), "")
    if command not in _JOBS or any(name in arguments for name in _HELP) or is_submitted() or has_java():
        return None
    master = next(iter(reversed(_values(arguments, "--master"))), None)
    options = dict(option.split("=", 1) for option in _values(arguments, "--spark-option") if "=" in option)
    settings = session_settings(master, name=f"spark-rebuild {command}", options=options)
    if not is_local(settings):
        return None
    log = next((Path(name) for name in reversed(_values(arguments, "--spark-log"))), None)
    try:
        output = SparkOutput(log)
    except DelayedTrackerError:
        return None  # The command finds the same error, after those of its other options.
    try:
        return EarlyJava(JavaStart(settings, output=output.fileno()), output, log)
    except (DelayedTrackerError, OSError):
        with output:
            return None


def _values(arguments: Sequence[str], name: str) -> list[str]:
    """Return the values that are given for an option, in order."""
    found: list[str] = []
    for place, argument in enumerate(arguments):
        if argument == name:
            found += arguments[place + 1 : place + 2]
        elif argument.startswith(f"{name}="):
            found.append(argument.partition("=")[2])
    return found
