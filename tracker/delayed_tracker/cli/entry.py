"""Entry point of the installed commands.

Imports only the base packages, and prints the name of an extra that is missing.
"""

import os
import signal
import sys
from collections.abc import Callable

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.service.process.garbage_collection import without_collection

_OURS = ("tracker", "snapshot_storage", "delayed_tracker", "spark_rebuild")


def run() -> None:
    """Run ``delayed-tracker``; if a package is not installed, print one line like every other error."""

    def begin() -> None:
        with without_collection():
            from delayed_tracker.cli import main  # noqa: PLC0415  # fails if only the client is installed

        main.run()

    # Read when gRPC is imported. By default it writes a line for each connection that is no TLS, without a bound.
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    run_installed(
        begin,
        "delayed-tracker",
        "the command line and the service come with: pip install 'delayed-tracker[server]'",
    )


def run_installed(begin: Callable[[], None], program: str, remedy: str) -> None:
    """Run a program; if one of its packages is missing, print the command that installs it."""
    try:
        begin()
    except KeyboardInterrupt:
        # Programs that have begun handle it themselves; this is the time of their imports.
        sys.exit(128 + signal.SIGINT)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OURS:
            raise
        sys.stderr.write(f"{program}: the package {error.name!r} is not installed; {remedy}\n")
        sys.exit(ExitCode.USAGE)
