"""Exceptions in log lines: where, what kind and which message, and never the values of variables.

Variables hold what callers sent, so their credentials too, and columns of thousands of positions.
"""

import textwrap
import traceback
from typing import Final

import structlog
from structlog.typing import ExcInfo, Processor

FRAMES_MAX: Final = 10
"""Of each exception of a chain, the innermost ones: they say what failed, and fit a line."""

_INDENT: Final = "    "
"""A line of a file that begins with anything else is a record of its own."""


def exception_as_objects() -> Processor:
    """For JSON: a list of objects, the exception itself and then its causes."""
    transform = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, use_rich=False, max_frames=FRAMES_MAX)
    return structlog.processors.ExceptionRenderer(transform)


def exception_as_text() -> Processor:
    """For people: a traceback as Python prints it, indented."""
    return structlog.processors.ExceptionRenderer(_text)


def _text(exc_info: ExcInfo) -> str:
    described = traceback.TracebackException(*exc_info, limit=-FRAMES_MAX, compact=True, capture_locals=False)
    return textwrap.indent("".join(described.format()).rstrip("\n"), _INDENT)
