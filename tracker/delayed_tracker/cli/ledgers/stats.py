"""Command ``delayed-tracker ledgers stats``: counts the content of a topic's ledgers."""

from collections.abc import Sequence
from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import instant, print_json, progress, show, size, table
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic.ledger_statistics import LedgerStatistics, count_ledger
from delayed_tracker.ledger.topic.topic_log import Ledger


def stats(
    *,
    source: Source,
    topic: Topic,
    ledger: Annotated[
        int | None, typer.Option("--ledger", min=0, help="Only this ledger; default: all of the topic.", metavar="ID")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the content of a topic's ledgers: messages, batches, delayed, encrypted, damaged ones; reads every entry.

    Example: delayed-tracker ledgers stats --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed
    """
    with opened(source) as queries, progress("counting", "entries") as shown:
        log = queries.topic_log(topic)
        ledgers = log.ledgers if ledger is None else (log.ledger(ledger),)
        counted = _count(ledgers, shown)
    if as_json:
        print_json({"topic": str(log.name), "ledgers": counted})
        return
    names = ("entries", "messages", "batches", "chunks", "delayed", "encrypted", "in transactions", "markers", "bad")
    rows = table(
        str(log.name), "ledger", *names, "size", "first written", "last written", "indexes",
        numbers=("ledger", *names, "size"),
    )  # fmt: skip
    for content in counted:
        counts = (
            content.ledger_id,
            content.entry_count,
            content.message_count,
            content.batch_count,
            content.chunk_count,
            content.delayed_count,
            content.encrypted_count,
            content.transaction_count,
            content.marker_count,
            content.bad_count,
        )
        rows.add_row(
            *map(str, counts),
            size(content.payload_bytes),
            instant(content.first_written_ms),
            instant(content.last_written_ms),
            "-" if content.first_index is None else f"{content.first_index} to {content.last_index}",
        )
    show(rows)


def _count(ledgers: Sequence[Ledger], shown: Progress) -> list[LedgerStatistics]:
    total = sum(ledger.last_entry_id + 1 for ledger in ledgers)
    counted: list[LedgerStatistics] = []
    done = 0

    def seen(entry_count: int) -> None:
        shown(done + entry_count, total)

    for ledger in ledgers:
        counted.append(count_ledger(ledger, seen=seen))
        done += ledger.last_entry_id + 1
    return counted
