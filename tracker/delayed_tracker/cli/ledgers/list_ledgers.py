"""Command ``delayed-tracker ledgers list``: lists the ledgers of one topic or of all."""

from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.ledgers.all_topics import open_all_topics
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import print_json, say, show, size, table
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import Ledger


def list_ledgers(
    *,
    source: Source,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Only ledgers of this topic; default: of all.", metavar="TOPIC")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the ledgers of topics, from metadata alone.

    Topics and ledgers that cannot be read are listed with the reason.

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
                        "entry_count": _entry_count(ledger),
                        "payload_bytes": ledger.payload_bytes,
                        "closed": ledger.closed,
                        "problem": ledger.problem if isinstance(ledger, AbsentLedger) else None,
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
            "absent" if isinstance(ledger, AbsentLedger) else "closed" if ledger.closed else "open",
            "-" if (entry_count := _entry_count(ledger)) is None else str(entry_count),
            "-" if ledger.payload_bytes is None else size(ledger.payload_bytes),
        )
    show(rows)
    for name, ledger in listed:
        if isinstance(ledger, AbsentLedger):
            say(f"absent: {name}, ledger {ledger.ledger_id}: {ledger.problem}")
    for name, error in unreadable.items():
        say(f"unreadable: {name}: {error.message}")
    say(f"{len(listed)} ledgers")


def _entry_count(ledger: Ledger) -> int | None:
    return ledger.entry_count if isinstance(ledger, AbsentLedger) else ledger.last_entry_id + 1
