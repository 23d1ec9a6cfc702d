"""Command ``delayed-tracker peek``: prints tracked messages by deadline, without side effects."""

from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, say, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.offering import parse_instant
from delayed_tracker.core.values.errors import InvalidInput


@of_service
def peek(
    *,
    topic: Topic,
    subscription: Subscription,
    from_instant: Annotated[
        str,
        typer.Option("--from", help="Deadlines from here on: ISO-8601 (UTC) or epoch milliseconds.", metavar="INSTANT"),
    ] = "0",
    until_instant: Annotated[
        str | None, typer.Option("--until", help="Deadlines before this; default: no end.", metavar="INSTANT")
    ] = None,
    max_messages: Annotated[int, typer.Option("--max", min=1, max=10_000, help="At most this many messages.")] = 100,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Print tracked messages of an open tracker by deadline, also from snapshots on disk, without taking any.

    Example: delayed-tracker peek --topic persistent://lab/main/delayed --subscription workers
    --from 2026-11-21T08:00:00Z --max 10
    """
    from_ms = parse_instant("--from", from_instant)
    until_ms = None if until_instant is None else parse_instant("--until", until_instant)
    if until_ms is not None and until_ms <= from_ms:
        raise InvalidInput("--until", until_instant, "give a moment after that of --from, or leave it out")
    with service.connect_blocking() as client:
        peeked = client.view_tracker(topic, subscription).peek(max_messages, from_ms=from_ms, until_ms=until_ms)
    leased = frozenset(peeked.leased_offsets)
    messages = [
        (deliver_at_ms, position, offset in leased)
        for offset, (deliver_at_ms, position) in enumerate(zip(peeked.deliver_at_ms, peeked, strict=True))
    ]
    if as_json:
        print_json(
            {
                "messages": [
                    {"deliver_at_ms": deliver_at_ms, **position._asdict(), "leased": is_leased}
                    for deliver_at_ms, position, is_leased in messages
                ],
                "truncated": peeked.truncated,
            }
        )
        return
    rows = table(f"tracked for {subscription} of {topic}", "position", "deliver at", "leased")
    for deliver_at_ms, position, is_leased in messages:
        rows.add_row(str(position), instant(deliver_at_ms), "leased" if is_leased else "")
    show(rows)
    if peeked.truncated:
        say(f"these are the first {len(peeked)}; there are more: raise --max, or give a later --from")
