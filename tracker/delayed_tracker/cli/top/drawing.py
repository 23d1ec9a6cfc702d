"""Draws a view of ``top``: a head with totals, and a table with the columns that fit the terminal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from delayed_tracker.cli.terminal.output import duration, instant, size, table
from delayed_tracker.cli.top.rows import Rates, Row, Sort, View
from delayed_tracker.service.telemetry.printable import printable

HEAD_LINES: Final = 4
"""Lines above the table: two with totals, one for errors, and the table's own head."""
_TOPIC_WIDTH_MIN: Final = 20
_GAP: Final = 2


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    cell: Callable[[Row], str]
    rank: int
    """Columns are dropped by rank, the highest first, if there is no room; rank 0 stays."""


def _rate(part: Callable[[Rates], float]) -> Callable[[Row], str]:
    return lambda row: per_second(part(row.rates) if row.rates else None)


_COLUMNS: Final = (
    _Column("subscription", lambda row: printable(row.subscription), 0),
    _Column("pending", lambda row: str(row.pending_count), 0),
    _Column("leased", lambda row: str(row.leased_count), 4),
    _Column("added/s", _rate(lambda rates: rates.added), 1),
    _Column("out/s", _rate(lambda rates: rates.handed_out), 1),
    _Column("acked/s", _rate(lambda rates: rates.acked), 3),
    _Column("expired/s", _rate(lambda rates: rates.lease_expired), 7),
    _Column("overdue", lambda row: "-" if row.overdue_ms is None else duration(row.overdue_ms), 2),
    _Column("buckets", lambda row: str(row.bucket_count), 5),
    _Column("loaded", lambda row: str(row.loaded_count), 6),
    _Column("snapshots", lambda row: size(row.snapshot_bytes), 8),
    _Column("next delivery", lambda row: instant(row.next_delivery_at_ms), 9),
)
_NUMBERS: Final = tuple(column.title for column in _COLUMNS if column.title != "subscription")


def per_second(rate: float | None) -> str:
    """Return a rate in readable form: "0.4", "97.0", "12345", "-" if it is unknown."""
    if rate is None:
        return "-"
    return f"{rate:.1f}" if rate < 100 else f"{rate:.0f}"


def totals_lines(view: View) -> tuple[str, str]:
    """Return the totals of the service in two sentences."""
    totals = view.totals
    on_disk = totals.tracker_count - totals.open_count - totals.recovering_count
    trackers = f"{totals.tracker_count} trackers: {totals.open_count} open, {on_disk} on disk"
    if totals.recovering_count:
        trackers += f", {totals.recovering_count} recovering"
    shown = len(view.trackers)
    of_shown = "" if shown == totals.open_count else f" (of the {shown} shown)"
    rates = totals.rates
    moving = f"added {per_second(rates.added if rates else None)}/s, handed out {per_second(rates.handed_out if rates else None)}/s"
    overdue = f"{totals.overdue_count} overdue"
    if totals.overdue_ms is not None:
        overdue += f" by up to {duration(totals.overdue_ms)}"
    return (
        f"{instant(view.server_time_ms)}  {trackers}; {overdue}",
        f"{totals.pending_count} pending, {totals.leased_count} leased; {moving}{of_shown}",
    )


def drawn(view: View, *, width: int, sort: Sort, trouble: str = "") -> Group:
    """Return a whole screen.

    Args:
        view: the rows and totals to show.
        width: columns of the terminal.
        sort: the order of the rows, for the line of help.
        trouble: the error that keeps the view from being refreshed; if it is empty, the help is shown.
    """
    first, second = totals_lines(view)
    note = Text(trouble, "bold red") if trouble else Text(f"by {sort}; keys: {_KEYS_HELP}, q ends", "dim")
    lines = (Text(first, "bold"), Text(second, "bold"), note)
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    return Group(*lines, live_table(view, width))


_KEYS_HELP: Final = ", ".join(f"{sort[0]} {sort}" for sort in Sort)


def live_table(view: View, width: int) -> Table:
    """Return the rows, each on one line: columns are dropped, not folded, and a topic is cut at its beginning."""
    cells = {column.title: [column.cell(row) for row in view.trackers] for column in _COLUMNS}
    widths = {title: max(map(cell_len, [title, *column])) + _GAP for title, column in cells.items()}
    kept = list(_COLUMNS)
    while sum(widths[column.title] for column in kept) + _TOPIC_WIDTH_MIN > width:
        dropped = max(kept, key=lambda column: column.rank)
        if not dropped.rank:
            break
        kept.remove(dropped)
    room = max(width - sum(widths[column.title] for column in kept), 1)
    made = Table(box=None, padding=(0, _GAP, 0, 0), header_style="reverse", expand=True)
    made.add_column("topic", no_wrap=True, overflow="ellipsis", ratio=1)
    for column in kept:
        right = column.title in _NUMBERS
        made.add_column(column.title, no_wrap=True, overflow="ellipsis", justify="right" if right else "left")
    for number, row in enumerate(view.trackers):
        late = "yellow" if row.overdue_ms is not None else ""
        made.add_row(
            _end_of(printable(row.topic), room - _GAP), *(cells[column.title][number] for column in kept), style=late
        )
    return made


def _end_of(name: str, room: int) -> str:
    """Return the end of a name that is too long, because topics of a namespace differ at their ends."""
    if cell_len(name) <= room:
        return name
    end = name[-max(room - 1, 0) :] if room > 1 else ""
    return f"…{end}"


def plain_table(view: View) -> Table:
    """Return the rows with all columns, for output that is not a screen."""
    made = table("trackers", "topic", *(column.title for column in _COLUMNS), numbers=_NUMBERS)
    for row in view.trackers:
        made.add_row(row.topic, *(column.cell(row) for column in _COLUMNS))
    return made
