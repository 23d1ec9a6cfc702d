"""Command ``delayed-tracker topics stats``: prints the size of a topic, from its metadata."""

from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import print_json, show, size, table
from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import TopicLog


def stats(*, source: Source, topic: Topic, as_json: AsJson = False) -> None:
    """Print the number of ledgers, entries and bytes of a topic, and its first and last entry; reads no entries.

    Example: delayed-tracker topics stats --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    --topic persistent://lab/main/delayed
    """
    with opened(source) as queries:
        log = queries.topic_log(topic)
        compacted = queries.source.compacted_log(str(log.name))
    payload_bytes = _payload_bytes(log)
    first, last = (_known(log, position) for position in (log.first, log.last))
    absent = [ledger for ledger in log.ledgers if isinstance(ledger, AbsentLedger)]
    entry_count = log.entry_count - sum(ledger.entry_count is None for ledger in absent)
    if as_json:
        print_json(
            {
                "topic": str(log.name),
                "ledger_count": len(log.ledgers),
                "entry_count": entry_count,
                "payload_bytes": payload_bytes,
                "first": first,
                "last": last,
                "terminated_at": log.terminated_at,
                "absent": [{"ledger_id": ledger.ledger_id, "problem": ledger.problem} for ledger in absent],
                "properties": log.properties,
                "compacted": compacted
                and {
                    "ledger_id": compacted.ledger.ledger_id,
                    "entry_count": compacted.ledger.last_entry_id + 1,
                    "horizon": compacted.horizon,
                },
            }
        )
        return
    rows = table(str(log.name), "what", "value")
    rows.add_row("ledgers", str(len(log.ledgers)))
    rows.add_row("entries", str(entry_count))
    rows.add_row("size", "unknown" if payload_bytes is None else size(payload_bytes))
    for name, position in (("first entry", first), ("last entry", last), ("terminated at", log.terminated_at)):
        rows.add_row(name, str(position or "-"))
    for ledger in absent:
        rows.add_row(f"absent ledger {ledger.ledger_id}", ledger.problem)
    for key, value in log.properties.items():
        rows.add_row(f"property {key}", value)
    if compacted is not None:
        rows.add_row("compacted up to", str(compacted.horizon))
        rows.add_row("compacted ledger", f"{compacted.ledger.ledger_id}: {compacted.ledger.last_entry_id + 1} entries")
    show(rows)


def _known(log: TopicLog, position: Position | None) -> Position | None:
    """Return a position; None also if the number of the ledger's entries is unknown."""
    ledger = None if position is None else log.ledger(position.ledger_id)
    return None if isinstance(ledger, AbsentLedger) and ledger.entry_count is None else position


def _payload_bytes(log: TopicLog) -> int | None:
    """Return the payload bytes of all ledgers; None if those of one are unknown."""
    sizes = [ledger.payload_bytes for ledger in log.ledgers]
    known = [known for known in sizes if known is not None]
    return sum(known) if len(known) == len(sizes) else None
