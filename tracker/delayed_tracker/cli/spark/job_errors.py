"""What ended a job of Spark's, as one line: an error of ours that a worker raised, or what Spark said first."""

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
    """Spark gave a job up. The message has what it said first; its log has the rest."""

    reason = "SPARK_JOB_FAILED"


def job_error(error: PySparkException | Py4JError, source: str) -> DelayedTrackerError:
    """What a worker of ours raised, if that ended the job; else that Spark failed.

    Args:
        error: of a job.
        source: what it read.
    """
    # A worker's traceback ends with the error's full name and its message; one of ours may follow what led to it.
    said = str(error)
    return _ours(said) or _of_files(said, source) or SparkJobFailed(f"Spark ended the job: {first_said(error)}")


def first_said(error: PySparkException | Py4JError) -> str:
    """What Spark said first, in one line."""
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
    """Return the class in Java of what led to an error in the end, and its message; "" for the class if none is told."""
    causes = [line.removeprefix(_CAUSED_BY) for line in str(error).splitlines() if line.startswith(_CAUSED_BY)]
    line = causes[-1] if causes else first_said(error)
    kind, _, said = line.partition(": ")
    if not _JAVA_CLASS.fullmatch(kind):
        return "", line
    return kind, said or kind.rpartition(".")[2]


def _ours(said: str) -> DelayedTrackerError | None:
    known = {kind.__name__: kind for kind in _kinds()}
    for name, message in _raised(said):
        if name in known:
            kind = known[name]
            # Fields have the names of their options when they are shown.
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
    """Names and messages of what tracebacks end with, and of what looks like it."""
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
