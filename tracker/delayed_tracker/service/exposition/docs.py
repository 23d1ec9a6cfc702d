"""The README's table of metrics, written from the catalogue in code.

python -m delayed_tracker.service.exposition.docs --table    print the table
python -m delayed_tracker.service.exposition.docs --write    write it into the README in the working directory
python -m delayed_tracker.service.exposition.docs --check    exit 1 if it is stale
"""

import argparse
import sys
from collections.abc import Sequence

from delayed_tracker.service.instruments.catalogue import FAMILIES
from delayed_tracker.service.instruments.family import Family
from delayed_tracker.service.settings.readme_table import README_PATH, with_table

TABLE_BEGIN = "<!-- metrics table: written by `make metrics-docs` -->"
TABLE_END = "<!-- end of metrics table -->"
_SHOWN_VALUES_MAX = 10


def render_table() -> str:
    """One row for each family."""
    rows = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    rows += [f"| `{each.name}` | {each.kind.value} | {_labels(each)} | {each.meaning} |" for each in FAMILIES]
    return "\n".join(rows) + "\n"


def _labels(family: Family) -> str:
    shown = []
    for name, values in family.labels.items():
        known = f" ({', '.join(values)})" if 0 < len(values) <= _SHOWN_VALUES_MAX else ""
        shown.append(f"`{name}`{known}")
    return ", ".join(shown)


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Write or check the README's table of metrics.")
    action = parser.add_mutually_exclusive_group(required=True)
    for option in ("--table", "--write", "--check"):
        action.add_argument(option, dest="action", action="store_const", const=option)
    chosen = parser.parse_args(arguments).action
    if chosen == "--table":
        sys.stdout.write(render_table())
        return 0
    readme = README_PATH.read_text(encoding="utf-8")
    fresh = with_table(readme, TABLE_BEGIN, TABLE_END, render_table())
    if fresh == readme:
        return 0
    if chosen == "--check":
        sys.stderr.write(f"{README_PATH}: stale; run `make metrics-docs`\n")
        return 1
    README_PATH.write_text(fresh, encoding="utf-8")
    sys.stdout.write(f"wrote {README_PATH}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
