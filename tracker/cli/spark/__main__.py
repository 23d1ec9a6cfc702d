"""``python -m tracker.cli.spark`` is ``spark-rebuild``."""

from tracker.cli.spark.entry import run

if __name__ == "__main__":
    run()
