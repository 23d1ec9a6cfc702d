"""Command ``delayed-tracker serve``: runs the service in the foreground until SIGTERM or SIGINT."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.service.config import settings_from
from delayed_tracker.cli.terminal.options import BrokerConf, Config, Set
from delayed_tracker.service.process.garbage_collection import without_collection
from delayed_tracker.service.settings.load import LoadedSettings

_JSON_LOG = "logFormat=json"


def serve(
    *,
    path: Config = None,
    broker_conf: BrokerConf = None,
    overrides: Set = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(
            "--ready-file",
            help="Written when calls are accepted: a JSON object with grpc, http (host:port) and pid. Removed at the end.",
            metavar="FILE",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write log lines and errors as JSON objects.")] = False,
) -> None:
    """Run the service until SIGTERM or SIGINT; log lines go to stderr.

    SIGHUP reloads the settings; conf/tracker.conf lists the settings that then take effect.

    Port 0 in a listen address means any free port; --ready-file contains the chosen one.

    Example: delayed-tracker serve --config conf/tracker.conf --set grpcListenAddress=127.0.0.1:7650
    """
    # Until the service handles SIGHUP, there is nothing to reload.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # Only this command needs the packages of the "server" extra.
    with without_collection():
        import structlog  # noqa: PLC0415

        from delayed_tracker.service.process.backends import require_urls  # noqa: PLC0415
        from delayed_tracker.service.server import serve as run_service  # noqa: PLC0415
        from delayed_tracker.service.telemetry.logs import configure_logging  # noqa: PLC0415

    def read() -> LoadedSettings:
        found = settings_from(path, [*(overrides or ()), *([_JSON_LOG] if as_json else ())], broker_conf)
        require_urls(found.settings)
        return found

    loaded = read()
    configure_logging(loaded.settings.telemetry.log_format, loaded.settings.telemetry.log_level)
    if loaded.ignored:
        log = structlog.stdlib.get_logger("delayed_tracker.service")
        log.info("unused keys ignored", file=str(broker_conf), count=len(loaded.ignored), keys=loaded.ignored)
    asyncio.run(
        run_service(
            loaded.settings, ready_file=ready_file, reread=lambda: read().settings, end_within=_end_process_within
        )
    )


def _end_process_within(seconds: float) -> None:
    """End the process with 0 after that time, if it has not ended by itself: a thread that reads may read for ever."""

    def end() -> None:
        sys.stderr.flush()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
