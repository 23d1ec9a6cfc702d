"""The commands of docs/deployment/guide.md, followed as far as a machine allows that systemd does not run."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from delayed_tracker.service.security.quotas import QUOTA_KEYS, Quotas
from delayed_tracker.service.settings.settings import SETTING_KEYS
from tests.repository import documents
from tests.repository.deployment.tools import find_tool
from tests.repository.deployment.unit import PROGRAM
from tests.repository.project_tree import ROOT

GUIDE = documents.read(documents.DEPLOYMENT_GUIDE)
COMMANDS = [shlex.split(line) for line in documents.deployment_commands()]


def install(root: Path) -> None:
    """Run the guide's commands that place files, with a directory in the place of ``/``."""
    for program, *arguments in COMMANDS:
        if program == "install":
            *options, source, target = arguments
            subprocess.run([program, *options, source, f"{root}{target}"], cwd=ROOT, check=True)
        elif program == "systemd-sysusers":
            (root / "etc").mkdir(exist_ok=True)
            tool = find_tool("systemd-sysusers", "apt-get install systemd")
            subprocess.run([tool, f"--root={root}"], check=True, capture_output=True)


def test_the_commands_are_those_that_this_test_knows():
    """Each is run below, or needs what the machine of a test has not: another Python, systemd, a running service."""
    assert {program for program, *_ in COMMANDS} == {
        "install",
        "ln",
        "systemd-sysusers",
        "systemctl",
        "python3",
        "curl",
        "/opt/delayed-tracker/bin/pip",
    }
    python3, pip, *_ = COMMANDS
    assert python3 == ["python3", "-m", "venv", str(Path(PROGRAM).parents[1])]
    assert pip[0] == str(Path(PROGRAM).with_name("pip"))
    assert (ROOT / pip[-1]).is_file()


@pytest.mark.slow
def test_the_files_and_the_user_are_where_the_unit_expects_them(tmp_path: Path):
    """The installed unit is valid beside its drop-in, and names the installed user and configuration."""
    install(tmp_path)
    unit = tmp_path / "etc/systemd/system/delayed-tracker.service"
    text = unit.read_text(encoding="utf-8")
    (user,) = re.findall(r"^User=(.+)$", text, re.MULTILINE)
    assert re.search(rf"^{user}:", (tmp_path / "etc/passwd").read_text("utf-8"), re.MULTILINE)
    (configuration,) = re.findall(r"--config (\S+)", text)
    assert (tmp_path / configuration.removeprefix("/")).is_file()
    assert (unit.parent / "delayed-tracker.service.d" / "token-key.conf").is_file()

    unit.write_text(text.replace(PROGRAM, sys.executable), encoding="utf-8")
    tool = find_tool("systemd-analyze", "apt-get install systemd")
    checked = subprocess.run([tool, "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
def test_the_installed_configuration_is_accepted(tmp_path: Path):
    """`config` reads the installed file as the service does."""
    install(tmp_path)
    read = subprocess.run(
        [
            sys.executable,
            "-m",
            "delayed_tracker.cli",
            "config",
            "--config",
            tmp_path / "etc/delayed-tracker/tracker.conf",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert read.returncode == 0, read.stderr


def test_the_probe_is_at_the_default_address():
    (curl,) = [arguments for program, *arguments in COMMANDS if program == "curl"]
    assert curl[-1] == f"http://{SETTING_KEYS['httpListenAddress'].default}/health/ready"


def test_every_section_that_an_operator_looks_for_is_there():
    headings = re.findall(r"^## (.+)$", GUIDE, re.MULTILINE)
    assert headings == [
        "Install under systemd", "Install in Kubernetes", "Quotas", "Upgrade", "Back up", "Rotate", "Monitor",
    ]  # fmt: skip


def test_the_quotas_of_the_guide_are_a_file_of_quotas():
    """The example parses, and the table names every key."""
    (example,) = re.findall(r"```json\n(.+?)```", GUIDE, re.DOTALL)
    assert Quotas.parse(example.encode()).of("shop").calls_per_second == 5_000
    for key in QUOTA_KEYS:
        assert f"| `{key}` |" in GUIDE
