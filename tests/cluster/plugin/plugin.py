"""Builds the plugin for Pulsar's broker by Maven, once for each state of its sources, into the user's cache directory.

python -m tests.cluster.plugin.plugin      # builds it, or prints why it cannot
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.jvm.pulsar_classes import NoPulsarClasses
from tests.repository.project_tree import ROOT

SOURCES: Final = ROOT / "pulsar-plugin"
PROTO: Final = ROOT / "proto" / "delayed_tracker" / "v1" / "tracker.proto"
BUILD_TIMEOUT_S: Final = 600
FACTORY: Final = "delayedtracker.pulsar.ServiceDelayedDeliveryTrackerFactory"


def plugin_jar(line: str = "4.2") -> Path:
    """Return the jar for a release line of Pulsar, and build it if it is missing; its unit tests run on the way.

    Raises:
        NoPulsarClasses: there is no Maven, or the plugin does not build.
    """
    home = os.environ.get("XDG_CACHE_HOME")
    cache = (Path(home) if home else Path.home() / ".cache") / "delayed-tracker" / "pulsar-plugin"
    directory = cache / f"{line}-{_state_of_sources()}"
    jar = directory / f"delayed-tracker-pulsar-{line}.jar"
    if not jar.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not jar.exists():
                _build(directory, line)
    return jar


def _build(directory: Path, line: str) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise NoPulsarClasses("there is no mvn to build the plugin with: install a JDK (17 or newer) and Maven")
    building = directory.with_name(f"building-{os.getpid()}")
    options = [f"-Doutput.directory={building}", *([f"-Ppulsar-{line}"] if line != "4.2" else [])]
    ran = subprocess.run(
        [maven, "--batch-mode", "--quiet", "--file", str(SOURCES / "pom.xml"), *options, "package"],
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if ran.returncode:
        shutil.rmtree(building, ignore_errors=True)
        raise NoPulsarClasses(f"mvn could not build the plugin (status {ran.returncode}):\n{ran.stdout[-4_000:]}")
    building.rename(directory)


def _state_of_sources() -> str:
    digest = hashlib.sha256(PROTO.read_bytes())
    for path in sorted([SOURCES / "pom.xml", *(SOURCES / "src").rglob("*.java")]):
        digest.update(str(path.relative_to(SOURCES)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


if __name__ == "__main__":
    try:
        plugin_jar()
    except NoPulsarClasses as missing:
        sys.exit(f"{missing}")
