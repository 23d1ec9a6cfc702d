"""Choice of the Java: the first that is recent enough, else the bundled one, else an error with a remedy."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from delayed_tracker.spark.errors import JavaNotFound
from delayed_tracker.spark.runtime import java
from delayed_tracker.spark.runtime.java import find_java
from tests.repository.project_tree import ROOT

NOWHERE = Path("/nonexistent")


def fake_java(home: Path, version: str) -> Path:
    """Create a program that prints the version of a Java, and return its directory."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    told = f"    java.home = {home}\\n    java.specification.version = {version}\\n"
    program.write_text(f"#!/bin/sh\nprintf '{told}' >&2\n")
    program.chmod(0o755)
    return home


def path_of(*homes: Path) -> str:
    return os.pathsep.join([*(str(home / "bin") for home in homes), "/bin"])


def test_java_home_goes_first(tmp_path: Path):
    chosen, other = fake_java(tmp_path / "a", "17"), fake_java(tmp_path / "b", "21")
    assert find_java({"JAVA_HOME": str(chosen), "PATH": path_of(other)}, debian=NOWHERE) == chosen


def test_too_old_ones_are_passed_over(tmp_path: Path):
    """Java 8 and older are skipped; version 8 reports itself as 1.8."""
    old, older, recent = (fake_java(tmp_path / name, name) for name in ("11", "1.8", "25"))
    assert find_java({"JAVA_HOME": str(old), "PATH": path_of(older)}, debian=tmp_path) == recent


def test_what_does_not_run_is_passed_over(tmp_path: Path):
    """A directory that is gone and a program that fails are skipped."""
    broken = fake_java(tmp_path / "broken", "17")
    (broken / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    good = fake_java(tmp_path / "good", "17")
    assert find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": path_of(broken)}, debian=tmp_path) == good


@pytest.mark.slow
def test_the_bundled_one_is_run_without_the_module_that_it_lacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The bundled Java starts with Spark's options; a second search finds the same wrapper."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "it's a cache"))
    home = find_java({"PATH": "/nonexistent"}, debian=NOWHERE)
    command = [
        home / "bin" / "java",
        "--add-modules=jdk.incubator.vector",
        "-Dname=two words",
        "-XshowSettings:properties",
    ]
    told = subprocess.run([*command, "-version"], capture_output=True, text=True, check=True).stderr
    assert "name = two words" in told
    assert find_java({"PATH": "/nonexistent"}, debian=NOWHERE) == home
    assert find_java({"JAVA_HOME": str(home), "PATH": "/nonexistent"}, debian=NOWHERE) == home


def test_without_any_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(java, "_BUNDLED", "a_package_that_there_is_not")
    with pytest.raises(JavaNotFound, match="needs Java 17 or newer and there is none; install one") as raised:
        find_java({"PATH": "/nonexistent"}, debian=NOWHERE)
    assert "\n" not in raised.value.message


def test_the_command_prints_where_it_is(tmp_path: Path):
    """The command prints the directory, as the Makefile needs it; with --installed the bundled Java does not count."""
    home = fake_java(tmp_path / "a", "17")
    command = [sys.executable, "-m", "delayed_tracker.spark.runtime.java", "--installed"]
    found = subprocess.run(
        command, env={"JAVA_HOME": str(home), "PATH": ""}, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout == f"{home}\n"
