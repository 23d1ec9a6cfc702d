"""``python -m delayed_tracker.cli.spark`` is ``spark-rebuild``."""

from delayed_tracker.cli.spark.entry import run

if __name__ == "__main__":
    run()
