"""Exceptions in log lines: place, type and message, but never the values of variables.

Variables contain what callers sent, so also credentials, and columns of thousands of positions.
"""

import textwrap
import traceback
from typing import Final

import structlog
from structlog.typing import ExcInfo, Processor

FRAMES_MAX: Final = 10
"""Frames of each exception of a chain. The innermost ones show what failed, and fit into a line."""

_INDENT: Final = "    "
"""A line of a log file that begins with any other character is a record of its own."""


def exception_as_objects() -> Processor:
    """Return the processor for JSON: a list of objects, the exception itself and then its causes."""
    transform = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, use_rich=False, max_frames=FRAMES_MAX)
    return structlog.processors.ExceptionRenderer(transform)


def exception_as_text() -> Processor:
    """Return the processor for people: a traceback as Python prints it, indented."""
    return structlog.processors.ExceptionRenderer(_text)


def _text(exc_info: ExcInfo) -> str:
    described = traceback.TracebackException(*exc_info, limit=-FRAMES_MAX, compact=True, capture_locals=False)
    return textwrap.indent("".join(described.format()).rstrip("\n"), _INDENT)
