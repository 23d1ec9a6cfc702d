"""Renders the table of metrics from the catalogue in code."""

from delayed_tracker.service.instruments.catalogue import FAMILIES
from delayed_tracker.service.instruments.family import Family

_SHOWN_VALUES_MAX = 10


def render_table() -> str:
    """Return the table, one row for each family."""
    rows = ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    rows += [f"| `{each.name}` | {each.kind.value} | {_labels(each)} | {each.meaning} |" for each in FAMILIES]
    return "\n".join(rows) + "\n"


def _labels(family: Family) -> str:
    shown = []
    for name, values in family.labels.items():
        known = f" ({', '.join(values)})" if 0 < len(values) <= _SHOWN_VALUES_MAX else ""
        shown.append(f"`{name}`{known}")
    return ", ".join(shown)
