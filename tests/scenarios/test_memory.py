"""The memory that a tracker reports, beside the resident memory of a process that holds a million positions."""

import subprocess
import sys

import pytest

from tests.repository.project_tree import ROOT
from tests.scenarios.memory_probe import SHAPES

TOLERANCE = 0.25


def report_and_measure(shape: str) -> tuple[int, int]:
    command = [sys.executable, "-m", "tests.scenarios.memory_probe", shape]
    probe = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    reported, measured = map(int, probe.stdout.split())
    return reported, measured


def assert_close(shape: str) -> None:
    reported, measured = report_and_measure(shape)
    assert abs(reported - measured) <= TOLERANCE * measured, f"{reported:,} bytes are reported, {measured:,} are held"


def shapes(kind: str) -> list[object]:
    """Return the shapes of a kind of tracker; in the standard run, the first and the last two."""
    names = [shape for shape in SHAPES if shape.startswith(kind)]
    return [pytest.param(name, marks=[pytest.mark.deep] if name in names[1:-2] else []) for name in names]


@pytest.mark.long
@pytest.mark.parametrize("shape", shapes("bucket"))
def test_row_L7_the_reported_size_counts_bitmaps_rows_and_segments(shape: str) -> None:
    """The reported size counts bitmaps, rows and segments, loaded or gone; Pulsar counts queue capacity."""
    assert_close(shape)


@pytest.mark.long
@pytest.mark.parametrize("shape", shapes("in-memory"))
def test_row_R4_the_reported_size_of_the_in_memory_tracker_is_what_it_holds(shape: str) -> None:
    """The reported size includes small batches, small ledgers and leases; Pulsar reports a tenth of it."""
    assert_close(shape)
