"""Command ``delayed-tracker topics last-message-id``: prints the position of a topic's last message."""

from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import print_json, say


def last_message_id(
    *,
    source: Source,
    topic: Topic,
    read_compacted: Annotated[
        bool, typer.Option("--read-compacted", help="The last that a reader of the compacted topic gets.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print the position of a topic's last message, and its place in its batch.

    Example: delayed-tracker topics last-message-id --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed
    """
    with opened(source) as queries:
        found = queries.get_last_message_id(topic, read_compacted=read_compacted)
    if as_json:
        print_json(found)
        return
    say(str(found.position))
    if found.entry_id < 0:
        say("readers of the compacted topic get no message" if read_compacted else "the topic has no messages")
    elif found.batch_index >= 0:
        say(f"message {found.batch_index} of its batch, counted from 0")
