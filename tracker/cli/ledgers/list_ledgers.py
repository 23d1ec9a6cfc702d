"""``delayed-tracker ledgers list``: the ledgers of one topic or of all."""

from typing import Annotated

import typer

from tracker.cli.ledger_source import Source, opened
from tracker.cli.ledgers.all_topics import open_all_topics
from tracker.cli.options import AsJson
from tracker.cli.output import print_json, say, show, size, table


def list_ledgers(
    *,
    source: Source,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only ledgers of this topic; default: of all.", metavar="TOPIC")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the ledgers that topics are made of, by metadata alone. Of all topics, those that cannot be read are named.

    Example: delayed-tracker ledgers list --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed
    """
    with opened(source) as queries:
        logs, unreadable = open_all_topics(queries) if topic is None else ([queries.source.topic_log(topic)], {})
    listed = [(str(log.name), ledger) for log in logs for ledger in log.ledgers]
    if as_json:
        print_json(
            {
                "ledgers": [
                    {
                        "topic": name,
                        "ledger_id": ledger.ledger_id,
                        "entry_count": ledger.last_entry_id + 1,
                        "payload_bytes": ledger.payload_bytes,
                        "closed": ledger.closed,
                    }
                    for name, ledger in listed
                ],
                "unreadable": [{"topic": name, "problem": error.message} for name, error in unreadable.items()],
            }
        )
        return
    numbers = ("ledger", "entries", "size")
    rows = table("ledgers", "topic", "ledger", "state", "entries", "size", numbers=numbers)
    for name, ledger in listed:
        rows.add_row(
            name,
            str(ledger.ledger_id),
            "closed" if ledger.closed else "open",
            str(ledger.last_entry_id + 1),
            "-" if ledger.payload_bytes is None else size(ledger.payload_bytes),
        )
    show(rows)
    for name, error in unreadable.items():
        say(f"unreadable: {name}: {error.message}")
    say(f"{len(listed)} ledgers")
