"""Where the installed command ``spark-rebuild`` begins. It says which extra is missing."""

import os

from delayed_tracker.cli.entry import run_installed


def run() -> None:
    """Run ``spark-rebuild``; a package that is not installed is one clear line, as every error is."""
    # PySpark forks to start Java. What gRPC does in the child of a process that has a channel open breaks it.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

    def begin() -> None:
        from delayed_tracker.cli.spark import main  # noqa: PLC0415  # fails without the extra

        main.run()

    run_installed(begin, "spark-rebuild", "the Spark job comes with: pip install 'delayed-tracker[spark]'")
