"""Pulsar's own trackers, measured in the same run by a harness around them: one JVM a case, JSON lines out.

The harness is a directory with ``build.sh``, which compiles it, and ``run1.sh CASE [KEY=VALUE ...]``, which prints one
JSON object for each repeat, warm-ups marked ``"warm": true``. It is copied before it is built. Before each repeat it
waits up to 40 seconds for the machine to be quiet, and it reports how many cores other programs used meanwhile.
"""

import json
import shutil
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.goals import Peer
from tests.benchmarks.measure import Run

Medians = dict[str, float]
"""Median of every number that a case prints."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the harness, and the rows that its numbers belong to."""

    arguments: tuple[str, ...]
    wanted_by: frozenset[str]
    """Names of benchmarks."""
    peers: dict[str, Callable[[Medians], float]]
    """Numbers by key of ``goals.py``."""


DISTURBED_CORES = 0.3
"""More cores used by other programs are reported."""

CASES = (
    Case(
        ("bucket",),
        frozenset({"add", "codec", "life"}),
        {
            "add": lambda found: found["add_plain_ns"],
            "add that seals": lambda found: found["seal_max_ms"],
            "seal/7 days": lambda found: found["seal_ns_per_idx"],
            "life/7 days": lambda found: found["add_all_ns"] + found["drain_ns"],
            "disk": lambda found: found["snap_bytes_per_idx"],
        },
    ),
    Case(
        ("bucket", "dist=herd"),
        frozenset({"life"}),
        {"life/one deadline": lambda found: found["add_all_ns"] + found["drain_ns"]},
    ),
    Case(
        ("bucket", "week=1"),
        frozenset({"life"}),
        {
            "life passing": lambda found: found["add_all_ns"] + found["drain_ns"],
            "drain passing": lambda found: found["drain_ns"],
        },
    ),
    Case(
        ("bucket", "ledgers=3", "per=1000000", "min=50000", "warm=1", "drain=0"),
        frozenset({"add"}),
        {"add that seals 1M": lambda found: found["seal_max_ms"]},
    ),
    Case(("contains",), frozenset({"contains"}), {"contains": lambda found: found["hit_ns"]}),
    Case(("contains", "half=1"), frozenset({"contains"}), {"contains half drained": lambda found: found["hit_ns"]}),
    Case(("recover",), frozenset({"recovery"}), {"recovery 1M": lambda found: found["first_answer_ms"]}),
    Case(
        ("recover", "ledgers=200", "warm=1"),
        frozenset({"recovery"}),
        {"recovery": lambda found: found["first_answer_ms"]},
    ),
    Case(
        ("mem", "ledgers=200", "runs=3", "warm=0"),
        frozenset({"memory"}),
        {"memory": lambda found: found["heap_B_per_idx"] + found["direct_B_per_idx"]},
    ),
)


def measure_java(run: Run, benchmarks: set[str]) -> None:
    """Run the cases of these benchmarks into ``run.peers``; skip and report those that are missing."""
    wanted = [case for case in CASES if case.wanted_by & benchmarks]
    if not wanted:
        return
    if run.java_bench is None:
        run.skip("Pulsar's own trackers: JAVA_TRACKER_BENCH names no directory with the harness")
        return
    missing = [program for program in ("java", "mvn") if shutil.which(program) is None]
    if missing:
        run.skip(f"Pulsar's own trackers: there is no {' and no '.join(missing)} on the PATH")
        return
    harness = run.new_directory() / "harness"
    shutil.copytree(run.java_bench, harness)
    run.note("building the harness around Pulsar's own trackers")
    built = subprocess.run(["sh", "build.sh"], cwd=harness, capture_output=True, text=True, check=False)
    if built.returncode:
        run.skip(f"Pulsar's own trackers: build.sh ended with status {built.returncode}: {built.stdout.strip()[-300:]}")
        return
    for case in wanted:
        _measure(run, harness, case)


def _measure(run: Run, harness: Path, case: Case) -> None:
    name = " ".join(case.arguments)
    run.note(f"peer: java {name}")
    done = subprocess.run(["sh", "run1.sh", *case.arguments], cwd=harness, capture_output=True, text=True, check=False)
    found = medians(done.stdout.splitlines())
    for key, number in case.peers.items():
        try:
            run.peers[key] = Peer("java", number(found), is_measured=True)
        except KeyError as missing:
            run.skip(f"Pulsar's own trackers: {name} (status {done.returncode}) does not tell {missing}")
            return
        run.note(f"peer: {key}: {run.peers[key].value:,.4g}")
    if (cores := found.get("foreign_during", 0.0)) > DISTURBED_CORES:
        run.skip(f"a quiet machine for Pulsar's own trackers: during {name} other programs took {cores:.1f} cores")


def medians(lines: list[str]) -> Medians:
    """Return the median of every number over the repeats that count."""
    samples: dict[str, list[float]] = {}
    for name, number in _numbers(lines):
        samples.setdefault(name, []).append(number)
    return {name: statistics.median(numbers) for name, numbers in samples.items()}


def _numbers(lines: list[str]) -> Iterator[tuple[str, float]]:
    for line in lines:
        if not line.startswith("{"):
            continue
        repeat = json.loads(line)
        if repeat.get("warm"):
            continue
        for name, value in repeat.items():
            if isinstance(value, int | float):
                yield name, value
