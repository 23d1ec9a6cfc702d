"""Command ``delayed-tracker topics get-message-id-by-index``: finds the entry of a message by its index (PIP-415)."""

import enum
from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import print_json, say
from delayed_tracker.ledger.queries.message_index import EARLIEST, IndexLookupMode


class ModeOption(enum.StrEnum):
    """Rules of the lookup."""

    PROPOSAL = "proposal"
    PULSAR_COMPATIBLE = "pulsar-compatible"


def get_message_id_by_index(
    *,
    source: Source,
    topic: Topic,
    index: Annotated[int, typer.Option("--index", min=0, help="The broker's index of the message, counted from 0.")],
    mode: Annotated[
        ModeOption,
        typer.Option(
            "--mode", help="proposal: as PIP-415 has it; pulsar-compatible: as Pulsar 4.2 answers where it differs."
        ),
    ] = ModeOption.PROPOSAL,
    as_json: AsJson = False,
) -> None:
    """Print the position of the entry that contains the message with an index; needs entries that a broker has indexed.

    Example: delayed-tracker topics get-message-id-by-index
    --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl' --topic persistent://lab/main/delayed --index 42
    """
    with opened(source) as queries:
        found = queries.get_message_id_by_index(topic, index, mode=IndexLookupMode(mode.value))
    if as_json:
        print_json(found)
        return
    say(str(found.position))
    if found.position == EARLIEST:
        say("the message has expired: read from the earliest that is there")
