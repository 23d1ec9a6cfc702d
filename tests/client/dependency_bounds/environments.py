"""Creates environments with only the client's dependencies: the oldest declared, the last with protobuf 6, the newest.

    python -m tests.client.dependency_bounds.environments      # creates all, or prints why it cannot

Each contains the packages that one lock below ``conf/locks/client`` pins. They are kept in
``delayed-tracker/client-environments`` under ``XDG_CACHE_HOME``, one directory for each lock and Python.
"""

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.repository.project_tree import ROOT

LOCKS: Final = tuple(sorted((ROOT / "conf/locks/client").glob("*.txt")))
FETCH_TIMEOUT_S: Final = 300
_WHOLE: Final = "whole"
"""Name of a file that marks a complete environment."""


class NoEnvironment(Exception):
    """The packages are not available here; the message contains the reason."""


def environment(lock: Path) -> Path:
    """Return the interpreter of a lock's environment. Raises NoEnvironment if it has not been created."""
    directory = _directory(lock)
    if not (directory / _WHOLE).exists():
        raise NoEnvironment(f"there is no environment for {lock.name}: `make client-environments` creates it")
    return directory / "bin" / "python"


def create(lock: Path) -> None:
    """Create a lock's environment unless it exists; takes about ten seconds.

    Raises:
        NoEnvironment: the packages cannot be fetched.
    """
    directory = _directory(lock)
    whole = directory / _WHOLE
    if not whole.exists():
        directory.parent.mkdir(parents=True, exist_ok=True)
        with (directory.parent / "lock").open("w") as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            if not whole.exists():
                _fetch(lock, directory)
                whole.touch()


def _directory(lock: Path) -> Path:
    key = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    return _cache() / f"{lock.stem}-{key}"


def _fetch(lock: Path, directory: Path) -> None:
    command = [str(ROOT / ".ci/setup"), "dependencies", str(directory), str(lock)]
    given = os.environ | {"PYTHON": sys.executable}
    try:
        ran = subprocess.run(
            command, cwd=ROOT, env=given, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoEnvironment(f"{lock.name} was not installed in {FETCH_TIMEOUT_S} s: try again") from error
    if ran.returncode:
        said = (ran.stderr.strip() or "nothing").splitlines()[-1]
        raise NoEnvironment(f"{lock.name} could not be installed (status {ran.returncode}); it says: {said}")


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "delayed-tracker" / "client-environments"


def main() -> int:
    """Create all environments; return the exit code."""
    try:
        for lock in LOCKS:
            create(lock)
    except NoEnvironment as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
