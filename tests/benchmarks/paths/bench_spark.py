"""Cost of Spark: entries read into data frames, and whole rebuilds, each Spark in a separate process."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.spark.errors import JavaNotFound
from delayed_tracker.spark.runtime.java import find_java
from tests.benchmarks.inputs.deflated import deflated_streams, inflate_all
from tests.benchmarks.inputs.shapes import NOW_MS
from tests.benchmarks.inputs.spark_ledgers import (
    LedgerStatistics,
    ledger_content,
    write_blobs,
    write_logs,
    write_map_files,
)
from tests.benchmarks.inputs.spark_probe import Job, Plan, Ran
from tests.benchmarks.measure import Reading, Run, require
from tests.benchmarks.rows import Row, Unit, per_second
from tests.repository.project_tree import ROOT

ABOUT = (
    "Messages of about 200 bytes with a broker's frame, every second one delayed, in ledgers of 250,000. Spark runs on "
    "this machine alone: a driver, its Java with 512 MB, and a Python for each task. One core means that all of these "
    "are bound to one. Reading is digest, checksum and metadata into eight columns (ledger, entry, publish time, deadline, "
    "broker's timestamp and index, messages, flags), which Java adds up; the totals are compared. Warm: files in the file "
    "cache, sessions and workers started. Inflating alone is what takes the streams of the same MapFiles in memory, by "
    "processor time; MapFiles have a quarter of the ledgers. A rebuild reads, sorts, encodes, stages and commits to "
    "SQLite; beside reading means: of the same ledgers, on as many cores. CPU is for each entry, of all processes; peak "
    "memory is that of the largest process of a task, all of it. The last rows are 300,000 messages, all delayed: what a "
    "broker replays into its tracker in 12 to 19 s. By the profile of one core over 10 M entries of entry logs, an entry "
    "takes Java 230 to 330 ns (rows out of Arrow's columns, and their sums), Python 190 to 220 (half of it kernels, a fifth "
    "what is sent), and the plan 57 (where records lie); a query has 0.6 s of its own, nearly all Java's: an eighth of 10 M "
    "entries (then 1.94 M entries/s of entry logs and 2.75 of blobs, on one core, and a rebuild at 1.78) and a twentieth of "
    "30 M. Tried, and kept: "
    "Unix sockets between the two (over TCP each task waits for a delayed acknowledgement, a fifth of all), parts of 128 MB "
    "(of 32 MB: 7.0 s instead of 5.4), no search for garbage among what is imported, "
    "Arrow's columns without Arrow's own checks (a tenth), prefetching the records of blobs (118 ns to 11), memory "
    "that workers use again (reading alone, without Spark: 250 instead of 280 ns of entry logs, 140 instead of 185 of blobs). Of a "
    "rebuild of 10 M on two cores, 5.1 to 5.9 s, reading takes 2.2, the plan 0.35, sorting, encoding and staging 1.7, the "
    "commit 0.45, and some 0.9 pass between Spark's six jobs, 0.1 to 0.2 each, in Java's plans. Tried without effect: "
    "buckets that are committed four at a time (it is the processor time of one interpreter), "
    "columns that are not nullable, the parallel collector, optimizations after the usual number of calls, Java 25. Java's "
    "share alone is 0.8 times inflating MapFiles, and inflating itself is once, which leaves some 60 ns of an entry for twice "
    "that: its checksum and metadata take as much. The command of its own runs after "
    "`spark-rebuild warm`. For another size: --spark-entries."
)
_MAP_FILE_SHARE = 4
_RATE = Unit.MILLION_ENTRIES_PER_S


def rows(run: Run) -> Iterator[Row]:
    """Measure one core, then two, then the case of the broker."""
    try:
        find_java()
    except JavaNotFound as missing:
        run.skip(f"Spark: {missing.message}")
        return
    yield from _throughput_rows(run)
    yield from _replay_rows(run)


def _throughput_rows(run: Run) -> Iterator[Row]:
    ledgers, count = run.scale.spark_ledgers, run.scale.spark_ledgers * run.scale.spark_ledger_entries
    content = ledger_content(run.scale.spark_ledger_entries, delayed_every=2)
    run.note(f"writing {count:,} entries, three times")
    logs = write_logs(run.new_directory(), content, ledgers)
    blobs = write_blobs(run.new_directory(), content, ledgers)
    map_ledgers = max(1, ledgers // _MAP_FILE_SHARE)
    maps, writer = write_map_files(run.new_directory(), content, map_ledgers)

    jobs = (Job(logs), Job(blobs), Job(logs, delayed_only=True), Job(maps))
    alone, blob, delayed, map_file = _ran(run, "Spark on one core", 1, jobs)
    for ran, expected in (
        (alone, content.totals(ledgers)),
        (blob, content.totals(ledgers)),
        (delayed, content.totals(ledgers, delayed_only=True)),
        (map_file, content.totals(map_ledgers)),
    ):
        require("reading with Spark", all(one.found == expected for one in ran))
    for key, what, ran in (
        ("spark read", "entry logs, eight columns", alone),
        ("spark read blobs", "blobs, eight columns", blob),
        ("spark read", "entry logs, only delayed entries are kept", delayed),
    ):
        yield per_second(key, f"one core: {what}", _readings(ran), count, unit=_RATE)
    map_count = map_ledgers * run.scale.spark_ledger_entries
    yield per_second(
        "spark map file", "one core: MapFiles of blocks, eight columns", _readings(map_file), map_count, unit=_RATE
    )
    streams = deflated_streams(writer, Compression.BLOCK)
    inflating = run.measure(
        "inflate alone",
        prepare=list[int],
        run=lambda sizes: [inflate_all(streams, Compression.BLOCK, sizes) for _ in range(map_ledgers)],
        verify=lambda sizes: len(sizes) == map_ledgers * len(streams),
    )
    ratios = tuple(
        one.cpu_ns / inflated.cpu_ns for one, inflated in zip(map_file, inflating[: len(map_file)], strict=True)
    )
    what = "one core: MapFiles of blocks, beside inflating alone"
    yield Row("spark beside inflating", what, Unit.TIMES_INFLATING, ratios, map_count)
    if len(os.sched_getaffinity(0)) == 1:
        run.skip("Spark on two cores: this process may use one")
        return
    yield from _two_core_rows(run, content, logs, alone)


def _two_core_rows(run: Run, content: LedgerStatistics, logs: str, alone: Sequence[Ran]) -> Iterator[Row]:
    ledgers, count = run.scale.spark_ledgers, run.scale.spark_ledgers * run.scale.spark_ledger_entries
    both, rebuilt = _ran(run, "Spark on two cores", 2, (Job(logs), Job(logs, bucket=run.scale.bucket)))
    require("reading with Spark", all(one.found == content.totals(ledgers) for one in both))
    _require_rebuilt(rebuilt, count, ledgers * content.delayed_count)
    yield per_second("spark read 2", "two cores: entry logs, eight columns", _readings(both), count, unit=_RATE)
    faster = tuple(one.wall_ns / two.wall_ns for one, two in zip(alone, both, strict=True))
    yield Row("spark cores", "entry logs: two cores beside one", Unit.TIMES_ONE_CORE, faster, count)
    what = "two cores: rebuild from entry logs"
    yield per_second("spark rebuild", what, _readings(rebuilt), count, unit=_RATE)
    slower = tuple(one.wall_ns / read.wall_ns for one, read in zip(rebuilt, both, strict=True))
    yield Row("spark beside reading", f"{what}, beside reading", Unit.TIMES_READING, slower, count)
    java = tuple(one.java_peak_bytes / 1e6 for one in rebuilt)
    yield Row("spark java", "two cores: rebuild, Java's memory at most", Unit.MB, java, count)


def _replay_rows(run: Run) -> Iterator[Row]:
    ledgers, bucket = -(-run.scale.spark_replayed // run.scale.bucket), run.scale.bucket
    count = ledgers * bucket
    logs = write_logs(run.new_directory(), ledger_content(bucket, delayed_every=1), ledgers)
    (warm,) = _ran(run, f"rebuild of {count:,}", None, (Job(logs, bucket=bucket),))
    _require_rebuilt(warm, count, count)
    elapsed = tuple(one.wall_ns / 1e6 for one in warm)
    yield Row("spark replay", "rebuild of all, in a session that runs", Unit.MS, elapsed, count)
    warmed = subprocess.run(
        [sys.executable, "-m", "delayed_tracker.cli.spark", "warm"], capture_output=True, text=True, check=False
    )
    require(f"spark-rebuild warm, which said {warmed.stderr[-500:]!r}", warmed.returncode == 0)
    elapsed = tuple(_command_ms(run, logs, count) for _ in run.fresh_repeats("spark-rebuild", is_long=False))
    yield Row("spark command", "spark-rebuild of all, from start to end of the process", Unit.MS, elapsed, count)


def _command_ms(run: Run, logs: str, count: int) -> float:
    directory = run.new_directory()
    command = [
        sys.executable, "-m", "delayed_tracker.cli.spark", "rebuild", "--source", logs, "--ignore-acks", "--subscription", "all",
        "--now", str(NOW_MS), "--staging", str(directory / "staging"), "--commit", f"sqlite:{directory / 'tracker.db'}",
        "--spark-option", f"spark.local.dir={directory}", "--spark-option", "spark.driver.memory=512m",
        "--set", f"delayedDeliveryMinIndexCountPerBucket={run.scale.bucket}", "--json",
    ]  # fmt: skip
    started_ns = time.perf_counter_ns()
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    elapsed_ms = (time.perf_counter_ns() - started_ns) / 1e6
    require(f"spark-rebuild, which said {done.stderr[-500:]!r}", done.returncode == 0)
    document = json.loads(done.stdout)
    require("spark-rebuild", document["written"] + document["tail"] == document["read"] == count)
    _remove(directory)
    return elapsed_ms


def _remove(directory: Path) -> None:
    """Remove what a run has left. Its Java may still be alive, and removes files of its own."""
    shutil.rmtree(directory, ignore_errors=True)


def _require_rebuilt(ran: Sequence[Ran], read: int, delayed: int) -> None:
    for one in ran:
        found = one.found
        counted = found["read"], found["delayed"], found["written"] + found["tail"], found["bad"]
        require("rebuild with Spark", counted == (read, delayed, delayed, 0) and found["written"] > 0)


def _ran(run: Run, what: str, cores: int | None, jobs: tuple[Job, ...]) -> list[list[Ran]]:
    """Run the repeats of each job, all in one session; without ``cores``, on all cores."""
    warm_ups, repeats = run.scale.spark_warm_ups, run.scale.spark_repeats
    run.note(f"{what}: {len(jobs)} jobs, {warm_ups + repeats} times each")
    directory = run.new_directory()
    plan = Plan(cores or len(os.sched_getaffinity(0)), warm_ups, repeats, str(directory), jobs)
    command = [sys.executable, "-m", "tests.benchmarks.inputs.spark_probe", json.dumps(asdict(plan))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    require(f"{what}, which said {done.stderr[-500:]!r}", done.returncode == 0)
    _remove(directory)
    return [[Ran(**ran) for ran in repeats] for repeats in json.loads(done.stdout)]


def _readings(ran: Sequence[Ran]) -> list[Reading]:
    return [Reading(one.wall_ns, one.cpu_ns, one.worker_peak_bytes) for one in ran]
