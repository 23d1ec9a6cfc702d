"""The output of Spark's processes is bounded in memory, and goes to a file on request."""

import logging
import os
import re
import resource
from pathlib import Path

import pytest

from delayed_tracker.cli.spark.spark_output import KEPT_BYTES_MAX, SparkOutput
from delayed_tracker.core.values.errors import InvalidInput


@pytest.fixture(autouse=True)
def temporary(monkeypatch, tmp_path):
    """Direct temporary files to this directory."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def kept(output: SparkOutput) -> bytes:
    """Return the content of the file that the output names."""
    named = re.fullmatch("Spark's log is (.+)", output.place())
    assert named is not None
    return Path(named[1]).read_bytes()


def test_the_last_bytes_are_kept():
    """The last bytes are kept however much is written, and a writer never waits for a reader."""
    lines = [b"%07d\n" % number for number in range(3 * KEPT_BYTES_MAX // 8)]
    with SparkOutput(None) as output:
        with os.fdopen(os.dup(output.fileno()), "wb") as writer:
            writer.writelines(lines)
        assert kept(output) == b"".join(lines)[-KEPT_BYTES_MAX:]


def test_nothing_is_left_behind_unless_it_is_wanted(temporary):
    """Files are not left behind by default, and a second output leaves no log handler beside the silent one."""
    with SparkOutput(None):
        pass
    handlers = [*logging.getLogger().handlers]
    with SparkOutput(None) as output:
        os.write(output.fileno(), b"WARN\n")
    assert logging.getLogger().handlers == handlers
    assert not list(temporary.iterdir())


def test_log_lines_of_libraries_are_taken_too(capsys):
    """Log lines of libraries go to the output instead of stderr."""
    with SparkOutput(None) as output:
        logging.getLogger("py4j").error("Java has gone")
        assert kept(output) == b"Java has gone\n"
    assert capsys.readouterr().err == ""


def test_a_library_that_logs_after_the_end_prints_nothing(monkeypatch, capsys):
    """A thread of py4j that notices the end of Java late prints no traceback, whichever handler it has found."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    with SparkOutput(None):
        found = [*root.handlers]
    late = logging.LogRecord("root", logging.ERROR, "", 0, "Exception while sending command.", (), None)
    for handler in found:
        handler.handle(late)
    logging.error("Exception while sending command.")  # noqa: LOG015  # as py4j does
    assert capsys.readouterr().err == ""


def test_a_full_disk_costs_lines_of_libraries_only(tmp_path, capsys):
    """A log that no longer takes lines prints no traceback in place of them."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with SparkOutput(tmp_path / "spark.log"):
            logging.getLogger("py4j").error("Java has gone")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "spark.log").read_bytes() == b""
    assert capsys.readouterr().err == ""


def test_a_file_is_appended_to(tmp_path):
    """The file is appended to, and its old content is not searched for errors."""
    file = tmp_path / "spark.log"
    file.write_text("OldError: yesterday\n")
    with SparkOutput(file) as output:
        os.write(output.fileno(), b'loading\nException in thread "main" java.lang.NewError: today\n\tat x\n')
        assert output.first_error() == "java.lang.NewError: today"
        assert output.place() == f"Spark's log is {file}"
    assert file.read_text().startswith("OldError: yesterday\nloading\n")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """The error for a file that cannot be written names the option."""
    with pytest.raises(
        InvalidInput, match=r"--spark-log: .* is not valid; Is a directory: give a file that can be written"
    ):
        SparkOutput(tmp_path)


def test_a_full_disk_costs_the_log_only(monkeypatch, tmp_path):
    """If the log cannot be kept, the error that it belongs to is still reported."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with SparkOutput(None) as output:
        assert output.place() == "Spark's log cannot be kept: No such file or directory"
