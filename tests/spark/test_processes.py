"""``spark-rebuild`` as a separate process: its standard error has its own lines and none of Spark's."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from py4j.protocol import Py4JError

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.spark.job_errors import SparkJobFailed
from delayed_tracker.cli.spark.running_job import _job_errors
from delayed_tracker.spark.runtime.java import find_java
from tests.spark.harness.clusters import Cursor, Entry, Topic, write_cluster
from tests.spark.harness.standalone_cluster import JAVA_OPTIONS

TOPIC = "persistent://lab/main/few"
PROGRESS: Final = re.compile(r"\w[\w ]* \.\.\.|\w+: \d+ of \d+ tasks|compiling kernels, .*")
"""Progress lines of a command."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def started(directory: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start ``spark-rebuild ARGUMENTS`` with a small Spark; temporary files are in the directory."""
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": str(directory),
    }
    given = [argument for item in options.items() for argument in ("--spark-option", "=".join(item))]
    # Later options override earlier ones.
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "delayed_tracker.cli.spark",
            arguments[0],
            "--master",
            "local[1]",
            *given,
            *arguments[1:],
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "JAVA_HOME": str(find_java()), "TMPDIR": str(directory)},
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, Sequence[str]]:
    """Return the status, the output, and the lines of standard error that are not progress."""
    out, err = process.communicate()
    assert "Traceback" not in err
    return process.returncode, out, [line for line in err.splitlines() if not PROGRESS.fullmatch(line)]


@pytest.fixture
def source(tmp_path):
    """Return the URL of a topic with two entries."""
    return write_cluster(tmp_path / "cluster", [Topic(TOPIC, {1: [Entry(1), Entry(2)]}, {"sub": Cursor((1, -1))})])


def damage(directory: Path) -> None:
    (log,) = (directory / "cluster").rglob("*.log")
    log.write_bytes(log.read_bytes()[:-1])


@pytest.mark.long
def test_a_command_that_succeeds_says_nothing_but_how_far_it_is(tmp_path, source):
    """A successful command prints only progress; a requested log has the output of Spark and of workers."""
    log = tmp_path / "spark.log"
    status, out, others = ended(started(tmp_path, "inspect", "--source", source, "--spark-log", str(log)))
    assert (status, others) == (0, [])
    assert TOPIC in out
    assert "log4j" in log.read_text()


@pytest.mark.long
def test_an_error_of_ours_is_the_only_line(tmp_path, source):
    """An error that a worker raised is the only line, and no log of Spark is kept."""
    damage(tmp_path)
    status, out, others = ended(started(tmp_path, "inspect", "--source", source))
    assert (status, out) == (ExitCode.BAD_DATA, "")
    (line,) = others
    assert line.startswith("spark-rebuild: entry 1:1")
    assert not list(tmp_path.glob("spark-rebuild-*.log"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--spark-option", "spark.driver.memory=1x"), "Spark cannot start: .*Xmx1x"),
        pytest.param(("--master", "local[x]"), r"Spark cannot start: .*'local\[x\]'", marks=pytest.mark.long),
    ],
)
def test_a_spark_that_does_not_start_is_one_line_that_names_its_log(tmp_path, source, arguments, said):
    """If Java refuses its options or Spark its master, the command prints one line that names the log."""
    status, out, others = ended(started(tmp_path, "inspect", "--source", source, *arguments))
    assert (status, out) == (ExitCode.FAILURE, "")
    (line,) = others
    assert re.match(f"spark-rebuild: {said}", line), line
    assert line.endswith(f"; Spark's log is {next(tmp_path.glob('spark-rebuild-*.log'))}")


@pytest.fixture
def working(tmp_path, source):
    """Start a command, wait until its first job begins, and return it with the id of its Java process."""
    process = started(tmp_path, "inspect", "--source", source)
    assert process.stderr is not None
    while "describe ..." not in process.stderr.readline():
        assert process.poll() is None
    (java,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return process, int(java)


@pytest.mark.deep
def test_a_java_that_is_killed_is_one_line(tmp_path, working):
    """If Java is killed, as the kernel does when memory runs out, the command prints one line."""
    process, java = working
    os.kill(java, signal.SIGKILL)
    status, out, others = ended(process)
    assert (status, out) == (ExitCode.FAILURE, "")
    (log,) = tmp_path.glob("spark-rebuild-*.log")
    assert others == [
        f"spark-rebuild: Spark's Java process was killed by signal 9 during the job; Spark's log is {log}"
    ]


@pytest.mark.deep
def test_an_interrupt_ends_a_command_without_a_word(working):
    """An interrupted command prints nothing and ends with the status that shells expect of Ctrl-C."""
    process, _ = working
    process.send_signal(signal.SIGINT)
    assert ended(process) == (128 + signal.SIGINT, "", [])


def test_an_interrupt_that_py4j_hides_is_one():
    """Py4J closes its connection at Ctrl-C; if that is closed already, its error takes the place of the interrupt."""
    closed = Py4JError("Gateway must be connected to send cancel cmd.")
    closed.__context__ = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt), _job_errors("source"):
        raise closed
    closed.__context__ = None
    with pytest.raises(SparkJobFailed, match="Gateway must be connected"), _job_errors("source"):
        raise closed
