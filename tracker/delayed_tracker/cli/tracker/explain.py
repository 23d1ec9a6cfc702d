"""Command ``delayed-tracker explain``: prints the place of one message, and why it was not delivered."""

from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, say, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.positions import parse_position
from delayed_tracker.service.queries.explain import in_two_units


@of_service
def explain(
    *,
    position: Annotated[
        str, typer.Argument(help="Its position, such as 7:3 (ledger 7, entry 3).", metavar="LEDGER:ENTRY")
    ],
    topic: Topic,
    subscription: Subscription,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Explain one message of an open tracker, without taking it over.

    Example: delayed-tracker explain --topic persistent://lab/main/delayed --subscription workers 7:3
    """
    ledger_id, entry_id = parse_position("LEDGER:ENTRY", position)
    with service.connect_blocking() as client:
        found = client.view_tracker(topic, subscription).explain(ledger_id, entry_id)
    if as_json:
        print_json(found)
        return
    if found.explanation:
        say(found.explanation)
    rows = table(f"{found.position} for {subscription}", "what", "value")
    rows.add_row("place", found.place.value.replace("_", " "))
    rows.add_row("now, by the service's clock", instant(found.server_time_ms))
    for name, moment_ms in (("deliver at", found.deliver_at_ms), ("a poll would succeed at", found.available_at_ms)):
        if moment_ms is not None:
            wait_ms = moment_ms - found.server_time_ms
            rows.add_row(name, f"{instant(moment_ms)} ({_from_now(wait_ms)})")
    for name, number in (("bucket", found.bucket_id), ("segment", found.segment), ("lease", found.lease_id)):
        if number is not None:
            rows.add_row(name, str(number))
    show(rows)


def _from_now(wait_ms: int) -> str:
    return f"in {in_two_units(wait_ms)}" if wait_ms >= 0 else f"{in_two_units(-wait_ms)} ago"
