"""Rebuilds the index of delayed messages from the ledgers themselves, with Spark."""

from delayed_tracker.spark.source.python_worker import end_quietly

# Whatever of this package a process of Spark's is to run, it imports this first.
end_quietly()
