"""Command ``delayed-tracker replay``: adds a topic's delayed messages from bookies to a running service."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.ledger_source import OnError, SourceUnreadable
from delayed_tracker.cli.terminal.options import AsJson, Subscription, Topic, reject_tilde_path
from delayed_tracker.cli.terminal.output import duration, print_json, progress, say, say_first, show, table
from delayed_tracker.cli.terminal.service import Service, of_service
from delayed_tracker.cli.tracker.offering import OfferOutcome, offer, parse_instant, server_now_ms, shifted
from delayed_tracker.client import Position
from delayed_tracker.core.values.columns import BEFORE_ALL, IndexColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.source import PendingReport, open_bookie_disk
from delayed_tracker.ledger.source_url import open_live_cluster, require_source
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Counts of a replay: every entry that was read and every index that was added is in them."""

    topic: str
    subscription: str
    read_count: int
    """Entries of the topic's ledgers that could be read."""
    delayed_count: int
    """Read entries with a deadline."""
    acknowledged_count: int
    """Delayed and acknowledged in the cursor: not added."""
    aborted_count: int
    """Delayed and of an aborted transaction: not added."""
    open_transaction_count: int
    """Delayed and of a transaction that is neither committed nor aborted: not added."""
    partly_acknowledged_count: int
    """Added, although some messages of the entry's batch are acknowledged."""
    offered_count: int
    added_count: int
    due_count: int
    duplicate_count: int
    beyond_max_delay_count: int
    below_mark_delete_count: int
    bad_entry_count: int
    """Entries that could not be read, or that no log contains."""
    bad_entries: tuple[str, ...]
    """Position and reason, one line for each entry or each sequence of them; only with --on-error skip."""
    shift_ms: int
    """Milliseconds that were added to every deadline."""

    @property
    def balanced(self) -> bool:
        """True if delayed = acknowledged + aborted + open + offered, and offered = the sum of its results."""
        withheld = self.acknowledged_count + self.aborted_count + self.open_transaction_count
        outcomes = self.added_count + self.due_count + self.duplicate_count
        outcomes += self.beyond_max_delay_count + self.below_mark_delete_count
        return self.delayed_count == withheld + self.offered_count and self.offered_count == outcomes


@of_service
def replay(
    *,
    topic: Topic,
    subscription: Subscription,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            help="A running cluster, bookkeeper+zk:HOST:PORT,HOST:PORT/ROOT; or give --bookie and --metadata.",
            metavar="URL",
        ),
    ] = None,
    bookie: Annotated[
        list[Path] | None,
        typer.Option(
            "--bookie",
            help="Directory with a bookie's entry logs; repeat it for several.",
            metavar="DIR",
            exists=True,
            file_okay=False,
        ),
    ] = None,
    metadata: Annotated[
        str | None,
        typer.Option(
            "--metadata",
            help="Dump of the metadata store, one JSON node a line, or zk:HOST:PORT,HOST:PORT/ROOT.",
            metavar="DUMP",
            callback=reject_tilde_path,
        ),
    ] = None,
    ignore_acks: Annotated[
        bool,
        typer.Option("--ignore-acks", help="Offer acknowledged messages too, as a new subscription would see them."),
    ] = False,
    open_ledgers: Annotated[
        OpenLedgers | None,
        typer.Option(
            "--open-ledgers",
            help="live: a writer may be alive; recovered: the disks are of a dead cluster. By default, recovered for disks; "
            "a running cluster is always read live.",
        ),
    ] = None,
    on_error: OnError = ErrorPolicy.FAIL,
    rebase_at: Annotated[
        str | None,
        typer.Option(
            "--rebase-at",
            help="Shift all deadlines by a constant so that this moment (ISO-8601 or epoch ms) falls on now.",
            metavar="INSTANT",
        ),
    ] = None,
    service: Service,
    as_json: AsJson = False,
) -> None:
    """Add a topic's delayed messages of one subscription to a running service.

    This opens the tracker, takes it over, and leaves it loaded. Messages that are already tracked may be added again.

    Example: delayed-tracker replay --bookie ledgers/current --metadata metadata.jsonl
    --topic persistent://lab/main/delayed --subscription workers

    Example: delayed-tracker replay --source bookkeeper+zk:zk1:2181 --topic persistent://lab/main/delayed
    --subscription workers
    """
    instant_ms = None if rebase_at is None else parse_instant("--rebase-at", rebase_at)
    if source is not None:
        _require_alone(source, bookie=bookie, metadata=metadata, open_ledgers=open_ledgers)
        report = read_pending_of_cluster(source, topic, subscription, ignore_acks=ignore_acks, on_error=on_error)
    elif bookie and metadata is not None:
        report = read_pending(
            bookie,
            metadata,
            topic,
            subscription,
            ignore_acks=ignore_acks,
            open_ledgers=open_ledgers or OpenLedgers.RECOVERED,
            on_error=on_error,
        )
    else:
        missing = "--metadata" if bookie else "--bookie"
        raise InvalidInput(missing, "", "give --bookie and --metadata, or --source bookkeeper+zk:HOST:PORT")
    mark_delete = None if report.mark_delete == BEFORE_ALL else Position(*report.mark_delete)
    outcome, shift_ms = asyncio.run(
        _offer(service, report.topic, subscription, report.indexes, mark_delete=mark_delete, instant_ms=instant_ms)
    )
    account = reconcile(report.topic, subscription, report, outcome, shift_ms=shift_ms)
    if as_json:
        print_json({**_document(account), "balanced": account.balanced})
    else:
        _print_account(account)
    if not account.balanced:
        raise typer.Exit(ExitCode.FAILURE)


