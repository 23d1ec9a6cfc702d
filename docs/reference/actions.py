"""Renders the table of actions that calls and routes need, from ``delayed_tracker.service.security.actions``."""

from delayed_tracker.service.security.actions import (
    CALL_ACTIONS,
    DESTRUCTIVE_CALLS,
    LISTING_CALLS,
    ROUTE_ACTIONS,
    Access,
    Action,
)


def render_table() -> str:
    """Return the table, one row for each call and each route."""
    rows = ["| call or route | action | note |", "| --- | --- | --- |"]
    rows += [f"| `{name}` | {_shown(needed)} | {_note(name)} |" for name, needed in CALL_ACTIONS.items()]
    rows += [f"| `GET {path}` | {_shown(needed)} | |" for path, needed in ROUTE_ACTIONS.items()]
    return "\n".join(rows) + "\n"


def _shown(needed: Action | Access) -> str:
    return f"`{needed.value}`" if isinstance(needed, Action) else needed.value


def _note(name: str) -> str:
    call = name.rpartition("/")[2]
    notes = []
    if call == "DeleteTracker":
        notes.append("`admin` without an epoch")
    if name in LISTING_CALLS:
        notes.append("any principal may call; rows that it may not see are left out")
    if call in DESTRUCTIVE_CALLS:
        notes.append("a line in the audit log")
    return "; ".join(notes)
