"""Command ``delayed-tracker topics compact``: copies the latest message of each key to a compacted ledger."""

import time
from typing import Annotated

import typer

from delayed_tracker.cli.ledger_source import (
    SOURCE_VARIABLE,
    OnError,
    sources_given,
    translate_disk_errors,
    translate_file_errors,
)
from delayed_tracker.cli.terminal.options import AsJson, Topic
from delayed_tracker.cli.terminal.output import print_json, progress, say, say_first, show, size, table
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.local.compacting import LocalCompaction, compact_local_topic
from delayed_tracker.ledger.source_url import parse_source_url, translate_source_errors


def compact(
    *,
    source: Annotated[
        list[str],
        typer.Option(
            "--source",
            envvar=SOURCE_VARIABLE,
            callback=sources_given,
            help="Local ledgers, ledger:DIR, and no other source; import others first.",
            metavar="URL",
        ),
    ],
    topic: Topic,
    retain_null_key: Annotated[
        bool, typer.Option("--retain-null-key", help="Keep messages that have no key; by default they are dropped.")
    ] = False,
    on_error: OnError = ErrorPolicy.FAIL,
    as_json: AsJson = False,
) -> None:
    """Compact a topic of local ledgers: copy the latest message of each key to a compacted ledger. The topic stays.

    Example: delayed-tracker topics compact --source ledger:ledgers --topic persistent://lab/main/prices
    """
    if len(source) > 1:
        raise InvalidInput(
            "--source",
            " ".join(source),
            "a compaction writes into one directory, and these are several sources: give only --source ledger:DIR, which "
            "also overrides DELAYED_TRACKER_SOURCE",
        )
    url = parse_source_url(source[0])
    if url.scheme != "ledger":
        raise InvalidInput("--source", url.text, "only local ledgers can be compacted: import it, and give ledger:DIR")
    url.expect()
    remedy = "make it readable and writable, and room for what is written"
    with (
        translate_file_errors(url.text, remedy),
        translate_source_errors(url, remedy),
        translate_disk_errors("--source", url.text),
        progress("compacting", "entries (two passes)") as shown,
    ):
        made = compact_local_topic(
            url.one_path(),
            topic,
            now_ms=time.time_ns() // 1_000_000,
            retain_null_key=retain_null_key,
            on_error=on_error,
            progress=shown,
        )
    if as_json:
        print_json({"compacted": made})
    elif made is None:
        say("nothing to compact")
    else:
        _show(made)


def _show(made: LocalCompaction) -> None:
    rows = table("compacted", "what", "value")
    rows.add_row("up to", str(made.horizon))
    rows.add_row("compacted ledger", str(made.ledger_id))
    rows.add_row("entries", str(made.summary.entry_count))
    rows.add_row("batches written anew", str(made.summary.rebatched_count))
    rows.add_row("batches kept undecoded", str(made.summary.undecodable_count))
    rows.add_row("size", size(made.summary.payload_bytes))
    show(rows)
    say_first("bad", made.bad_entries)
