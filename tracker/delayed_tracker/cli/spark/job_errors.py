"""Converts the failure of a Spark job to one line: an error that a worker raised, or Spark's first message."""

import ast
import builtins
import re
from collections.abc import Iterator
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from delayed_tracker.cli.ledger_source import READABLE_FILES, unusable_file
from delayed_tracker.core.values.errors import DelayedTrackerError

_TRACEBACK: Final = "Traceback (most recent call last):"
_CAUSED_BY: Final = "Caused by: "
_JAVA_CLASS: Final = re.compile(r"(?:[a-z]\w*\.)+[A-Z][\w$]*")
_OF_FILE: Final = re.compile(r"\[Errno (\d+)\] ([^:]+): (['\"].*['\"])")


class SparkJobFailed(DelayedTrackerError):
    """Spark gave up a job. The message contains Spark's first message; Spark's log contains the rest."""

    reason = "SPARK_JOB_FAILED"


def job_error(error: PySparkException | Py4JError, source: str) -> DelayedTrackerError:
    """Return the error of this project that a worker raised and that ended the job, otherwise SparkJobFailed.

    Args:
        error: the error of a job.
        source: the job's source.
    """
    # A worker's traceback ends with the error's full name and its message; it may follow the errors that caused it.
    said = str(error)
    return _ours(said) or _of_files(said, source) or SparkJobFailed(f"Spark ended the job: {first_message(error)}")


def first_message(error: PySparkException | Py4JError) -> str:
    """Return Spark's first message, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if isinstance(error, Py4JJavaError):
        # The first line names a call between Python and Java.
        lines = [line.removeprefix(": ") for line in lines[1:]]
    first = next(iter(lines), type(error).__name__)
    if not first.endswith(_TRACEBACK):
        return first
    raised = next((line for line in lines[1:] if re.match(r"[\w.]+(Error|Exception|Exit)\b", line)), "")
    return first.removesuffix(_TRACEBACK) + raised


def first_cause(error: PySparkException | Py4JError) -> tuple[str, str]:
    """Return the Java class of an error's root cause, and its message; "" for the class if there is none."""
    causes = [line.removeprefix(_CAUSED_BY) for line in str(error).splitlines() if line.startswith(_CAUSED_BY)]
    line = causes[-1] if causes else first_message(error)
    kind, _, said = line.partition(": ")
    if not _JAVA_CLASS.fullmatch(kind):
        return "", line
    return kind, said or kind.rpartition(".")[2]


def _ours(said: str) -> DelayedTrackerError | None:
    known = {kind.__name__: kind for kind in _kinds()}
    for name, message in _raised(said):
        if name in known:
            kind = known[name]
            # Fields are printed with the names of their options.
            field = {"field": message.partition(": ")[0]} if kind.reason == "INVALID_INPUT" else {}
            found = DelayedTrackerError(message, metadata=field)
            found.reason = kind.reason
            return found
    return None


def _of_files(said: str, source: str) -> DelayedTrackerError | None:
    for name, message in _raised(said):
        kind = getattr(builtins, name, None)
        if not isinstance(kind, type) or not issubclass(kind, OSError):
            continue
        of_file = _OF_FILE.fullmatch(message)
        if of_file is not None:
            number, reason, file = of_file.groups()
            return unusable_file(OSError(int(number), reason, ast.literal_eval(file)), source, READABLE_FILES)
        if kind is OSError and not message.startswith("[Errno"):
            return unusable_file(OSError(message), source, READABLE_FILES)
    return None


def _raised(said: str) -> Iterator[tuple[str, str]]:
    """Yield names and messages of the errors at the ends of tracebacks, and of lines with the same form."""
    for line in said.splitlines():
        kind, colon, message = line.strip().partition(": ")
        if colon:
            yield kind.removeprefix("pyspark.errors.exceptions.captured.").rpartition(".")[2], message


def _kinds() -> Iterator[type[DelayedTrackerError]]:
    waiting = [DelayedTrackerError]
    while waiting:
        kind = waiting.pop()
        yield kind
        waiting += kind.__subclasses__()
