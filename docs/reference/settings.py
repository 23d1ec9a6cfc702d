"""Renders ``conf/tracker.conf`` and the table of settings from the settings in code."""

import textwrap

from delayed_tracker.service.settings.keys import Form, Group, SettingKey
from delayed_tracker.service.settings.settings import SETTING_KEYS

_LINE_WIDTH = 118

_CONF_HEADER = (
    "Settings of the delayed-delivery tracker: every key, with its default. Written by `make reference`.\n"
    "\n"
    "The syntax is that of Pulsar's broker.conf (Java properties in UTF-8); the last assignment of a key wins. An "
    "environment variable TRACKER_<KEY> overrides this file; case and underscores do not matter in its name. "
    "`delayed-tracker config` prints the value in force of every key, and where it comes from. Unknown keys and values "
    "out of range are errors. SIGHUP makes the service read it again; keys that need a restart are logged, and an error "
    "leaves everything as it was."
)


def render_conf() -> str:
    """Return the text of ``conf/tracker.conf``: every key at its default, with meaning, unit and range as a comment."""
    blocks = [_comment(_CONF_HEADER)]
    for group in Group:
        blocks.append(_comment(f"---- {group.value} ----"))
        blocks.extend(
            f"{_comment(_described(key))}\n{key.key}={key.render(key.default)}"
            for key in SETTING_KEYS.values()
            if key.group is group
        )
    return "\n\n".join(blocks) + "\n"


def render_table() -> str:
    """Return the table of settings, one row for each key."""
    rows = ["| key | default | unit | range | meaning |", "| --- | --- | --- | --- | --- |"]
    for key in SETTING_KEYS.values():
        default = f"`{key.render(key.default)}`" if key.render(key.default) else "empty"
        meaning = f"{key.meaning} {_not_built_note(key)}".rstrip()
        rows.append(f"| `{key.key}` | {default} | {key.unit} | {key.allowed} | {meaning} |")
    return "\n".join(rows) + "\n"


def _described(key: SettingKey) -> str:
    default = key.render(key.default) or "empty"
    unit = f"Unit: {key.unit}. " if key.unit else ""
    allowed = "Range" if key.form is Form.NUMBER else "Allowed"
    reload = " SIGHUP puts a change in force." if key.reloadable else ""
    return f"{key.meaning} {_not_built_note(key)}\n{unit}Default: {default}. {allowed}: {key.allowed}.{reload}"


def _not_built_note(key: SettingKey) -> str:
    return f"({key.unsupported_reason[0].upper()}{key.unsupported_reason[1:]}.)" if key.unsupported_reason else ""


def _comment(text: str) -> str:
    lines = []
    for paragraph in text.rstrip("\n").split("\n"):
        lines += textwrap.wrap(paragraph, _LINE_WIDTH, break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(f"# {line}".rstrip() for line in lines)
