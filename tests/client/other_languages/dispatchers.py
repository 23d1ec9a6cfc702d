"""Compiles dispatchers in Go and Java, with the stubs that their own generators make of the project's proto files.

    python -m tests.client.other_languages.dispatchers      # compiles both, or prints why it cannot

They are kept in ``delayed-tracker/dispatchers`` under ``XDG_CACHE_HOME``, one directory for each language and each
version of its sources and of the proto files. Dependencies are pinned: by ``go.sum`` with hashes, by ``pom.xml``.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.repository.project_tree import ROOT

BUILD_TIMEOUT_S: Final = 600
_PROTO: Final = ROOT / "proto"
_FILES: Final = (
    "delayed_tracker/v1/tracker.proto",
    "delayed_tracker/v1/ledger.proto",
    "delayed_tracker/snapshot/v1/snapshot.proto",
)
_SOURCES: Final = Path(__file__).parent
_GENERATOR: Final = Path(sys.prefix) / "generator" / "bin" / "python"


class NoDispatcher(Exception):
    """A dispatcher cannot be compiled here; the message contains the reason."""


@dataclass(frozen=True, slots=True)
class Language:
    """Commands that compile and run the dispatcher of a language."""

    name: str
    build: Callable[[Path], None]
    """Called in a directory with its sources."""
    command: Callable[[Path], list[str]]
    """Returns the command for that directory, complete and under its final name."""

    def dispatcher(self) -> list[str]:
        """Return the command that runs it. Raises NoDispatcher if it has not been compiled."""
        directory = self._directory()
        if not directory.is_dir():
            raise NoDispatcher(f"the dispatcher in {self.name} is not compiled: `make other-languages` does so")
        return self.command(directory)

    def compile(self) -> None:
        """Compile it unless it is compiled already; takes one to three minutes.

        Raises:
            NoDispatcher: a compiler or a dependency is missing.
        """
        directory = self._directory()
        if not directory.is_dir():
            directory.parent.mkdir(parents=True, exist_ok=True)
            with (directory.parent / f"{self.name}.lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not directory.is_dir():
                    self._compile_into(directory)

    def _directory(self) -> Path:
        return _cache() / f"{self.name}-{self._key()}"

    def _compile_into(self, directory: Path) -> None:
        """Move all files to the final name in one step."""
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix="compiling-") as place:
            built = Path(place) / "built"
            shutil.copytree(_SOURCES / self.name, built)
            self.build(built)
            built.rename(directory)

    def _key(self) -> str:
        sources = [*(_PROTO / file for file in _FILES), *(_SOURCES / self.name).iterdir()]
        contents = b"\0".join(path.name.encode() + b"\0" + path.read_bytes() for path in sorted(sources))
        return hashlib.sha256(contents).hexdigest()[:16]


def _build_go(directory: Path) -> None:
    go = _program("go", "Go (1.24 or newer)")
    if not _GENERATOR.exists():
        raise NoDispatcher("there is no protoc: `make lint` installs it")
    plugins = directory / "plugins"
    plugins.mkdir()
    _run([go, "build", "-o", f"{plugins}/", "tool"], directory)
    outputs = [f"--{kind}_{option}" for kind in ("go", "go-grpc") for option in ("out=.", "opt=module=delayed_tracker")]
    found = [f"--plugin={plugin}" for plugin in sorted(plugins.iterdir())]
    _run([str(_GENERATOR), "-m", "grpc_tools.protoc", f"--proto_path={_PROTO}", *found, *outputs, *_FILES], directory)
    _run([go, "vet", "./..."], directory)
    _run([go, "build", "-o", "dispatcher", "."], directory)


def _build_java(directory: Path) -> None:
    maven = _program("mvn", "Maven and a JDK (17 or newer)")
    sources = directory / "src"
    sources.mkdir()
    for path in directory.glob("*.java"):
        path.rename(sources / path.name)
    goals = ["compile", "dependency:copy-dependencies", "-DoutputDirectory=target/jars", "-DincludeScope=runtime"]
    _run([maven, "--batch-mode", "--quiet", "--strict-checksums", f"-Dproto={_PROTO}", *goals], directory)


GO: Final = Language("go", _build_go, lambda built: [str(built / "dispatcher")])
JAVA: Final = Language(
    "java", _build_java, lambda built: ["java", "-cp", f"{built}/target/classes:{built}/target/jars/*", "Dispatcher"]
)
LANGUAGES: Final = (GO, JAVA)


def _program(name: str, remedy: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise NoDispatcher(f"there is no {name}: install {remedy}")
    return found


def _run(command: Sequence[str], directory: Path) -> None:
    try:
        ran = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NoDispatcher(f"{Path(command[0]).name} did not end in {BUILD_TIMEOUT_S} s: try again") from error
    if ran.returncode:
        said = (ran.stdout + ran.stderr).strip()
        raise NoDispatcher(f"{' '.join(command[:3])} ended with status {ran.returncode}; it says:\n{said[-2_000:]}")


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "delayed-tracker" / "dispatchers"


def main() -> int:
    """Compile all dispatchers; return the exit code."""
    try:
        for language in LANGUAGES:
            language.compile()
    except NoDispatcher as missing:
        print(missing, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
