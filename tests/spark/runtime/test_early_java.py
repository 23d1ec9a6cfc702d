"""Java that is started before a command's imports: for jobs on this machine, and used only if it is the right one."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark import SparkContext

from delayed_tracker.cli.spark.starting import early_java as module
from delayed_tracker.cli.spark.starting.early_java import early_java, take_early_java
from delayed_tracker.spark.jobs import session
from delayed_tracker.spark.jobs.session import build_session
from delayed_tracker.spark.runtime import java_start
from delayed_tracker.spark.runtime.java_start import LATE_OPTIMIZER, UNCHECKED_ARROW, JavaStart
from delayed_tracker.spark.runtime.session_settings import session_settings

NAME = "spark-rebuild rebuild"


@pytest.fixture
def programs(tmp_path, monkeypatch) -> Path:
    """Make Spark's program one that writes its arguments and options to the returned file, and waits."""
    told = tmp_path / "told"
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$SPARK_SUBMIT_OPTS" "$@" >> {told}\nexec cat\n')
    program.chmod(0o755)
    monkeypatch.setattr(java_start, "_find_spark_home", lambda: str(tmp_path))
    monkeypatch.setattr(java_start, "find_java", lambda: tmp_path)
    # Restored after the test.
    monkeypatch.setenv("JAVA_HOME", os.environ.get("JAVA_HOME", ""))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    return told


def started_for(*arguments: str) -> bool:
    with early_java(arguments):
        return bool(module._started)


def test_a_job_on_this_machine_starts_java(programs):
    """With any form of its options."""
    assert started_for("rebuild", "--source", "ledger:x")
    assert started_for("inspect", "--master=local[2]", "--spark-option=spark.driver.memory=1g")
    assert not module._started


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--help",),
        ("rebuild", "--help"),
        ("py-files", "x.zip"),
        ("warm",),
        ("rebuild", "--master", "spark://host:7077"),
        ("rebuild", "--master", "yarn"),
        ("rebuild", "--spark-log", "/nonexistent/directory/log"),
    ],
)
def test_other_command_lines_start_nothing(programs, arguments):
    """Help, other commands, clusters, and what the command will refuse."""
    assert not started_for(*arguments)


def test_nothing_is_started_under_spark_submit_or_beside_a_session(programs, monkeypatch):
    """A Java is there already."""
    monkeypatch.setattr(SparkContext, "_gateway", object())
    assert not started_for("rebuild")
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert not started_for("rebuild")


def test_a_command_takes_the_java_of_its_own_settings(programs):
    """One Java is started, and its owner is the command."""
    options = {"spark.driver.memory": "1g"}
    with early_java(["rebuild", "--spark-option", "spark.driver.memory=1g"]):
        taken = take_early_java(session_settings(name=NAME, options=options), None)
    assert taken is not None
    assert taken.start.process.poll() is None
    taken.start.discard()
    with taken.output:
        pass


@pytest.mark.parametrize(
    ("options", "log"), [({"spark.driver.memory": "2g"}, None), ({}, Path("spark.log")), ({"spark.x": "=1"}, None)]
)
def test_a_java_of_other_settings_is_ended(programs, options, log):
    """The command then starts its own."""
    with early_java(["rebuild"]):
        (early,) = module._started
        assert take_early_java(session_settings(name=NAME, options=options), log) is None
    assert early.start.process.returncode is not None


def test_a_command_that_fails_before_spark_leaves_no_java(programs, tmp_path):
    """No process and no temporary file stay."""
    with suppress(SystemExit), early_java(["rebuild"]):
        (early,) = module._started
        raise SystemExit(2)
    assert early.start.process.returncode is not None
    assert not list(tmp_path.glob("spark-rebuild-*"))


def options_of(settings, told: Path, **given) -> str:
    start = JavaStart(settings, output=None, **given)
    while not (told.exists() and told.read_text().endswith("\n")):
        assert start.process.poll() is None
    start.discard()
    return told.read_text()


def test_the_options_of_the_user_go_last(programs, monkeypatch):
    """The later of two options wins."""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Dmine=1")
    assert options_of(session_settings(), programs).startswith(
        " ".join([*LATE_OPTIMIZER, *UNCHECKED_ARROW, "-Dmine=1", "--conf"])
    )


def test_java_for_a_cluster_gets_no_options(programs):
    """The driver's Java then is as the cluster's users know it."""
    assert options_of(session_settings("spark://host:7077"), programs).startswith(" --conf")


def test_places_with_spaces_are_one_option(programs):
    """Spark's launcher divides the variable at spaces that are not quoted."""
    told = options_of(session_settings(), programs, class_options=["-XX:SharedArchiveFile=/a cache/x.jsa"])
    assert '"-XX:SharedArchiveFile=/a cache/x.jsa"' in told


def test_a_local_session_has_no_web_pages_unless_it_is_asked_for_them():
    """A cluster keeps Spark's own default."""
    asked = {"spark.ui.enabled": "true"}
    assert session_settings("local[2]")["spark.ui.enabled"] == "false"
    assert session_settings("local[2]", options=asked)["spark.ui.enabled"] == "true"
    assert "spark.ui.enabled" not in session_settings("spark://host:7077")
    assert "spark.python.daemon.module" not in session_settings("spark://host:7077")


def test_formats_are_registered_only_where_a_command_reads_them(spark, monkeypatch):
    """Before the first one, Spark starts two Python processes that import all packages with its prefix."""
    registered = []
    monkeypatch.setattr(session, "register_sources", registered.append)
    build_session(with_formats=False)
    assert not registered
    build_session()
    assert len(registered) == 1
