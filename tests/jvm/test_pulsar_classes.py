"""Tests of fetching Pulsar's classes: once by the first process, or an error that names what is missing."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.jvm.pulsar_classes import NoPulsarClasses, class_path, find_java
from tests.repository.project_tree import ROOT

WHOLE_PATH = os.environ["PATH"]


class Commands:
    """Directory for PATH that has only the commands that a test adds."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.called = directory / "called"

    def add(self, name: str, script: str) -> None:
        """Add a shell script that records its arguments."""
        command = self.directory / name
        command.write_text(f'#!{_whole("bash")}\necho "{name} $*" >> {self.called}\n{script}\n')
        command.chmod(0o755)

    def link(self, *names: str) -> None:
        for name in names:
            (self.directory / name).symlink_to(_whole(name))

    def calls(self) -> list[str]:
        return self.called.read_text().splitlines() if self.called.exists() else []


def _whole(name: str) -> str:
    return str(shutil.which(name, path=WHOLE_PATH))


@pytest.fixture
def commands(tmp_path, monkeypatch) -> Commands:
    directory = tmp_path / "bin"
    directory.mkdir()
    made = Commands(directory)
    made.link("mkdir", "touch")
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return made


FETCHES = """
for option in "$@"; do case $option in -DoutputDirectory=*) jars=${option#*=} ;; esac; done
mkdir "$jars" && touch "$jars/pulsar.jar"
"""


def test_concurrent_processes_download_the_jars_once(commands):
    """The first process fetches while others wait and use the same jars, and later ones need no Maven."""
    commands.add("mvn", FETCHES)

    with ThreadPoolExecutor(8) as threads:
        found = {future.result() for future in [threads.submit(class_path) for _ in range(8)]}

    (path,) = found
    assert path.endswith("/*")
    assert [jar.name for jar in Path(path).parent.iterdir()] == ["pulsar.jar"]
    assert len(commands.calls()) == 1
    (commands.directory / "mvn").unlink()
    assert class_path() == path


def test_a_failed_download_leaves_no_files(commands, tmp_path):
    """A failed download leaves nothing, and the next process tries again."""
    commands.add("mvn", FETCHES + 'echo "[ERROR] no network"; exit 1')
    with pytest.raises(NoPulsarClasses, match=r"status 1\); it says: \[ERROR\] no network"):
        class_path()
    assert [path.name for path in (tmp_path / "cache/delayed-tracker/pulsar-classes").iterdir()] == ["lock"]
    commands.add("mvn", FETCHES)
    assert class_path()


def test_without_maven(commands):
    """The error without Maven has a remedy."""
    with pytest.raises(NoPulsarClasses, match=r"there is no mvn .* install a JDK"):
        class_path()


def test_without_a_recent_jdk(commands, monkeypatch):
    """No Java, an old one, one without a compiler, or a wrong JAVA_HOME is an error."""
    with pytest.raises(NoPulsarClasses, match="there is no java: install a JDK"):
        find_java()
    for modules in ["java.base@11.0.2\njdk.compiler@11.0.2", "java.base@17.0.1"]:
        commands.add("java", f"echo '{modules}'")
        with pytest.raises(NoPulsarClasses, match="is no JDK of version 17 or newer: install a JDK"):
            find_java()
    commands.add("java", "echo 'java.base@21\njdk.compiler@21'")
    assert find_java() == str(commands.directory / "java")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(NoPulsarClasses, match="there is no /nowhere/bin/java, which JAVA_HOME promises"):
        find_java()


FLIPPED = ("tests/jvm/test_framed.py", "-k", "flipped")
RECOVERY = ("tests/bookkeeper/servers/test_servers.py", "-k", "fences")


@pytest.mark.long
@pytest.mark.parametrize(
    ("test", "ci", "outcome", "status"),
    [
        (FLIPPED, "", "1 skipped", 0),
        (FLIPPED, "true", "1 error", 1),
        (RECOVERY, "", "1 skipped", 0),
        (RECOVERY, "true", "1 error", 1),
    ],
)
def test_tests_without_java_are_skipped_save_in_ci(commands, test, ci, outcome, status):
    """Without Java the tests are skipped, or fail in CI, with the reason."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *test]
    ran = subprocess.run(
        # The JIT is off, because the cache of kernels is not found with this environment either.
        command,
        cwd=ROOT,
        env=os.environ | {"CI": ci, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (ran.returncode, outcome in ran.stdout) == (status, True), ran.stdout
    assert "there is no java: install a JDK (17 or newer) and Maven" in ran.stdout


def test_ci_installs_what_is_missing(commands):
    """CI installs Debian's packages as root or by sudo, and nothing if a JDK and Maven exist."""
    script = ROOT / ".ci" / "jvm"
    commands.link("bash", "dirname", "env")
    commands.add("make", "")
    without_apt = subprocess.run([script], capture_output=True, text=True, check=False)
    assert (without_apt.returncode, commands.calls()) == (1, [])
    assert "install a JDK (17 or newer) and Maven" in without_apt.stderr

    commands.add("apt-get", "")
    commands.add("id", "echo 1000")
    commands.add("sudo", 'shift; "$@"')
    subprocess.run([script], check=True)
    installed = [call for call in commands.calls() if call.startswith("apt-get")]
    assert [call.split()[-1] for call in installed] == ["update", "maven"]
    assert sum(call.startswith("sudo -n") for call in commands.calls()) == 2
    commands.called.unlink()

    commands.add("id", "echo 0")
    subprocess.run([script], check=True)
    assert [call.split()[0] for call in commands.calls()] == ["id", "apt-get", "id", "apt-get", "make"]
    commands.called.unlink()

    commands.add("javac", "")
    commands.add("mvn", "")
    subprocess.run([script], check=True)
    assert commands.calls() == ["make --no-print-directory pulsar-classes"]
