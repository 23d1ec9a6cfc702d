"""Where the installed command begins. It imports nothing that an extra brings, and says which extra is missing."""

import sys

from tracker.service.exit_codes import ExitCode

_OURS = ("tracker", "snapshot_storage", "delayed_tracker")


def run() -> None:
    """Run ``delayed-tracker``; a package that is not installed is one clear line, as every error is."""
    try:
        from tracker.cli import main  # noqa: PLC0415  # fails with the client alone

        main.run()
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] in _OURS:
            raise
        sys.stderr.write(
            f"delayed-tracker: the package {error.name!r} is not installed; the command line and the service come with:"
            " pip install 'delayed-tracker[server]'\n"
        )
        sys.exit(ExitCode.USAGE)
