"""The repository itself: its layout, its commands, its lock files, and fresh generated files."""

import importlib.util
import os
import re
import subprocess
import sys
from types import ModuleType

import pytest

from tests.repository.project_tree import PROJECT, ROOT, text_files, top_level

ALLOWED_TOP_LEVEL = {
    ".ci",
    ".gitignore",
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "conf",
    "docs",
    "grafana",
    "proto",
    "pulsar-plugin",
    "pyproject.toml",
    "snapshot_storage",
    "spark_rebuild",
    "tests",
    "tracker",
}
LOCKS = sorted((ROOT / "conf" / "locks").rglob("*.txt"))
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)
MAKE_TARGETS = {"bench", "demo", "help", "lint", "proto", "serve", "test", "test-deep"}


def makefile() -> str:
    return (ROOT / "Makefile").read_text(encoding="utf-8")


def load_script(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("script", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_top_level_holds_only_what_the_layout_names():
    """The top level has the parts of the system and nothing else."""
    assert set(top_level()) <= ALLOWED_TOP_LEVEL


def test_no_file_names_a_machine():
    """No file contains a home directory or a checkout path of a developer's machine."""
    machine_path = re.compile(r"(?<![\w.:/~-])/(?:home|root|Users|work|farm|mnt)/[\w.-]+")
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if machine_path.search(line)
    ]
    assert found == []


def test_every_make_target_says_what_it_does():
    """`make help` prints a line for every target for users, and the promised targets exist."""
    phony = set(" ".join(re.findall(r"^\.PHONY: (.*)$", makefile(), re.MULTILINE)).split())
    printed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    described = set(re.findall(r"^  make ([a-z-]+) +\S", printed, re.MULTILINE))
    assert described == phony
    assert described >= MAKE_TARGETS


def test_ci_runs_the_linters_and_the_readmes_test_command():
    """CI runs the commands that a developer runs."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    text = script.read_text(encoding="utf-8")
    assert "set -euo pipefail" in text
    assert re.search(r"^make lint$", text, re.MULTILINE)
    assert re.search(r"^make test\b", text, re.MULTILINE)


@pytest.mark.parametrize(
    "script", [".ci/audit", ".ci/deployment/fetch", ".ci/java", ".ci/jvm", ".ci/run", ".ci/setup", ".ci/debian-tools"]
)
def test_shell_scripts_parse(script: str):
    """Shell scripts have no syntax errors, even those that seldom run."""
    subprocess.run(["bash", "-n", str(ROOT / script)], check=True)


def test_setup_without_a_recent_python_says_what_to_do(tmp_path):
    """A machine without Python 3.11 gets a message, not a traceback."""
    bash = subprocess.run(["bash", "-c", "command -v bash"], capture_output=True, text=True, check=True).stdout.strip()
    bare = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    command = [bash, str(ROOT / ".ci" / "setup"), "dependencies", str(tmp_path / "venv"), "unused.txt"]
    missing = subprocess.run(command, env=bare, capture_output=True, text=True, check=False)
    assert missing.returncode == 1
    assert missing.stderr.startswith("Python 3.11 or newer is needed")
    wrong = subprocess.run(command, env=bare | {"PYTHON": "/absent"}, capture_output=True, text=True, check=False)
    assert wrong.returncode == 1
    assert wrong.stderr.startswith("PYTHON=/absent is not a Python 3.11 or newer")


@pytest.mark.parametrize("lock", LOCKS, ids=[lock.name for lock in LOCKS])
def test_locks_pin_by_hash_and_name_no_host(lock):
    """Every requirement has hashes, and no lock names a package index: the installer's configuration does."""
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text
    blocks = re.split(r"\n(?=[a-z0-9])", text[text.index("\n", text.index("make lock")) + 1 :])
    for block in blocks:
        assert PINNED.match(block)
        assert "--hash=sha256:" in block
    names = [name for name, _ in PINNED.findall(text)]
    assert len(names) == len(set(names)), "one version for every Python"


def test_locks_agree_and_cover_the_declared_dependencies():
    """The server's lock is a part of the developers' lock, which pins everything that pyproject.toml names."""
    pins = {lock.stem: dict(PINNED.findall(lock.read_text(encoding="utf-8"))) for lock in LOCKS}
    assert pins["server"].items() <= pins["dev"].items()
    names = {
        re.split(r"[\[>=<;]", requirement)[0].strip()
        for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
        for requirement in group
    } - {PROJECT["name"]}
    assert names <= pins["dev"].keys()


def test_generated_protobuf_code_is_fresh():
    """The checked-in code is the output of the pinned generator."""
    script = load_script("proto/regenerate.py")
    assert script.main(["--check"]) == 0


def test_stale_missing_and_left_over_files_are_told_apart():
    """The freshness check reports every kind of difference."""
    script = load_script("proto/regenerate.py")
    fresh = {"a_pb2.py": b"1", "b_pb2.py": b"2", "c_pb2.py": b"3"}
    checked_in = {"a_pb2.py": b"1", "b_pb2.py": b"0", "d_pb2.py": b"4"}
    assert script.differences(fresh, checked_in) == [
        "b_pb2.py: stale",
        "c_pb2.py: missing",
        "d_pb2.py: left over, no source generates it",
    ]


@pytest.mark.slow
def test_imports_between_layers_point_inward():
    """The import contracts in pyproject.toml hold."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_changelog_has_the_current_version():
    """The changelog has the current version."""
    headings = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == PROJECT["version"]
