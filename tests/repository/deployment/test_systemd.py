"""The unit of systemd is valid and tight, and the service works under its limits."""

import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.service.settings.settings import SETTING_KEYS
from tests.repository.deployment.tools import CONF, find_tool
from tests.repository.deployment.unit import UNIT, directives, installed
from tests.repository.documents import read

DROP_IN = CONF / "systemd" / "token-key.conf"
FROM_DEBIAN = "apt-get install systemd"


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    tool = find_tool("systemd-analyze", FROM_DEBIAN)
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)


def with_drop_in(directory: Path) -> Path:
    unit = installed(directory)
    below = directory / f"{UNIT.name}.d"
    below.mkdir()
    shutil.copy(DROP_IN, below)
    return unit


@pytest.mark.slow
@pytest.mark.parametrize("install", [installed, with_drop_in], ids=["unit", "drop-in"])
def test_systemd_finds_no_fault(tmp_path: Path, install):
    """`systemd-analyze verify` knows every directive and accepts every value."""
    checked = analyze("verify", "--man=no", install(tmp_path))
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.slow
def test_verify_refuses_what_is_wrong(tmp_path: Path):
    """The check above can fail: a misspelt directive is reported."""
    unit = installed(tmp_path)
    unit.write_text(unit.read_text(encoding="utf-8").replace("LimitNOFILE", "LimitNoFiles"), encoding="utf-8")
    assert "LimitNoFiles" in analyze("verify", "--man=no", unit).stderr


@pytest.mark.slow
def test_the_exposure_is_what_the_guide_states(tmp_path: Path):
    """`systemd-analyze security` gives the score of docs/deployment, on the scale from 0 (tight) to 10."""
    rated = analyze("security", "--offline=true", "--no-pager", installed(tmp_path))
    score = re.search(r"Overall exposure level for \S+: (\d+\.\d)", rated.stdout)
    assert score is not None, rated.stderr
    stated = re.search(r"exposure level of (\d+\.\d)", read("docs/deployment/guide.md"))
    assert stated is not None
    assert float(score[1]) <= float(stated[1]) <= 1.5


def test_a_wrong_configuration_is_not_started_again():
    """A start that can only fail the same way is not repeated."""
    assert directives()["RestartPreventExitStatus"] == [str(int(ExitCode.USAGE))]


def test_a_stop_has_more_time_than_the_service_takes():
    """The kill by systemd comes after the grace period of the service."""
    (seconds,) = directives()["TimeoutStopSec"]
    assert int(seconds) * 1_000 > int(SETTING_KEYS["shutdownGraceMillis"].default)


def test_the_drop_in_sets_the_key_of_tokens():
    """Its variable is a setting of the service, and the credential is the one that is loaded."""
    found = directives(DROP_IN)
    (variable,), (credential,) = found["Environment"], found["LoadCredential"]
    name, _, value = variable.partition("=")
    keys = {f"TRACKER_{key}".upper() for key in SETTING_KEYS}
    assert name.removeprefix("TRACKER_").replace("_", "").upper() in {key.removeprefix("TRACKER_") for key in keys}
    assert value == f"file://%d/{credential.partition(':')[0]}"


def allowed_calls() -> set[str]:
    """Expand the unit's filter of system calls."""
    allowed: set[str] = set()
    for row in directives()["SystemCallFilter"]:
        calls = {call for name in row.removeprefix("~").split() for call in expand(name)}
        allowed = allowed - calls if row.startswith("~") else allowed | calls
    # systemd always allows what it needs itself to start a process.
    return allowed | expand("@default")


def expand(name: str) -> set[str]:
    if not name.startswith("@"):
        return {name}
    listed = analyze("syscall-filter", name).stdout
    inner = re.findall(r"^ {4}(@?[a-z_0-9-]+)$", listed, re.MULTILINE)
    return {call for member in inner for call in expand(member)}


def test_the_filter_knows_what_it_forbids():
    """Calls that change the machine are not in it, those of every program are."""
    allowed = allowed_calls()
    assert {"read", "mmap", "futex", "fsync", "epoll_wait"} <= allowed
    assert not {"mount", "ptrace", "reboot", "setuid", "chown", "init_module"} & allowed


def test_signals_are_those_that_the_service_handles():
    """A reload is SIGHUP, a stop SIGTERM, systemd's default."""
    found = directives()
    assert found["ExecReload"] == ["/bin/kill -HUP $MAINPID"]
    assert "KillSignal" not in found
    assert signal.SIGHUP.name.removeprefix("SIG") == "HUP"
