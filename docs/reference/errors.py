"""Renders the table of reasons and gRPC statuses from the error classes."""

import inspect
from collections.abc import Iterator
from typing import Final

import delayed_tracker.core.values.errors
import delayed_tracker.ledger.errors
import delayed_tracker.service.errors
import delayed_tracker.storage.errors
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.errors import PollEnded
from delayed_tracker.service.grpc.status import CODES, code_of_kind

_MODULES: Final = (
    delayed_tracker.core.values.errors,
    delayed_tracker.ledger.errors,
    delayed_tracker.service.errors,
    delayed_tracker.storage.errors,
)
"""The errors that a call can end with; other subclasses end commands or jobs."""
_REASONS_OF_POLLS: Final = ("CANCELLED", "CLEARED", "CLOSED", "FENCED")


def render_table() -> str:
    """Return the table, one row for each reason, by status and name."""
    rows = ["| status | reason | meaning |", "| --- | --- | --- |"]
    rows += sorted({_row(kind) for base, _ in CODES for kind in _with_subclasses(base)})
    return "\n".join(rows) + "\n"


def _with_subclasses(kind: type[DelayedTrackerError]) -> Iterator[type[DelayedTrackerError]]:
    if kind.__module__ in {module.__name__ for module in _MODULES}:
        yield kind
    for subclass in kind.__subclasses__():
        yield from _with_subclasses(subclass)


def _row(kind: type[DelayedTrackerError]) -> str:
    reasons = _REASONS_OF_POLLS if kind is PollEnded else (kind.reason,)
    meaning = " ".join((inspect.getdoc(kind) or "").partition("\n\n")[0].split())
    return f"| `{code_of_kind(kind).name}` | {', '.join(f'`{reason}`' for reason in reasons)} | {meaning} |"
