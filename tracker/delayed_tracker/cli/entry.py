"""Where the installed commands begin. It imports nothing that an extra brings, and says which extra is missing."""

import sys
from collections.abc import Callable

from delayed_tracker.cli.exit_codes import ExitCode

_OURS = ("tracker", "snapshot_storage", "delayed_tracker", "spark_rebuild")


def run() -> None:
    """Run ``delayed-tracker``; a package that is not installed is one clear line, as every error is."""

    def begin() -> None:
        from delayed_tracker.cli import main  # noqa: PLC0415  # fails with the client alone

        main.run()

    run_installed(
        begin,
        "delayed-tracker",
        "the command line and the service come with: pip install 'delayed-tracker[server]'",
    )


def run_installed(begin: Callable[[], None], program: str, remedy: str) -> None:
    """Run a program, and say what to install if one of its packages is missing."""
    try:
        begin()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OURS:
            raise
        sys.stderr.write(f"{program}: the package {error.name!r} is not installed; {remedy}\n")
        sys.exit(ExitCode.USAGE)
