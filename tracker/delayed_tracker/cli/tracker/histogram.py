"""Command ``delayed-tracker histogram``: draws the number of messages in each interval of deadlines."""

from typing import Annotated

import typer
from rich.bar import Bar
from rich.console import RenderableType

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import answer_console, duration, instant, print_json, say, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.offering import parse_instant
from delayed_tracker.client import DeliveryHistogram
from delayed_tracker.core.values.columns import INT63_MAX

BAR_WIDTH = 50
"""Characters of the longest bar, if there is room."""
BAR_WIDTH_MIN = 10
_LABELS_WIDTH = len("│ 2026-11-21 07:24:12.556Z │ messages │  │")


@of_service
def histogram(
    *,
    topic: Topic,
    subscription: Subscription,
    from_instant: Annotated[
        str | None,
        typer.Option(
            "--from", help="Where the first bar begins; default: now, by the service's clock.", metavar="INSTANT"
        ),
    ] = None,
    step_s: Annotated[
        int, typer.Option("--step-s", min=1, max=INT63_MAX // 1_000, help="Width of a bar in seconds.")
    ] = 3_600,
    bar_count: Annotated[int, typer.Option("--bars", min=1, max=10_000, help="How many bars.")] = 24,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Draw the number of messages of an open tracker in each interval of deadlines, without taking the tracker over.

    Segments on disk are not read: their messages are spread evenly over the time span of the segment.

    Example: delayed-tracker histogram --topic persistent://lab/main/delayed --subscription workers --step-s 600 --bars
    12
    """
    from_ms = None if from_instant is None else parse_instant("--from", from_instant)
    with service.connect_blocking() as client:
        view = client.view_tracker(topic, subscription)
        if from_ms is None:
            from_ms = view.next_delivery_time().server_time_ms
        counted = view.histogram(from_ms=from_ms, step_ms=step_s * 1_000, bar_count=bar_count)
    if as_json:
        print_json(counted)
        return
    show_bars(f"due for {subscription} of {topic}", counted)
    say(f"{counted.total_count} tracked, in bars of {duration(counted.step_ms)}")
    if counted.estimated_count:
        say(f"{counted.estimated_count} of them are in segments on disk and spread evenly over their span")


def show_bars(title: str, counted: DeliveryHistogram) -> None:
    """Print one line for each bar, and for the messages before and after all bars."""
    console = answer_console()
    rows = table(title, "from", "messages", "", numbers=("messages",))
    bar_width = min(BAR_WIDTH, max(console.width - _LABELS_WIDTH, BAR_WIDTH_MIN))
    most = max(counted.before_count, counted.after_count, *counted.counts)
    for label, count in _labelled(counted):
        rows.add_row(label, str(count), _drawn(count, most, width=bar_width, graphical=console.is_terminal))
    show(rows)


def _labelled(counted: DeliveryHistogram) -> list[tuple[str, int]]:
    bars = [(instant(counted.from_ms + number * counted.step_ms), count) for number, count in enumerate(counted.counts)]
    return [("earlier", counted.before_count), *bars, ("later", counted.after_count)]


def _drawn(count: int, most: int, *, width: int, graphical: bool) -> RenderableType:
    """Return a bar whose length is proportional to the count; a count above 0 is always visible."""
    if graphical:
        return Bar(max(most, 1), 0, count, width=width, color="cyan")
    return "#" * -(-count * width // max(most, 1))
