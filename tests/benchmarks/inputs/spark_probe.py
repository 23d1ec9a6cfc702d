"""Run Spark jobs repeatedly in one session on given cores, and print the results as JSON.

    python -m tests.benchmarks.inputs.spark_probe PLAN

The plan is a :class:`Plan` as JSON. The probe is a separate process, bound to its cores with all that it starts, so
that the parallel work of Java and Python uses only these cores.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.ledger.entry.entry_columns import EntryFlag
from delayed_tracker.spark import schema
from delayed_tracker.spark.commit.commit import StorageCommit
from delayed_tracker.spark.jobs.rebuild import rebuild
from delayed_tracker.spark.jobs.session import build_session
from delayed_tracker.spark.settings import RebuildSettings
from tests.benchmarks.inputs.shapes import NOW_MS
from tests.benchmarks.process_tree import ProcessTree

_TIMES = (schema.PUBLISH_TIME, schema.DELIVER_AT_MS, schema.BROKER_TIMESTAMP)
_NUMBERS = (schema.LEDGER_ID, schema.ENTRY_ID, schema.INDEX, schema.NUM_MESSAGES)
_EIGHT = StructType([schema.ENTRY_SCHEMA[name] for name in (*_NUMBERS, *_TIMES, schema.FLAGS)])
_DRIVER_MEMORY = "512m"


@dataclass(frozen=True, slots=True)
class Job:
    """One kind of work on one source."""

    url: str
    delayed_only: bool = False
    """Read with a filter on the deadline, which is pushed down."""
    bucket: int = 0
    """Rebuild with buckets of so many indexes; 0 only reads the eight columns."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Work of one process."""

    cores: int
    warm_ups: int
    """Repeats that are not reported."""
    repeats: int
    directory: str
    """Empty directory for Spark's files and the output of jobs."""
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class Ran:
    """Result of one run of a job."""

    wall_ns: int
    cpu_ns: int
    worker_peak_bytes: int
    """Peak memory of the largest Python process of a task."""
    java_peak_bytes: int
    found: dict[str, int]


def main(plan: Plan) -> None:
    """Print a list with a list of :class:`Ran` for each job."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: plan.cores])
    session = build_session(
        f"local[{plan.cores}]",
        options={
            "spark.ui.enabled": "false",
            "spark.driver.memory": _DRIVER_MEMORY,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(2 * plan.cores),
            "spark.local.dir": plan.directory,
        },
    )
    ran = [
        [
            asdict(_ran(_work(session, job, Path(plan.directory, f"{number}-{repeat}"))))
            for repeat in range(plan.warm_ups + plan.repeats)
        ]
        for number, job in enumerate(plan.jobs)
    ]
    print(json.dumps([repeats[plan.warm_ups :] for repeats in ran]))
    session.stop()


def _ran(work: Callable[[], dict[str, int]]) -> Ran:
    tree = ProcessTree(os.getpid())
    tree.reset_peaks()
    cpu_ns, started_ns = tree.cpu_ns, time.perf_counter_ns()
    found = work()
    wall_ns, cpu_ns = time.perf_counter_ns() - started_ns, tree.cpu_ns - cpu_ns
    peaks = tree.peaks()
    return Ran(wall_ns, cpu_ns, peaks.worker, peaks.java, found)


def _work(session: SparkSession, job: Job, directory: Path) -> Callable[[], dict[str, int]]:
    if job.bucket:
        return lambda: _rebuilt(session, job, directory)
    return lambda: _read(session, job)


def _read(session: SparkSession, job: Job) -> dict[str, int]:
    """Return totals of all eight columns, so that each is built and can be verified."""
    source = session.read.format("pulsar_ledger").schema(_EIGHT).option("url", job.url)
    rows: DataFrame = source.option("pushFilters", "yes" if job.delayed_only else "no").load()
    if job.delayed_only:
        rows = rows.where(f.col(schema.DELIVER_AT_MS).isNotNull())
    delayed = int(EntryFlag.DELAYED)
    totals = rows.agg(
        f.count("*").alias("rows"),
        *(f.sum(name).alias(name) for name in _NUMBERS),
        *(f.sum(f.col(name) - NOW_MS).alias(name) for name in _TIMES),
        f.sum((f.col(schema.FLAGS).bitwiseAND(delayed) / delayed).cast("long")).alias("delayed"),
    )
    (found,) = totals.collect()
    return {name: int(number) for name, number in found.asDict().items()}


def _rebuilt(session: SparkSession, job: Job, directory: Path) -> dict[str, int]:
    """Rebuild into a fresh SQLite file, and return the counts of its summary."""
    directory.mkdir()
    settings = RebuildSettings(
        {"url": job.url},
        now_ms=NOW_MS,
        staging=str(directory / "staging"),
        subscriptions=("all",),
        ignore_acks=True,
        limits=TrackerLimits(min_index_count_per_bucket=job.bucket),
    )
    done = rebuild(session, settings, target=StorageCommit(f"sqlite:{directory / 'tracker.db'}")).document()
    kept = {name: int(done[name]) for name in ("read", "delayed", "written", "tail")}
    return {**kept, "bad": len(done["bad_entries"])}


def _plan(text: str) -> Plan:
    given: dict[str, Any] = json.loads(text)
    return Plan(**{**given, "jobs": tuple(Job(**job) for job in given["jobs"])})


if __name__ == "__main__":
    main(_plan(sys.argv[1]))
