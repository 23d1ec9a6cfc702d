"""``conf/tracker.conf`` and the README's configuration table, written from the settings in code.

python -m delayed_tracker.service.settings.docs --conf     print conf/tracker.conf
python -m delayed_tracker.service.settings.docs --table    print the README's table
python -m delayed_tracker.service.settings.docs --write    write both into the checkout in the working directory
python -m delayed_tracker.service.settings.docs --check    exit 1 if one of them is stale
"""

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from delayed_tracker.service.settings.keys import Form, Group, SettingKey
from delayed_tracker.service.settings.readme_table import README_PATH, with_table
from delayed_tracker.service.settings.settings import setting_fields

CONF_PATH = Path("conf/tracker.conf")
TABLE_BEGIN = "<!-- settings table: written by `make settings-docs` -->"
TABLE_END = "<!-- end of settings table -->"
_LINE_WIDTH = 118

_CONF_HEADER = (
    "Settings of the delayed-delivery tracker: every key, with its default. Written by `make settings-docs`.\n"
    "\n"
    "The syntax is that of Pulsar's broker.conf (Java properties in UTF-8); the last assignment of a key wins. An "
    "environment variable TRACKER_<KEY> overrides this file; case and underscores do not matter in its name. "
    "`delayed-tracker config` prints the value in force of every key, and where it comes from. Unknown keys and values "
    "out of range are errors. SIGHUP makes the service read it again; keys that need a restart are logged, and an error "
    "leaves everything as it was."
)


def render_conf() -> str:
    """The text of ``conf/tracker.conf``: every key at its default, commented with meaning, unit, default and range."""
    blocks = [_comment(_CONF_HEADER)]
    for group in Group:
        blocks.append(_comment(f"---- {group.value} ----"))
        blocks.extend(
            f"{_comment(_described(key))}\n{key.key}={key.render(key.default)}"
            for _, key in setting_fields().values()
            if key.group is group
        )
    return "\n\n".join(blocks) + "\n"


def render_table() -> str:
    """The README's table: one row for each key."""
    rows = ["| key | default | unit | range | meaning |", "| --- | --- | --- | --- | --- |"]
    for _, key in setting_fields().values():
        default = f"`{key.render(key.default)}`" if key.render(key.default) else "empty"
        meaning = f"{key.meaning} {_not_built_note(key)}".rstrip()
        rows.append(f"| `{key.key}` | {default} | {key.unit} | {key.allowed} | {meaning} |")
    return "\n".join(rows) + "\n"


def with_fresh_table(readme: str) -> str:
    """The README's text with its table replaced by a fresh one; ValueError if there is no place for it."""
    return with_table(readme, TABLE_BEGIN, TABLE_END, render_table())


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    parser = argparse.ArgumentParser(description="Write or check what documents the settings.")
    action = parser.add_mutually_exclusive_group(required=True)
    for option in ("--conf", "--table", "--write", "--check"):
        action.add_argument(option, dest="action", action="store_const", const=option)
    chosen = parser.parse_args(arguments).action
    if chosen == "--conf":
        sys.stdout.write(render_conf())
        return 0
    if chosen == "--table":
        sys.stdout.write(render_table())
        return 0
    fresh = {CONF_PATH: render_conf(), README_PATH: with_fresh_table(README_PATH.read_text(encoding="utf-8"))}
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if chosen == "--check":
            sys.stderr.write(f"{path}: stale; run `make settings-docs`\n")
        else:
            path.write_text(fresh[path], encoding="utf-8")
            sys.stdout.write(f"wrote {path}\n")
    return 1 if stale and chosen == "--check" else 0


def _described(key: SettingKey) -> str:
    default = key.render(key.default) or "empty"
    unit = f"Unit: {key.unit}. " if key.unit else ""
    allowed = "Range" if key.form is Form.NUMBER else "Allowed"
    reload = " SIGHUP puts a change in force." if key.reloadable else ""
    return f"{key.meaning} {_not_built_note(key)}\n{unit}Default: {default}. {allowed}: {key.allowed}.{reload}"


def _not_built_note(key: SettingKey) -> str:
    return f"({key.not_built[0].upper()}{key.not_built[1:]}.)" if key.not_built else ""


def _comment(text: str) -> str:
    lines = []
    for paragraph in text.rstrip("\n").split("\n"):
        lines += textwrap.wrap(paragraph, _LINE_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
