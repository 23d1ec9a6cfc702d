"""Writes the dashboards that Grafana reads, or checks that they are fresh.

python -m grafana.regenerate            write grafana/dashboards
python -m grafana.regenerate --check    compare only; exit 1 names every file that is stale, missing or left over
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from grafana.overview import overview
from grafana.rebuild import rebuild
from grafana.storage import storage
from grafana.tracker import tracker

DASHBOARDS: Final = Path(__file__).resolve().parent / "dashboards"
BOARDS: Final[tuple[Callable[[], Dashboard], ...]] = (overview, tracker, storage, rebuild)


def generate() -> dict[str, str]:
    """Return each dashboard as JSON, by its file name."""
    encoder = JSONEncoder(sort_keys=True, indent=2)
    return {f"{board.__name__}.json": encoder.encode(_numbered(board())) + "\n" for board in BOARDS}


def _numbered(board: Dashboard) -> object:
    """Return the dashboard with a number on each panel, so that a link to a panel survives an import."""
    built = board.build()
    for number, panel in enumerate(built.panels or (), 1):
        panel.id_val = number
    return built


def differences(fresh: dict[str, str], checked_in: dict[str, str]) -> list[str]:
    """Return one line for each file that is missing, stale or left over, ascending by name."""
    rows = []
    for name in sorted(fresh.keys() | checked_in.keys()):
        if name not in checked_in:
            rows.append(f"{name}: missing")
        elif name not in fresh:
            rows.append(f"{name}: left over, no board is called so")
        elif fresh[name] != checked_in[name]:
            rows.append(f"{name}: stale")
    return rows


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Write Grafana's boards, or check that they are fresh.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args(arguments).check
    fresh = generate()
    checked_in = {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS.glob("*.json")}
    rows = differences(fresh, checked_in)
    if check:
        for row in rows:
            sys.stderr.write(f"grafana/dashboards/{row}; run `make boards`\n")
        return 1 if rows else 0
    DASHBOARDS.mkdir(exist_ok=True)
    for name in checked_in.keys() - fresh.keys():
        (DASHBOARDS / name).unlink()
    for name, board in fresh.items():
        (DASHBOARDS / name).write_text(board, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
