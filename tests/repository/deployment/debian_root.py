"""Runs the steps of a Containerfile in the root directories of Debian that mmdebstrap makes. Needs root.

No base image has to be reachable: a ``FROM debian:12-slim`` is a minimal Debian of the same release. ``COPY`` takes what the
repository tracks. Mounts are in a namespace of their own and end with each step.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.repository.project_tree import ROOT

RELEASES: Final = {"debian:12-slim": "bookworm"}
STEP_TIMEOUT_S: Final = 900
_PIP_VARIABLES: Final = (
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_DEFAULT_TIMEOUT",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
)
_CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
_CERTIFICATES_INSIDE: Final = "/run/certificates.crt"
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOOPBACK_UP: Final = (
    "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack('16sh', b'lo', 0x49))"
)
"""Program that brings the loopback interface of a new network namespace up, as ``ip link set lo up`` does."""


class StepFailed(Exception):
    """A step ended with an error; the message has the end of its output."""


def missing() -> str:
    """Return the reason why no step can run here; empty if they can."""
    if os.geteuid():
        return "needs root, for chroot"
    absent = [name for name in ("mmdebstrap", "unshare", "chroot") if shutil.which(name) is None]
    return f"there is no {', '.join(absent)}: apt-get install mmdebstrap" if absent else ""


@dataclass(slots=True)
class Stage:
    """One ``FROM`` with the steps that follow."""

    root: Path
    environment: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH})
    directory: str = "/"
    user: str = "0:0"
    metadata: dict[str, str] = field(default_factory=dict)
    """Instructions that run nothing: EXPOSE, ENTRYPOINT, CMD, HEALTHCHECK."""

    def run(self, command: str) -> None:
        """Run a shell command in the root.

        Raises:
            StepFailed: its status is not 0.
        """
        links = os.environ.get("PIP_FIND_LINKS", "")
        mounts = ["mount --bind /proc {root}/proc", "mount --bind /dev {root}/dev"]
        extra = {name: os.environ[name] for name in _PIP_VARIABLES if name in os.environ}
        if _CERTIFICATES.is_file():
            # In a place of its own: the package ca-certificates replaces its file, which a mount would prevent.
            mounts.append("touch {root}{inside} && mount --bind {certificates} {root}{inside}")
            extra |= {"PIP_CERT": _CERTIFICATES_INSIDE, "SSL_CERT_FILE": _CERTIFICATES_INSIDE}
        if Path(links).is_absolute() and Path(links).is_dir():
            (self.root / links[1:]).mkdir(parents=True, exist_ok=True)
            mounts.append(f"mount --bind {shlex.quote(links)} {{root}}{shlex.quote(links)}")
            extra["PIP_FIND_LINKS"] = links
        root = shlex.quote(str(self.root))
        prepared = " && ".join(
            each.format(root=root, certificates=_CERTIFICATES, inside=_CERTIFICATES_INSIDE) for each in mounts
        )
        inside = f"cd {shlex.quote(self.directory)} && {command}"
        shell = f"{prepared} && exec chroot {root} /bin/bash -o pipefail -c {shlex.quote(inside)}"
        ran = subprocess.run(
            ["unshare", "--mount", "/bin/bash", "-c", shell],
            env=self.environment | extra, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise StepFailed(f"status {ran.returncode} of {command[:200]}: {(ran.stdout + ran.stderr)[-2_000:]}")

    def serve(self, configuration: str, *, writable: str) -> str:
        """Start ENTRYPOINT with CMD as USER, on a read-only root without a network, until HEALTHCHECK holds; then end it.

        Args:
            configuration: content of the file that CMD names behind ``--config``.
            writable: directory that stays writable.
        Raises:
            StepFailed: the check did not hold within a minute, or the service did not end with 0.
        """
        command = [*json.loads(self.metadata["ENTRYPOINT"]), *json.loads(self.metadata["CMD"])]
        place = self.root / command[command.index("--config") + 1][1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(configuration, encoding="utf-8")
        check = json.loads(self.metadata["HEALTHCHECK"].partition("CMD ")[2])
        enter = f'chroot --userspec={self.user} "$root" env --chdir={shlex.quote(self.directory)}'
        script = f"""
            root={shlex.quote(str(self.root))}
            {shlex.quote(shutil.which("python3") or "python3")} -c {shlex.quote(LOOPBACK_UP)}
            mount --bind "$root" "$root" && mount --bind "$root"{writable} "$root"{writable}
            mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev" && mount -t tmpfs none "$root/tmp"
            mount -o remount,bind,ro "$root"
            {enter} {shlex.join(command)} & service=$!
            for _ in $(seq 300); do
                if {enter} {shlex.join(check)} 2>/dev/null; then healthy=1; break; fi
                kill -0 $service 2>/dev/null || break
                sleep 0.2
            done
            kill -TERM $service; wait $service; status=$?
            [ "${{healthy:-0}}" = 1 ] && exit $status
            exit 99
        """
        ran = subprocess.run(
            ["unshare", "--mount", "--net", "/bin/bash", "-c", script],
            env=self.environment, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False,
        )  # fmt: skip
        if ran.returncode:
            raise StepFailed(f"status {ran.returncode} of {command}: {(ran.stdout + ran.stderr)[-2_000:]}")
        return ran.stdout + ran.stderr


def build(lines: list[str], directory: Path) -> Stage:
    """Run all steps of a Containerfile, and return its last stage.

    Args:
        lines: instructions, with continued lines joined.
        directory: for the roots of the stages.
    Raises:
        StepFailed: a step failed.
    """
    stages: dict[str, Stage] = {}
    stage: Stage | None = None
    for line in lines:
        name, _, rest = line.partition(" ")
        if name == "FROM":
            image, _, alias = rest.partition(" AS ")
            stage = Stage(_debian(RELEASES[image], directory / f"stage-{len(stages)}"))
            stages[alias or str(len(stages))] = stage
            continue
        if stage is None or not name.isupper():
            continue
        _follow(stage, stages, name, rest)
    assert stage is not None
    return stage


def _follow(stage: Stage, stages: dict[str, Stage], name: str, rest: str) -> None:
    if name == "RUN":
        stage.run(rest)
    elif name == "ENV":
        for key, value in re.findall(r"(\w+)=(\S+)", rest):
            stage.environment[key] = value.replace("$PATH", stage.environment["PATH"])
    elif name == "WORKDIR":
        stage.directory = rest
        (stage.root / rest[1:]).mkdir(parents=True, exist_ok=True)
    elif name == "USER":
        stage.user = rest
    elif name == "COPY":
        _copy(stage, stages, rest.split())
    else:
        stage.metadata[name] = rest


def _copy(stage: Stage, stages: dict[str, Stage], words: list[str]) -> None:
    origin = ROOT
    if words[0].startswith("--from="):
        origin = stages[words.pop(0).removeprefix("--from=")].root
    *sources, target = words
    place = stage.root / (target if target.startswith("/") else f"{stage.directory}/{target}").lstrip("/")
    if sources == ["."]:
        for name in subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.split("\n"):
            if name and (ROOT / name).is_file():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, place / name)
        return
    for source in sources:
        found = origin / source.lstrip("/")
        if found.is_dir():
            shutil.copytree(found, place, symlinks=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, place / found.name)


def _debian(release: str, root: Path) -> Path:
    ran = subprocess.run(
        ["mmdebstrap", "--variant=minbase", "--mode=root", release, str(root)],
        capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False,
    )  # fmt: skip
    if ran.returncode:
        raise StepFailed(f"mmdebstrap: {ran.stderr[-2_000:]}")
    shutil.copy2("/etc/resolv.conf", root / "etc/resolv.conf")
    return root
