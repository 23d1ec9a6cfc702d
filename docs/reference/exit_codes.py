"""Renders the table of exit codes from ``delayed_tracker.cli.exit_codes``."""

import inspect
import re

from delayed_tracker.cli.exit_codes import ExitCode


def render_table() -> str:
    """Return the table, one row for each code."""
    rows = ["| status | name | meaning |", "| --- | --- | --- |"]
    rows += [f"| {code.value} | {code.name} | {meaning} |" for code, meaning in _meanings().items()]
    return "\n".join(rows) + "\n"


def _meanings() -> dict[ExitCode, str]:
    source = inspect.getsource(ExitCode)
    found = re.findall(r'^    ([A-Z_]+) = \d+\n    """(.+?)"""', source, re.MULTILINE | re.DOTALL)
    return {ExitCode[name]: " ".join(text.split()) for name, text in found}
