"""Tests of commands whose reader has exited, as in ``delayed-tracker config | head -1``: they end without a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delayed_tracker.cli.demo.sample import BUNDLED_SAMPLE

BROKEN_PIPE_STATUS = 141
"""Status that shells report for a process ended by SIGPIPE."""

SAMPLE = f"bookkeeper+file:{BUNDLED_SAMPLE / 'bookie'}?metadata={BUNDLED_SAMPLE / 'metadata.jsonl'}"

pytestmark = pytest.mark.long


def run_without_reader(*arguments: str, stderr: bool = False) -> subprocess.CompletedProcess[bytes]:
    """Run a command that writes its stdout, or its stderr, into a pipe without a reader."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        return subprocess.run(
            [sys.executable, "-m", "delayed_tracker.cli", *arguments],
            stdout=subprocess.PIPE if stderr else writing,
            stderr=writing if stderr else subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(writing)


@pytest.mark.parametrize(
    "arguments", [["config"], ["config", "--json"], ["--version"], ["--help"], ["topics", "--help"]]
)
def test_a_reader_that_went_away_is_no_failure_of_the_command(arguments):
    """The status is not 1, which means a failed check."""
    ran = run_without_reader(*arguments)
    assert (ran.returncode, ran.stderr) == (BROKEN_PIPE_STATUS, b"")


def test_a_reader_of_errors_may_go_away_too():
    """A command whose stderr goes to the same pipe ends in the same way, as in ``2>&1 | head``."""
    ran = run_without_reader("config", "--set", "x=1", stderr=True)
    assert (ran.returncode, ran.stdout) == (BROKEN_PIPE_STATUS, b"")


@pytest.mark.parametrize(
    ("arguments", "status", "is_answered"),
    [
        (["topics", "list", "--source", SAMPLE], 0, True),
        (["ledgers", "verify", "--source", SAMPLE], 0, True),
        (["stats", "--topic", "t", "--subscription", "s", "--server", "nowhere"], 2, False),
    ],
)
def test_progress_and_errors_that_do_not_fit_change_no_answer(arguments, status, is_answered):
    """On a full disk, as in ``2>log``, only the output on stderr is lost."""
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "delayed_tracker.cli", *arguments], stdout=subprocess.PIPE, stderr=full, check=False
        )
    assert (ran.returncode, bool(ran.stdout)) == (status, is_answered)


def test_an_answer_that_does_not_fit_is_a_failure():
    """A full disk on stdout is a failure, unlike a reader that has exited."""
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "delayed_tracker.cli", "config"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert ran.returncode == 1
    assert ran.stderr == b"delayed-tracker: the answer cannot be written: No space left on device\n"
