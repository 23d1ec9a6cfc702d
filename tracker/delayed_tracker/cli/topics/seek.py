"""Command ``delayed-tracker topics seek-by-time``: finds the position at which to continue reading for a time."""

from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import print_json, say
from delayed_tracker.cli.tracker.offering import parse_instant


def seek_by_time(
    *,
    source: Source,
    topic: Topic,
    at: Annotated[str, typer.Option("--at", help="ISO-8601 (UTC) or epoch milliseconds.", metavar="INSTANT")],
    read_compacted: Annotated[
        bool,
        typer.Option("--read-compacted", help="For a reader of the compacted topic: what compaction kept comes first."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the position of the first entry written at a time or later: by the broker's clock, if the entries have it.

    Example: delayed-tracker topics seek-by-time --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed --at 2026-11-21T08:00:00Z
    """
    timestamp_ms = parse_instant("--at", at)
    with opened(source) as queries:
        found = queries.seek_by_time(topic, timestamp_ms, read_compacted=read_compacted)
    if as_json:
        print_json(found)
        return
    say(str(found.position))
    if found.behind_end:
        say("all entries are earlier: this is the position of the next entry")
