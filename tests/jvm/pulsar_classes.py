"""Fetches Pulsar's own classes, its broker, and BookKeeper's servers, once, by Maven, into the user's cache directory.

    python -m tests.jvm.pulsar_classes      # fetches them, or prints in one line why it cannot

They stay in ``delayed-tracker/<artifact of the pom.xml>`` under ``XDG_CACHE_HOME``, one directory per version and
``pom.xml``.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

POM: Final = Path(__file__).with_name("pom.xml")
SERVERS_POM: Final = POM.parents[1] / "bookkeeper" / "servers" / "pom.xml"
BROKER_POM: Final = POM.parents[1] / "cluster" / "pulsar" / "servers" / "pom.xml"
FETCH_TIMEOUT_S: Final = 300
_JAVA_MIN: Final = 17
"""Java version that Pulsar's classes are compiled for."""
_REMEDY: Final = f"install a JDK ({_JAVA_MIN} or newer) and Maven"


class NoPulsarClasses(Exception):
    """Pulsar's classes are not available; the message has the reason and the remedy."""


def find_java() -> str:
    """Return a Java that can run source files; the one of ``JAVA_HOME`` if it is set.

    Raises:
        NoPulsarClasses: there is no Java, it is too old, or it has no compiler.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(f"{home}/bin/java" if home else "java")
    if java is None:
        raise NoPulsarClasses(
            f"there is no {home}/bin/java, which JAVA_HOME promises" if home else f"there is no java: {_REMEDY}"
        )
    listed = subprocess.run([java, "--list-modules"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"^jdk\.compiler@(\d+)", listed, re.MULTILINE)
    if version is None or int(version[1]) < _JAVA_MIN:
        raise NoPulsarClasses(f"{java} is no JDK of version {_JAVA_MIN} or newer: {_REMEDY}")
    return java


def class_path(pom: Path = POM) -> str:
    """Return the class path of what a ``pom.xml`` lists for ``java -cp``, and fetch the jars if they are missing.

    Raises:
        NoPulsarClasses: there is no Maven, or it cannot fetch the jars.
    Cost: seconds to minutes the first time, while other processes that need the jars wait.
    """
    directory = _cache(pom) / _version_key(pom)
    if not directory.is_dir():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with (directory.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not directory.is_dir():
                _fetch(directory, pom)
    return str(directory / "*")


def _fetch(directory: Path, pom: Path) -> None:
    """Fetch all jars into a temporary directory and rename it, so that they appear together or not at all."""
    wanted, maven = directory.parent.name, shutil.which("mvn")
    if maven is None:
        raise NoPulsarClasses(f"there is no mvn to fetch {wanted} with: {_REMEDY}")
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix="fetching-") as place:
        jars = Path(place) / "jars"
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        command = [maven, "--batch-mode", "--quiet", "--strict-checksums", "--file", str(pom), *goal]
        try:
            ran = subprocess.run(
                command, cwd=place, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise NoPulsarClasses(f"mvn did not fetch {wanted} in {FETCH_TIMEOUT_S} s: try again") from error
        if ran.returncode:
            said = next((line for line in ran.stdout.splitlines() if "ERROR" in line), "nothing")
            raise NoPulsarClasses(f"mvn could not fetch {wanted} (status {ran.returncode}); it says: {said}")
        jars.rename(directory)


def _cache(pom: Path) -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    artifact = ET.parse(pom).findtext("artifactId")
    assert artifact is not None, pom
    return (Path(home) if home else Path.home() / ".cache") / "delayed-tracker" / artifact


def _version_key(pom: Path) -> str:
    version = ET.parse(pom).findtext("properties/pulsar.version")
    assert version is not None, pom
    return f"{version}-{hashlib.sha256(pom.read_bytes()).hexdigest()[:8]}"


if __name__ == "__main__":
    try:
        find_java()
        for needed in (POM, SERVERS_POM, BROKER_POM):
            class_path(needed)
    except NoPulsarClasses as missing:
        sys.exit(f"{missing}")
