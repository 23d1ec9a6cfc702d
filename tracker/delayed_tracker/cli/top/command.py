"""Command ``delayed-tracker top``: shows the busiest trackers of a service, live."""

import asyncio
import itertools
import sys
from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import answer_console, print_json_lines, say, show
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.top.drawing import plain_table, totals_lines
from delayed_tracker.cli.top.rows import Sort, View
from delayed_tracker.cli.top.screen import LiveScreen
from delayed_tracker.cli.top.watch import Watch
from delayed_tracker.client import ClientSettings

ROWS_MAX = 1_000
PLAIN_ROWS = 20
"""Rows if the output is not a terminal."""
_INTERVAL_S_MIN = 0.1
_INTERVAL_S_MAX = 3_600.0
# An unreachable service is reported at once instead of waiting for it.
_CLIENT = ClientSettings(wait_for_ready=False)


@of_service
def top(
    *,
    interval_s: Annotated[
        float,
        typer.Option("--interval", min=_INTERVAL_S_MIN, max=_INTERVAL_S_MAX, help="Seconds between two refreshes."),
    ] = 2.0,
    sort: Annotated[Sort, typer.Option("--sort", help="Sort the trackers by this value.")] = Sort.PENDING,
    topic_prefix: Annotated[
        str, typer.Option("--topic-prefix", help="Only topics that begin with this.", metavar="TEXT")
    ] = "",
    row_max: Annotated[
        int | None,
        typer.Option(
            "--max",
            min=1,
            max=ROWS_MAX,
            help=f"At most this many trackers; default: what fits the terminal, or {PLAIN_ROWS}.",
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            min=1,
            help="Stop after this many refreshes; default: never on a terminal or with --json, else after one.",
        ),
    ] = None,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Show the busiest trackers of a service, without opening any: pending and leased messages, rates, overdue ones.

    On a terminal this is a live screen: q or Ctrl-C ends it; p, l, o, b and r sort by pending, leased, overdue, buckets
    and rate. Elsewhere it is a table, and with --json one object a line for each refresh. Rates count the events since
    the previous refresh. Overdue is the time for which a poll would have succeeded.

    Example: delayed-tracker top --sort overdue --interval 5
    """
    # FORCE_COLOR makes rich treat a pipe as a terminal, but it is no screen.
    console = answer_console()
    live = sys.stdout.isatty() and not console.is_dumb_terminal and not as_json

    async def watch() -> None:
        async with service.connect(settings=_CLIENT) as client:
            looks = Watch(client, topic_prefix)
            if live:
                await LiveScreen(looks, console, sort=sort, row_max=row_max).run(interval_s, count)
                return
            for number in itertools.count():
                view = await looks.look(row_max or PLAIN_ROWS, sort)
                _print(view, as_json=as_json)
                if number + 1 == (count or (None if as_json else 1)):
                    return
                await asyncio.sleep(interval_s)

    asyncio.run(watch())


def _print(view: View, *, as_json: bool) -> None:
    if as_json:
        print_json_lines([view])
        return
    show(plain_table(view))
    for line in totals_lines(view):
        say(line)
