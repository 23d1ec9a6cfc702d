"""Command ``delayed-tracker topics entries``: prints the metadata of a topic's entries, page by page."""

from dataclasses import dataclass, field
from typing import Annotated, Final

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import Topic
from delayed_tracker.cli.terminal.output import instant, print_json_lines, say, show, size, table
from delayed_tracker.cli.topics.entry_rows import EntryRow, entry_rows
from delayed_tracker.cli.tracker.positions import parse_mark_delete
from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.errors import BadEntry
from delayed_tracker.ledger.topic.entry_pages import read_page
from delayed_tracker.ledger.topic.topic_log import TopicLog

ENTRIES_MAX: Final = 10_000
"""Entries of one page at most; for more, use a program."""
_READ_BYTES: Final = 16 << 20
"""Payload bytes in memory at once, or one entry if it is larger."""


def entries(
    *,
    source: Source,
    topic: Topic,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="Begin with this entry, or the next one there is; default: the first.",
            metavar="LEDGER:ENTRY",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=ENTRIES_MAX, help="At most this many entries.")] = 100,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json",
            help='Print JSON lines: {"entry": ...} or {"bad_entry": ...} for each, then {"next": ...}, null at the end.',
        ),
    ] = False,
) -> None:
    """Print the metadata of a topic's entries, and the start of the next page.

    Example: delayed-tracker topics entries --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed --from 7:0 --limit 20
    """
    parsed = parse_mark_delete("--from", start)
    with opened(source) as queries:
        log = queries.topic_log(topic)
        page = _read(log, Position(*parsed) if parsed else None, limit)
    if as_json:
        print_json_lines(
            [
                *({"entry": row} if isinstance(row, EntryRow) else {"bad_entry": row} for row in page.in_order()),
                {"next": page.next},
            ]
        )
        return
    numbers = ("messages", "index", "size")
    rows = table(
        f"entries of {log.name}",
        "position", "messages", "index", "broker time", "published", "deliver at", "size", "what",
        numbers=numbers,
    )  # fmt: skip
    for row in page.readable:
        rows.add_row(
            str(row.position),
            str(row.message_count),
            "-" if row.index is None else str(row.index),
            instant(row.broker_timestamp_ms),
            instant(row.publish_time_ms),
            instant(row.deliver_at_ms),
            size(row.entry_bytes),
            _what(row),
        )
    show(rows)
    for bad in page.bad:
        say(f"bad: {bad}")
    say("no more entries" if page.next is None else f"next: --from {page.next}")


@dataclass(slots=True)
class _Page:
    readable: list[EntryRow] = field(default_factory=list)
    bad: list[BadEntry] = field(default_factory=list)
    next: Position | None = None

    def in_order(self) -> list[EntryRow | BadEntry]:
        """Return all rows, ordered by position."""
        return sorted([*self.readable, *self.bad], key=_place)


def _place(row: EntryRow | BadEntry) -> tuple[int, int]:
    if isinstance(row, EntryRow):
        return row.position
    return row.ledger_id or 0, row.entry_id or 0


def _read(log: TopicLog, start: Position | None, limit: int) -> _Page:
    """Read up to ``limit`` entries, with at most ``_READ_BYTES`` of their payloads in memory."""
    page = _Page(next=start)
    left = limit
    while left:
        part = read_page(log, page.next, entries_max=left, bytes_max=_READ_BYTES)
        page.readable += entry_rows(scan_entries(part.entries))
        page.bad += part.bad_entries
        left -= len(part.entries) + sum(bad.entry_count for bad in part.bad_entries)
        page.next = part.next
        if part.next is None:
            break
    return page


def _what(row: EntryRow) -> str:
    compression = () if row.compression == "none" else (row.compression,)
    verdict = () if row.verdict == "readable" else (row.verdict.replace("_", " "),)
    return ", ".join((*row.kinds, *compression, *verdict))
