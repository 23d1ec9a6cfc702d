"""Command ``delayed-tracker assets``: writes the configuration file, rules and dashboards, and files to deploy with."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from delayed_tracker.cli.terminal.options import AsJson, reject_tilde_path
from delayed_tracker.cli.terminal.output import counted, print_json, say
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.files.replacing import replacing

_CLI: Final = Path(__file__).resolve().parents[1]
_PARTS: Final = (
    ("conf", "tracker.conf"),
    ("conf/kubernetes", "*.yaml"),
    ("conf/kubernetes/prometheus-operator", "*.yaml"),
    ("conf/prometheus", "*.yml"),
    ("conf/systemd", "*.*"),
    ("docs", "runbooks.md"),
    ("grafana/dashboards", "*.json"),
)
"""Directory and pattern of the files, the same in a checkout and in the wheel."""


class Outcome(enum.Enum):
    """Result for one file."""

    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class _Asset:
    name: str
    """Path below the directory that the user gave."""
    content: bytes


class AssetsDiffer(DelayedTrackerError):
    """The directory contains different files with the same names, such as edited ones. Nothing was written."""

    reason = "ASSETS_DIFFER"

    def __init__(self, directory: Path, names: list[str]) -> None:
        super().__init__(
            f"{directory} has {counted(len(names), 'file')} that would be overwritten with something else:"
            f" {', '.join(names)}; give another directory, or --force to overwrite"
        )


def assets(
    directory: Annotated[
        Path,
        typer.Argument(
            help="Where to write them; created if it is missing.", metavar="DIR", callback=reject_tilde_path
        ),
    ],
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write the configuration file with all defaults, rules and alerts for Prometheus with their runbooks, dashboards for
    Grafana, and files for systemd and Kubernetes.

    If a file exists and differs, nothing is written, unless --force is given.

    Example: delayed-tracker assets monitoring
    """
    ours = list(_assets())
    outcomes = {asset.name: _outcome(directory, asset) for asset in ours}
    differing = [name for name, outcome in outcomes.items() if outcome is Outcome.REPLACED]
    if differing and not force:
        raise AssetsDiffer(directory, differing)
    for asset in ours:
        if outcomes[asset.name] is not Outcome.UNCHANGED:
            _write(directory / asset.name, asset.content)
    if as_json:
        rows = [{"path": str(directory / name), "outcome": outcome} for name, outcome in outcomes.items()]
        print_json({"files": rows})
        return
    for name, outcome in outcomes.items():
        say(f"{directory / name}: {outcome.value}")


def _assets() -> Iterator[_Asset]:
    """Yield every file, ascending by name within its directory."""
    installed = _CLI / "assets"
    # In a checkout the files are where the wheel's build takes them from.
    root = installed if installed.is_dir() else _CLI.parents[2]
    for place, pattern in _PARTS:
        for path in sorted((root / place).glob(pattern)):
            yield _Asset(f"{place}/{path.name}", path.read_bytes())


def _outcome(directory: Path, asset: _Asset) -> Outcome:
    path = directory / asset.name
    try:
        with path.open("rb") as opened:
            # Enough bytes to find a difference.
            found = opened.read(len(asset.content) + 1)
    except FileNotFoundError:
        return Outcome.WRITTEN
    except OSError as error:
        raise _unusable(path, error) from error
    return Outcome.UNCHANGED if found == asset.content else Outcome.REPLACED


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as written:
            written.write_bytes(content)
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput("DIR", str(path), f"{error.strerror}: name a directory that can be written")
