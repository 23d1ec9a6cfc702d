"""``spark-rebuild warm``: it keeps Spark's classes once, and the next job uses them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.spark.runtime.java import find_java
from delayed_tracker.spark.runtime.java_start import archive_of
from tests.repository.project_tree import ROOT

SAMPLE = "tracker/delayed_tracker/cli/sample"
HANGS_S = 240
"""A start without the archive takes 70 s on a machine with six programs on two cores."""
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(5 * HANGS_S)]


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    """Return a new cache directory; machine code stays where it is."""
    if archive_of(find_java(), {"spark.master": "local[*]"}) is None:
        pytest.skip("this Java cannot keep classes")
    numba = Path(os.environ.get("NUMBA_CACHE_DIR") or Path.home() / ".cache" / "delayed-tracker")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(numba))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    return tmp_path / "the cache"


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; one that hangs says where."""
    command = [sys.executable, "-X", "faulthandler", "-m", "delayed_tracker.cli.spark", *arguments, "--json"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            stdout, stderr = running.communicate(timeout=HANGS_S)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGABRT)
            pytest.fail(f"{arguments[0]} has not ended in {HANGS_S} s: {running.communicate()[1]}")
    return subprocess.CompletedProcess(command, running.returncode, stdout, stderr)


def inspected(log: Path) -> object:
    source = f"bookkeeper+file:{SAMPLE}/bookie?metadata={SAMPLE}/metadata.jsonl"
    # Java's log of where each class is from.
    option = f"spark.driver.extraJavaOptions=-Xlog:class+load:file={log}"
    done = ran("inspect", "--source", source, "--spark-option", option)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["topics"]


def test_jobs_use_the_classes_that_were_kept(cache, tmp_path):
    """Most classes are from the archive then, none after it was damaged; the answer is the same."""
    log = tmp_path / "classes"
    warmed = ran("warm")
    assert warmed.returncode == 0, warmed.stderr
    (file,) = cache.rglob("*.jsa")
    assert json.loads(warmed.stdout) == {"file": str(file), "bytes": file.stat().st_size}

    found = inspected(log)
    lines = log.read_text().splitlines()
    assert sum("shared objects file (top)" in line for line in lines) > len(lines) / 2

    whole = file.read_bytes()
    for damaged in (whole[: 1 << 20], whole[: len(whole) // 2] + bytes(4096) + whole[len(whole) // 2 + 4096 :]):
        file.chmod(0o644)
        file.write_bytes(damaged)
        assert inspected(log) == found
        assert "shared objects file (top)" not in log.read_text()


def test_a_cache_that_cannot_be_written_is_named(cache):
    """A file is where the directory should be."""
    cache.write_text("")
    done = ran("warm")
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "XDG_CACHE_HOME" in done.stderr
    assert "Traceback" not in done.stderr
