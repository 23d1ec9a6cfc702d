"""Command ``delayed-tracker ledgers verify``: checks that every entry exists and every checksum is right."""

from typing import Annotated, Final

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.ledger_source import Source, opened
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import print_json, progress, say, say_first, show, size, table
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.queries.verify import LedgerVerdict, verify_topics, verify_unclaimed

_NO_TOPIC: Final = "(no topic)"


def verify(
    *,
    source: Source,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", help="Only this topic; may be repeated; default: all.", metavar="TOPIC"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read every entry and check all checksums, the storage's and the producers'; the exit status is 1 if one is wrong.

    Example: delayed-tracker ledgers verify --source 'bookkeeper+file:ledgers/current?metadata=metadata.jsonl'
    """
    with opened(source, on_error=ErrorPolicy.SKIP) as queries, progress("verifying", "entries") as shown:
        names = queries.topics() if topic is None else [str(queries.source.topic_log(name).name) for name in topic]
        verdicts = list(verify_topics(queries.source, names, progress=shown))
        verdicts += verify_unclaimed(queries.source) if topic is None else ()
    sound = all(verdict.sound for verdict in verdicts)
    if as_json:
        print_json({"sound": sound, "ledgers": [_document(verdict) for verdict in verdicts]})
    else:
        _show(verdicts)
    if not sound:
        raise typer.Exit(ExitCode.FAILURE)


def _document(verdict: LedgerVerdict) -> dict[str, object]:
    return {
        "topic": verdict.topic,
        "ledger_id": verdict.ledger_id,
        "compacted": verdict.compacted,
        "sound": verdict.sound,
        "entry_count": verdict.entry_count,
        "payload_bytes": verdict.payload_bytes,
        "sound_count": verdict.sound_count,
        "bad_count": verdict.bad_count,
        "bad_entries": verdict.bad_entries,
        "problem": verdict.problem,
    }


def _show(verdicts: list[LedgerVerdict]) -> None:
    numbers = ("ledger", "entries", "size", "bad")
    rows = table("ledgers", "topic", *numbers, "verdict", "kind", numbers=numbers)
    for verdict in verdicts:
        rows.add_row(
            verdict.topic or _NO_TOPIC,
            "-" if verdict.ledger_id is None else str(verdict.ledger_id),
            str(verdict.entry_count),
            size(verdict.payload_bytes),
            str(verdict.bad_count),
            "sound" if verdict.sound else "unreadable" if verdict.problem else "damaged",
            "compacted" if verdict.compacted else "",
        )
    show(rows)
    for verdict in verdicts:
        if verdict.problem is not None:
            ledger = "" if verdict.ledger_id is None else f", ledger {verdict.ledger_id}"
            say(f"unreadable: {verdict.topic or _NO_TOPIC}{ledger}: {verdict.problem}")
    say_first("bad", [entry for verdict in verdicts for entry in verdict.bad_entries])
    entry_count = sum(verdict.entry_count for verdict in verdicts)
    sound_count = sum(verdict.sound_count for verdict in verdicts)
    damaged = sum(1 for verdict in verdicts if not verdict.sound)
    say(
        f"{sound_count} of {entry_count} entries are sound, {entry_count - sound_count} missing, damaged or not read; "
        f"{damaged} of {len(verdicts)} ledgers with problems"
    )
