"""Runs ``spark-rebuild`` as ``python -m delayed_tracker.cli.spark``."""

from delayed_tracker.cli.spark.entry import run

if __name__ == "__main__":
    run()
