"""Time and memory of a rebuild and a verification of millions of delayed messages, each a command of its own, as a table.

python -m tests.benchmarks.abuse.verify_at_scale [--millions N] [--cores N] [--runs N] [--directory DIR]

The rebuild stores into ``file:``, from entry logs. Each run of the verification must find every message in its place. The
directory takes about 180 bytes a message.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks.inputs.shapes import NOW_MS
from tests.benchmarks.inputs.spark_ledgers import TOPIC, ledger_content, write_logs
from tests.benchmarks.machine import ProcessMeter
from tests.benchmarks.process_tree import ProcessTree
from tests.repository.project_tree import ROOT

_EVERY_S = 0.5
_PER_LEDGER = 100_000
_INDEXES_PER_BUCKET = 1_000_000


@dataclass(frozen=True, slots=True)
class Ran:
    """One command that has ended."""

    seconds: float
    driver_bytes: int
    """Peak memory of the Python process of the command."""
    java_bytes: int
    """Peak memory of Spark's Java, driver and executor in one."""
    worker_bytes: int
    """Peak memory of the largest Python process of a task."""
    document: dict[str, Any]


def spark_rebuild(directory: Path, *arguments: str) -> Ran:
    """Run a command of ``spark-rebuild``, and measure its memory every half second."""
    output = directory / "output.json"
    started = time.monotonic()
    with output.open("wb") as out:
        command = [sys.executable, "-m", "delayed_tracker.cli.spark", *arguments, "--json"]
        process = subprocess.Popen(command, cwd=ROOT, stdout=out)
        driver = java = worker = 0
        while process.poll() is None:
            time.sleep(_EVERY_S)
            try:
                peaks = ProcessTree(process.pid).peaks()
                driver = max(driver, ProcessMeter(process.pid).peak_bytes)
            except OSError:
                continue  # a process has ended between two looks
            java, worker = max(java, peaks.java), max(worker, peaks.worker)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}: {output.read_text(encoding='utf-8')[-2_000:]}")
    return Ran(time.monotonic() - started, driver, java, worker, json.loads(output.read_text(encoding="utf-8")))


def measure(directory: Path, millions: int, cores: int, runs: int) -> None:
    """Write the ledgers, rebuild them, verify them, and print a row for each command."""
    count = millions * 1_000_000
    source = write_logs(directory, ledger_content(_PER_LEDGER, delayed_every=1), count // _PER_LEDGER)
    print(f"{count:,} delayed messages in {count // _PER_LEDGER:,} ledgers, {cores} cores\n")
    print("| command | seconds | messages a second | driver MB | Java MB | largest worker MB |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    storage = f"file://{directory / 'storage'}"
    read = ["--source", source, "--topic", str(TOPIC), "--subscription", "all", "--ignore-acks", "--now", str(NOW_MS)]
    read += ["--master", f"local[{cores}]", "--spark-option", f"spark.local.dir={directory / 'spark'}"]
    read += ["--set", f"delayedDeliveryMinIndexCountPerBucket={_INDEXES_PER_BUCKET}"]
    staging = ["--commit", storage, "--staging", str(directory / "staging")]
    ran = spark_rebuild(directory, "rebuild", *read, *staging)
    print_row("rebuild", ran, count)
    for number in range(runs):
        ran = spark_rebuild(directory, "verify", *read, "--against", storage)
        print_row(f"verify, run {number + 1}", ran, count)
        print(f"  {json.dumps(ran.document)[:600]}", file=sys.stderr)


def print_row(name: str, ran: Ran, count: int) -> None:
    """Print one row of the table."""
    memory = [f"{size / 1e6:,.0f}" for size in (ran.driver_bytes, ran.java_bytes, ran.worker_bytes)]
    print(f"| {name} | {ran.seconds:,.0f} | {count / ran.seconds:,.0f} | {' | '.join(memory)} |", flush=True)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, default=20)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--runs", type=int, default=2, help="verifications")
    parser.add_argument("--directory", type=Path, default=None, help="place for the files; default: a temporary one")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.directory) as directory:
        measure(Path(directory), given.millions, given.cores, given.runs)


if __name__ == "__main__":
    main()
