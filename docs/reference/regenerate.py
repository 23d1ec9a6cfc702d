"""Writes ``conf/tracker.conf`` and the tables of the reference pages, or checks that they are fresh.

python -m docs.reference.regenerate            write the files
python -m docs.reference.regenerate --check    compare only; exit 1 names every file that is stale
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from docs.reference import actions, errors, exit_codes, metrics, settings

CONF: Final = Path("conf/tracker.conf")
BEGIN: Final = "<!-- written by `make reference` -->"
END: Final = "<!-- end of what is written -->"
TABLES: Final[dict[Path, Callable[[], str]]] = {
    Path("docs/reference/settings.md"): settings.render_table,
    Path("docs/reference/metrics.md"): metrics.render_table,
    Path("docs/reference/exit-codes.md"): exit_codes.render_table,
    Path("docs/reference/errors.md"): errors.render_table,
    Path("docs/reference/actions.md"): actions.render_table,
}


def generate(root: Path) -> dict[Path, str]:
    """Return the text of each file by its path below the checkout.

    Raises:
        ValueError: a page has no place for its table.
    """
    fresh = {CONF: settings.render_conf()}
    for path, render in TABLES.items():
        fresh[path] = _with_table(path, (root / path).read_text(encoding="utf-8"), render())
    return fresh


def _with_table(path: Path, page: str, table: str) -> str:
    before, found_begin, rest = page.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not found_begin or not found_end:
        raise ValueError(f"{path}: put the lines {BEGIN!r} and {END!r} where the table belongs")
    return f"{before}{BEGIN}\n\n{table}\n{END}{after}"


def main(arguments: Sequence[str], root: Path = Path()) -> int:
    """Run the command line in a checkout and return its exit code."""
    parser = argparse.ArgumentParser(description="Write what documents settings, metrics and errors, or check it.")
    parser.add_argument("--check", action="store_true", help="compare only, write nothing")
    check = parser.parse_args(arguments).check
    fresh = generate(root)
    stale = [
        path
        for path, text in fresh.items()
        if not (root / path).exists() or (root / path).read_text(encoding="utf-8") != text
    ]
    for path in stale:
        if check:
            sys.stderr.write(f"{path}: stale; run `make reference`\n")
        else:
            (root / path).write_text(fresh[path], encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
