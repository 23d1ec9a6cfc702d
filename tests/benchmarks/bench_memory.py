"""Memory for each pending index: a million in 20 sealed buckets over a week, each shape in a process of its own."""

import statistics
import subprocess
import sys

import pytest

from tests.benchmarks.measure import REPEATS, report
from tests.project_tree import ROOT

COUNT = 1_000_000


@pytest.mark.parametrize("shape", ["unloaded", "loaded", "heap_and_dict"])
def test_memory(shape: str):
    """Resident bytes above the start of the process, snapshots not counted."""
    samples = []
    for _ in range(REPEATS):
        command = [sys.executable, "-m", "tests.benchmarks.memory_probe", shape]
        probe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        samples.append(int(probe.stdout) / COUNT)
    assert min(samples) > 0
    name = "peer: heap and dict" if shape == "heap_and_dict" else f"sealed, {shape}"
    report(
        f"memory, {name:<36} {COUNT:>11,}  {statistics.median(samples):>9,.2f} bytes an index  "
        f"({min(samples):,.2f} to {max(samples):,.2f})"
    )
