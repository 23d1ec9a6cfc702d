"""Command ``delayed-tracker delete``: deletes the tracker of a subscription that was removed."""

from typing import Annotated

import typer

from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic
from delayed_tracker.cli.terminal.output import counted, print_json, say
from delayed_tracker.cli.terminal.service import Service, of_service


@of_service
def delete(
    *,
    topic: Topic,
    subscription: Subscription,
    sure: Annotated[bool, typer.Option("--yes", help="Required: this cannot be undone.")] = False,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Delete the tracker of a removed subscription with all snapshots, open or not, whatever its owner.

    Of a tracker that is not open, messages that only the add log has are deleted, too, but not counted.

    Example: delayed-tracker delete --topic persistent://lab/main/delayed --subscription workers --yes
    """
    if not sure:
        raise typer.BadParameter(
            f"give it to forget everything tracked for {subscription} of {topic}", param_hint="--yes"
        )
    with service.connect_blocking() as client:
        # Listed before the deletion, whose answer is the same for an empty tracker and for none.
        existed = any((row.topic, row.subscription) == (topic, subscription) for row in client.list_trackers(topic))
        deleted_count = client.delete_tracker(topic, subscription)
    existed = existed or deleted_count > 0
    if as_json:
        print_json({"deleted_count": deleted_count, "existed": existed})
    elif existed:
        say(f"deleted, with {counted(deleted_count, 'tracked message')}")
    else:
        say(
            f"nothing to delete: there is no tracker {subscription!r} of {topic!r}; `delayed-tracker trackers` lists them"
        )
