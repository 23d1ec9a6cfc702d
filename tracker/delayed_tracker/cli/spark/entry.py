"""Entry point of the installed command ``spark-rebuild``. Prints the name of an extra that is missing."""

import os

from delayed_tracker.cli.entry import run_installed


def run() -> None:
    """Run ``spark-rebuild``; if a package is not installed, print one line like every other error."""
    # PySpark forks to start Java. gRPC's fork handlers break the child if the process has an open channel.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

    def begin() -> None:
        from delayed_tracker.cli.spark import main  # noqa: PLC0415  # fails without the extra

        main.run()

    run_installed(begin, "spark-rebuild", "the Spark job comes with: pip install 'delayed-tracker[spark]'")
