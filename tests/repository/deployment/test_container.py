"""The Containerfile passes its linter and keeps its promises; its steps run on a Debian in a deep test."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.repository.deployment.test_kubernetes import CONTAINER, POD
from tests.repository.deployment.tools import CONF, find_tool

FILE = CONF / "container" / "Containerfile"
LINES = re.sub(r"\\\n\s*", "", FILE.read_text(encoding="utf-8")).splitlines()


def instructions(name: str) -> list[str]:
    return [line.partition(" ")[2] for line in LINES if line.startswith(f"{name} ")]


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    command = [find_tool("hadolint"), "--no-color", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_linter_finds_nothing():
    """hadolint, with the shell linter that it contains."""
    checked = lint(FILE)
    assert (checked.returncode, checked.stdout) == (0, "")


@pytest.mark.slow
def test_the_linter_finds_a_fault(tmp_path: Path):
    """The check above can fail."""
    wrong = tmp_path / "Containerfile"
    wrong.write_text("FROM debian\nRUN cd /tmp\n", encoding="utf-8")
    assert "DL3006" in lint(wrong).stdout


def test_the_image_runs_as_the_user_of_the_pod():
    (user,) = instructions("USER")
    security = POD["spec"]["securityContext"]
    assert user == f"{security['runAsUser']}:{security['runAsGroup']}"


def test_the_image_starts_what_the_pod_starts():
    """The pod replaces the arguments with the same ones, and uses the ports that the image names."""
    (command,) = instructions("CMD")
    assert command == str(CONTAINER["args"]).replace("'", '"')
    (ports,) = instructions("EXPOSE")
    assert [int(port) for port in ports.split()] == [row["containerPort"] for row in CONTAINER["ports"]]


def test_what_is_installed_is_pinned():
    """Packages are hashed wheels of the locks, or the wheel that was built from the checkout, and nothing else."""
    installs = [row for line in instructions("RUN") for row in line.split("&&") if "pip install" in row]
    assert len(installs) == 3
    for row in installs:
        assert "--require-hashes" in row or "--no-index" in row
        assert "--only-binary=:all:" in row or "/wheels/" in row


def test_kernels_are_compiled_into_the_image_for_any_cpu():
    """Both stages use the same cache and processor, or the kernels would be compiled again at each start."""
    build, final = (dict(re.findall(r"(NUMBA_\w+)=(\S+)", line)) for line in instructions("ENV"))
    assert build == final == {"NUMBA_CACHE_DIR": "/opt/delayed-tracker/kernels", "NUMBA_CPU_NAME": "generic"}
    assert any(line.endswith("delayed-tracker warm") for line in instructions("RUN"))
