"""Counts the tasks that Spark can run at a time."""

from typing import Any

from pyspark.sql import SparkSession


def task_slots(session: SparkSession) -> int:
    """Return the number of tasks that the executors registered now can run at a time, at least 1.

    ``defaultParallelism`` is another number as soon as ``spark.default.parallelism`` is set, or tasks take several cores.
    """
    context: Any = session.sparkContext._jsc.sc()  # noqa: SLF001  PySpark has no other access
    return max(1, int(context.maxNumConcurrentTasks(context.resourceProfileManager().defaultResourceProfile())))
