"""The unit of systemd: its directives, and its command under the same limits on a machine that systemd does not run."""

import resource
import shlex
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from delayed_tracker.core.kernels.jit import cache_directory
from tests.repository.deployment.tools import CONF

UNIT: Final = CONF / "systemd" / "delayed-tracker.service"
PROGRAM: Final = "/opt/delayed-tracker/bin/delayed-tracker"
_PLACES: Final = {
    "/etc/delayed-tracker": "etc",
    "/var/lib/delayed-tracker": "state",
    "/run/delayed-tracker": "run",
}
"""Directories of the unit, and those below a test's directory that take their place."""


def directives(path: Path = UNIT) -> Mapping[str, list[str]]:
    """Return the values of each directive of a unit or drop-in, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in path.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found[key].append(value)
    return found


def installed(directory: Path) -> Path:
    """Copy the unit to a directory, with a program that exists in place of the installed one."""
    copy = directory / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace(PROGRAM, sys.executable), encoding="utf-8")
    return copy


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The unit's command below a directory, with what this machine can apply of its limits without systemd.

    Applied: the limits of open files and core dumps, the umask, no capabilities, no new privileges, a mount namespace in
    which the root file system is read-only except the unit's directories, and a /proc that has processes only. Not
    applied: the user, the filter of system calls (a test of its own compares it), cgroups and devices. The kernels are
    those of this user, in a directory that the service cannot write.
    """

    directory: Path

    def prepare(self) -> None:
        """Create the unit's directories."""
        for name in _PLACES.values():
            (self.directory / name).mkdir()

    def moved(self, text: str) -> str:
        """Return text of the unit with the directories of the test."""
        for place, name in _PLACES.items():
            text = text.replace(place, str(self.directory / name))
        return text.replace("/var/cache/delayed-tracker", cache_directory())

    @property
    def ready_file(self) -> Path:
        """The file that tells that the service answers."""
        return self.directory / "run" / "ready.json"

    @property
    def open_files(self) -> int:
        """The unit's limit of open files, or that of this machine if it is lower: raising it may be forbidden."""
        (files,) = directives()["LimitNOFILE"]
        return min(int(files), resource.getrlimit(resource.RLIMIT_NOFILE)[1])

    @property
    def environment(self) -> dict[str, str]:
        """Variables that the unit sets."""
        return dict(self.moved(row).split("=", 1) for row in directives()["Environment"])

    def command(self, *options: str) -> list[str]:
        """Return the command that sets the limits and then becomes the service.

        Args:
            options: further options of ``serve``.
        """
        found = directives()
        (exec_start,) = found["ExecStart"]
        program, *arguments = shlex.split(self.moved(exec_start))
        assert program == PROGRAM
        service = [sys.executable, "-m", "delayed_tracker.cli", *arguments, *options]
        (core,), (umask,) = found["LimitCORE"], found["UMask"]
        writable = [str(self.directory / name) for name in ("state", "run")]
        (working_directory,) = found["WorkingDirectory"]
        script = "\n".join([
            "set -e",
            "mount --make-rprivate /",
            # ProtectSystem=strict
            *(f"mount --bind {shlex.quote(place)} {shlex.quote(place)}" for place in writable),
            "mount -o remount,bind,ro /",
            # ProcSubset=pid
            "mount -t proc -o subset=pid proc /proc",
            f"ulimit -n {self.open_files}",
            f"ulimit -c {core}",
            f"umask {umask}",
            f"cd {shlex.quote(self.moved(working_directory))}",
            f"exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all {shlex.join(service)}",
        ])  # fmt: skip
        return ["unshare", "--mount", "sh", "-c", script]