def read_pending(
    log_directories: list[Path],
    metadata: str | Path,
    topic: str,
    subscription: str,
    *,
    ignore_acks: bool,
    open_ledgers: OpenLedgers = OpenLedgers.RECOVERED,
    on_error: ErrorPolicy = ErrorPolicy.FAIL,
) -> PendingReport:
    """Return the delayed messages that one subscription has not delivered, from a dead bookie's disk; shows progress.

    Raises:
        LedgerError: files or metadata are damaged, or lack the topic or the subscription.
        InvalidInput: a file cannot be read at all.
        SourceUnreadable: ZooKeeper does not answer any more.
    """
    try:
        with (
            progress("scanning entry logs", "bytes") as scanned,
            open_bookie_disk(log_directories, metadata, topic=topic, progress=scanned) as disk,
            progress("reading entries", "entries") as read,
        ):
            return disk.pending(
                topic,
                subscription,
                ignore_acks=ignore_acks,
                open_ledgers=open_ledgers,
                on_error=on_error,
                progress=read,
            )
    except OSError as error:
        if error.filename is None:
            raise SourceUnreadable(f"{error}; see to it, and try again") from error
        file = str(error.filename)
        if file == str(metadata):
            remedy = "give a dump of the metadata store that can be read, or zk:HOST:PORT"
            raise InvalidInput("--metadata", file, f"{error.strerror}: {remedy}") from error
        raise InvalidInput("file", file, f"{error.strerror}: give files that can be read") from error


def read_pending_of_cluster(
    source: str, topic: str, subscription: str, *, ignore_acks: bool, on_error: ErrorPolicy = ErrorPolicy.FAIL
) -> PendingReport:
    """Return the delayed messages that one subscription has not delivered, from a running cluster; shows progress.

    Raises:
        LedgerError: metadata are damaged, or lack the topic or the subscription; or ZooKeeper does not answer.
        InvalidInput: the URL is not that of a running cluster.
    """
    url = require_source(source)
    if url.scheme != "bookkeeper+zk":
        raise InvalidInput("--source", source, "give bookkeeper+zk:HOST:PORT; other places by --bookie and --metadata")
    with open_live_cluster(url) as cluster, progress("reading entries", "entries") as read:
        return cluster.pending(topic, subscription, ignore_acks=ignore_acks, on_error=on_error, progress=read)


def _require_alone(
    source: str, *, bookie: list[Path] | None, metadata: str | None, open_ledgers: OpenLedgers | None
) -> None:
    """Refuse options that a running cluster has no use for. Raises InvalidInput."""
    if bookie or metadata is not None:
        raise InvalidInput("--source", source, "give it, or --bookie and --metadata, not both")
    if open_ledgers is OpenLedgers.RECOVERED:
        remedy = "a running cluster is read up to the last confirmed entries; leave it out"
        raise InvalidInput("--open-ledgers", open_ledgers.value, remedy)


def reconcile(
    topic: str, subscription: str, report: PendingReport, outcome: OfferOutcome, *, shift_ms: int
) -> Reconciliation:
    """Return the counts of the entries that were read and of their results."""
    return Reconciliation(
        topic=topic,
        subscription=subscription,
        read_count=report.entry_count,
        delayed_count=report.delayed_count,
        acknowledged_count=report.acked_count,
        aborted_count=report.aborted_count,
        open_transaction_count=report.open_transaction_count,
        partly_acknowledged_count=report.partly_acked_count,
        offered_count=outcome.offered_count,
        added_count=outcome.added_count,
        due_count=len(outcome.due),
        duplicate_count=len(outcome.duplicate),
        beyond_max_delay_count=len(outcome.beyond_max_delay),
        below_mark_delete_count=len(outcome.below_mark_delete),
        bad_entry_count=sum(entry.entry_count for entry in report.bad_entries),
        bad_entries=tuple(str(entry) for entry in report.bad_entries),
        shift_ms=shift_ms,
    )


async def _offer(
    service: Service,
    topic: str,
    subscription: str,
    indexes: IndexColumns,
    *,
    mark_delete: Position | None,
    instant_ms: int | None,
) -> tuple[OfferOutcome, int]:
    async with (
        service.connect() as client,
        await client.open_tracker(topic, subscription, mark_delete=mark_delete) as session,
    ):
        shift_ms = 0 if instant_ms is None else await server_now_ms(session) - instant_ms
        with progress("offering", "messages") as offered:
            return await offer(session, shifted(indexes, shift_ms), progress=offered), shift_ms


def _document(account: Reconciliation) -> dict[str, object]:
    return {name: getattr(account, name) for name in Reconciliation.__dataclass_fields__}


def _print_account(account: Reconciliation) -> None:
    rows = table(f"{account.subscription} of {account.topic}", "what", "count", numbers=("count",))
    for name, value in (
        ("entries read", account.read_count),
        ("delayed", account.delayed_count),
        ("- acknowledged", account.acknowledged_count),
        ("- of aborted transactions", account.aborted_count),
        ("- of open transactions", account.open_transaction_count),
        ("= offered", account.offered_count),
        ("  batches acknowledged in part", account.partly_acknowledged_count),
        ("  added", account.added_count),
        ("  due on offer", account.due_count),
        ("  duplicate", account.duplicate_count),
        ("  beyond the maximum delay", account.beyond_max_delay_count),
        ("  at or below mark-delete", account.below_mark_delete_count),
        ("bad entries", account.bad_entry_count),
    ):
        rows.add_row(name, str(value))
    show(rows)
    if account.shift_ms:
        say(f"deadlines were shifted by {duration(account.shift_ms)}")
    say_first("bad", account.bad_entries)
    if not account.balanced:
        say("the counts do not add up: please report this")
