"""Log lines of the whole process, ours and those of libraries, in one form on one stream.

Every line is an event name with fields: ``console`` for people, ``json`` (one object for each line) for machines.
"""

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

from tracker.service.call_identity import with_call

_QUIET_LOGGERS = {"uvicorn": logging.ERROR, "asyncio": logging.WARNING}
"""Libraries whose lines below this level say nothing an operator of this service needs. uvicorn warns of every request
that is no HTTP: any client could fill the log.
"""


def configure_logging(log_format: str, level: str, *, stream: TextIO | None = None) -> None:
    """Set up structlog and the standard library's logging alike; calling it again replaces the former set-up.

    Args:
        log_format: ``console`` or ``json``.
        level: ``debug``, ``info``, ``warning`` or ``error``: the least important lines that are written.
        stream: where to; None is stderr.
    """
    target = sys.stderr if stream is None else stream
    shared: list[Processor] = [
        with_call,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    rendering: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if log_format == "json":
        rendering += [structlog.processors.dict_tracebacks, structlog.processors.JSONRenderer(sort_keys=True)]
    else:
        rendering.append(structlog.dev.ConsoleRenderer(colors=target.isatty()))
    handler = logging.StreamHandler(target)
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=rendering))
    root = logging.getLogger()
    root.handlers = [handler]
    set_log_level(level)


def set_log_level(level: str) -> None:
    """Change the least important lines that are written: ``debug``, ``info``, ``warning`` or ``error``."""
    threshold = logging.getLevelNamesMapping()[level.upper()]
    logging.getLogger().setLevel(threshold)
    for name, least in _QUIET_LOGGERS.items():
        logging.getLogger(name).setLevel(max(threshold, least))
