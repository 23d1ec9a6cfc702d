"""Command ``delayed-tracker topics list``: lists the names of all topics of a source."""

from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import print_json, say


def list_topics(
    *,
    source: Source,
    topic_prefix: Annotated[
        str, typer.Option("--topic-prefix", help="Only topics that begin with this.", metavar="TEXT")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the topics that have ledgers, Pulsar's own included, one full name a line.

    Example: delayed-tracker topics list --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    """
    with opened(source) as queries:
        names = [name for name in queries.topics() if name.startswith(topic_prefix)]
    if as_json:
        print_json({"topics": names})
    elif names:
        say(*names)
