"""Command ``delayed-tracker open``: loads a tracker and owns it."""

from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import counted, print_json, say
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.positions import MarkDelete, parse_mark_delete


@of_service
def open_tracker(
    *,
    topic: Topic,
    subscription: Subscription,
    mark_delete: MarkDelete = None,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Who opens it, for operators to read; default: this host and process.")
    ] = None,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Open a tracker: recover its snapshots if it is not loaded, and print the position to replay from.

    This takes it over: a dispatcher that had it open is fenced and must open it again, and all leased positions return.

    Example: delayed-tracker open --topic persistent://lab/main/delayed --subscription workers --mark-delete 7:41
    """
    position = parse_mark_delete("--mark-delete", mark_delete)
    with (
        service.connect_blocking() as client,
        client.open_tracker(topic, subscription, owner=owner, mark_delete=position) as session,
    ):
        opened = session.opened
    if as_json:
        print_json(opened)
        return
    replay_from = "the beginning" if opened.replay_from is None else str(opened.replay_from)
    say(
        f"open in epoch {opened.epoch}: {opened.recovered_count} recovered in {counted(opened.bucket_count, 'bucket')}; "
        f"replay from {replay_from}"
    )
    if opened.add_log_missing:
        say("the add log of the last owner is elsewhere: what no snapshot has must be offered again")
