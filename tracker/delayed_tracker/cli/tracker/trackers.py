"""Command ``delayed-tracker trackers``: lists every tracker of a service, open or only on disk."""

from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, instant, print_json, say, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.client import TrackerSummary


@of_service
def trackers(
    *,
    topic_prefix: Annotated[
        str, typer.Option("--topic-prefix", help="Only topics that begin with this.", metavar="TEXT")
    ] = "",
    service: Service,
    as_json: AsJson = False,
) -> None:
    """List the trackers of a service, open or only on disk, without opening any.

    Example: delayed-tracker trackers --topic-prefix persistent://lab/main/
    """
    with service.connect_blocking() as client:
        listed = list(client.list_trackers(topic_prefix))
    if as_json:
        print_json({"trackers": listed})
        return
    numbers = ("pending", "leased", "buckets")
    rows = table("trackers", "topic", "subscription", "state", *numbers, "next delivery", "owner", numbers=numbers)
    for tracker in listed:
        counts = (tracker.pending_count, tracker.leased_count, tracker.bucket_count)
        shown = [str(count) for count in counts] if tracker.open else ["-"] * len(counts)
        rows.add_row(
            tracker.topic,
            tracker.subscription,
            _state(tracker),
            *shown,
            instant(tracker.next_delivery_at_ms),
            tracker.owner or "-",
        )
    show(rows)
    say(counted(len(listed), "tracker"))


def _state(tracker: TrackerSummary) -> str:
    if tracker.recovering:
        return "recovering"
    if tracker.unloaded:
        return "idle"
    return "open" if tracker.open else "on disk"
