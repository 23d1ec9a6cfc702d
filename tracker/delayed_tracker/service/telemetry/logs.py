"""Log lines of the whole process, of the service and of libraries, in one format on one stream.

Every line is an event name with fields: ``console`` for people, ``json`` (one object for each line) for machines.
"""

import contextlib
import logging
import sys
import textwrap
import traceback
from typing import Final, TextIO

import structlog
from grpc.aio import InternalError
from structlog.typing import EventDict, ExcInfo, Processor

from delayed_tracker.service.telemetry.call_identity import with_call
from delayed_tracker.service.telemetry.log_size import bound_line
from delayed_tracker.service.telemetry.printable import printable, printable_lines

_QUIET_LOGGERS = {"uvicorn": logging.ERROR, "asyncio": logging.WARNING}
"""Libraries, with the level below which their lines are of no use to an operator of this service. uvicorn warns of
every request that is not HTTP, with which any client could fill the log.
"""
_GRPC_LOGGER = "grpc._cython.cygrpc"
_SEVERAL_LINES = ("exception", "stack")
"""Fields that the console shows below their line."""
FRAMES_MAX: Final = 10
"""Frames of each exception of a chain. The innermost ones show what failed, and fit into a line."""
_INDENT: Final = "    "
"""A line of a log file that begins with any other character is a record of its own."""


def configure_logging(log_format: str, level: str, *, stream: TextIO | None = None) -> None:
    """Configure structlog and the standard library's logging alike. A second call replaces the configuration.

    Args:
        log_format: ``console`` or ``json``.
        level: ``debug``, ``info``, ``warning`` or ``error``: the least important lines that are written.
        stream: stream to write to; None is stderr.
    """
    target = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        with_call,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    rendering: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if log_format == "json":
        rendering += [exception_as_objects(), bound_line, structlog.processors.JSONRenderer(sort_keys=True)]
    else:
        console = structlog.dev.ConsoleRenderer(
            colors=target.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
        rendering += [exception_as_text(), _escape, bound_line, console]
    handler = _LineHandler(target)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=rendering))
    root = logging.getLogger()
    root.handlers = [handler]
    logging.getLogger(_GRPC_LOGGER).addFilter(_is_news)
    set_log_level(level)


def set_log_level(level: str) -> None:
    """Set the least important level that is written: ``debug``, ``info``, ``warning`` or ``error``."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(threshold)
    for name, least in _QUIET_LOGGERS.items():
        logging.getLogger(name).setLevel(max(threshold, least))


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for a line of gRPC that only reports that a client left during the answer."""
    return not (record.exc_info and isinstance(record.exc_info[1], InternalError))


def _escape(_logger: object, _method: str, fields: EventDict) -> EventDict:
    """Escape the fields for the console: text from callers neither begins a line nor reaches the terminal raw."""
    return {
        printable(key): _escaped(value, several_lines=key in _SEVERAL_LINES) if isinstance(value, str) else value
        for key, value in fields.items()
    }


def _escaped(text: str, *, several_lines: bool) -> str:
    return printable_lines(text) if several_lines else printable(text)


class _LineHandler(logging.StreamHandler[TextIO]):
    """Handler that writes lines. For a line that fails it logs the error, but not the arguments of the line."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # the name that logging gives it
        """Write a line without fields in place of the one that failed. If that also fails, do nothing."""
        kind = sys.exc_info()[0]
        assert kind is not None
        if issubclass(kind, OSError):
            return
        line = logging.LogRecord(
            record.name, logging.ERROR, "", 0, "log line lost: %s", (kind.__name__,), exc_info=None
        )
        with contextlib.suppress(OSError, ValueError):  # the disk is full, or the stream is closed
            self.stream.write(self.format(line) + self.terminator)


def exception_as_objects() -> Processor:
    """Return the processor for JSON: a list of objects, the exception itself and then its causes.

    It has place, type and message, but never the values of variables: they contain what callers sent, so also
    credentials, and columns of thousands of positions.
    """
    transform = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, use_rich=False, max_frames=FRAMES_MAX)
    return structlog.processors.ExceptionRenderer(transform)


def exception_as_text() -> Processor:
    """Return the processor for people: a traceback as Python prints it, indented."""
    return structlog.processors.ExceptionRenderer(_text)


def _text(exc_info: ExcInfo) -> str:
    described = traceback.TracebackException(*exc_info, limit=-FRAMES_MAX, compact=True, capture_locals=False)
    return textwrap.indent("".join(described.format()).rstrip("\n"), _INDENT)
