"""Script for spark-submit: ``spark-submit "$(spark-rebuild script)" rebuild ...``."""

from delayed_tracker.cli.spark.entry import run

if __name__ == "__main__":
    run()
