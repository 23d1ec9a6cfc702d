"""Command ``delayed-tracker pulsar inspect``: the buckets of a live cluster, and what is wrong with them."""

import asyncio
import time
from typing import Annotated, Any, Final

import typer

from delayed_tracker.cli.exit_codes import ExitCode
from delayed_tracker.cli.pulsar.options import ClusterUrl, OneSubscription, OneTopic
from delayed_tracker.cli.pulsar.phases import Phases
from delayed_tracker.cli.terminal.options import AsJson
from delayed_tracker.cli.terminal.output import counted, instant, print_json, say, show, size, table
from delayed_tracker.cluster.address import Cluster, ClusterAddress, connected
from delayed_tracker.cluster.inspection import BucketInspector, Fault, InspectedBucket, Inspection
from delayed_tracker.cluster.listing import BucketLedger

PROBLEMS_SHOWN: Final = 100
"""Problems that are listed without --json, at most; all are counted."""
Orphans = Annotated[
    bool,
    typer.Option(
        "--orphans/--no-orphans",
        help="Read the metadata of all ledgers of the cluster for those of buckets that no subscription names.",
    ),
]
BUCKETS_SHOWN: Final = 1_000
"""Buckets that are listed without --json, at most."""


def inspect(
    cluster: ClusterUrl,
    *,
    topic: OneTopic = None,
    subscription: OneSubscription = None,
    orphans: Orphans = True,
    as_json: AsJson = False,
) -> None:
    """Read the buckets that brokers keep for subscriptions; the exit status is 1 if anything is wrong.

    Each bucket's snapshot is read from the bookies and compared with itself and with the range in its property. Nothing is
    changed, no ledger is fenced, and brokers may work meanwhile.

    Example: delayed-tracker pulsar inspect bookkeeper+zk:zk1:2181 --topic persistent://lab/main/delayed
    """
    address = ClusterAddress.parse(cluster, "CLUSTER")
    now_ms = time.time_ns() // 1_000_000
    found = asyncio.run(_inspect(address, topic, subscription, now_ms=now_ms, orphans=orphans))
    if as_json:
        print_json(_document(found, now_ms))
    else:
        _show_buckets(found)
        _show_problems(found)
    if not found.is_sound:
        raise typer.Exit(ExitCode.FAILURE)


async def _inspect(
    address: ClusterAddress, topic: str | None, subscription: str | None, *, now_ms: int, orphans: bool
) -> Inspection:
    async with connected(address, "CLUSTER") as cluster:
        return await inspect_cluster(cluster, topic, subscription, now_ms=now_ms, orphans=orphans)


async def inspect_cluster(
    cluster: Cluster, topic: str | None, subscription: str | None, *, now_ms: int, orphans: bool
) -> Inspection:
    """Inspect a cluster, with progress; arguments and errors are those of ``BucketInspector.inspect``."""
    with Phases() as bars:
        return await BucketInspector(cluster, now_ms=now_ms).inspect(
            topic,
            subscription,
            orphans=orphans,
            scanned=bars.phase("looking for buckets", "ledgers"),
            listed=bars.phase("looking for subscriptions", "topics"),
            read=bars.phase("reading", "buckets"),
        )


def _show_buckets(found: Inspection) -> None:
    """Print the buckets as a table, and their sums."""
    numbers = ("bucket", "messages", "segments", "size", "due", "problems")
    rows = table(
        "buckets", "subscription", "topic", "ledgers", *numbers[:-1], "first deadline", "last deadline", numbers[-1],
        numbers=numbers,
    )  # fmt: skip
    buckets = [(each, bucket) for each in found.subscriptions for bucket in each.buckets]
    for each, bucket in buckets[:BUCKETS_SHOWN]:
        ledgers = bucket.property.ledgers
        rows.add_row(
            each.subscription,
            str(each.topic),
            "-" if ledgers is None else f"{ledgers[0]} to {ledgers[1]}",
            bucket.property.value,
            str(bucket.message_count),
            str(bucket.segment_count),
            size(bucket.byte_count),
            str(bucket.due_count),
            instant(bucket.first_deadline_ms),
            instant(bucket.last_deadline_ms),
            str(len(bucket.problems)) if bucket.problems else "-",
        )
    if buckets:
        show(rows)
    if len(buckets) > BUCKETS_SHOWN:
        say(f"and {len(buckets) - BUCKETS_SHOWN} more; --json has all")
    sums = _sums(found)
    say(
        f"{counted(len(found.subscriptions), 'subscription')} with {counted(len(buckets), 'bucket')}: "
        f"{counted(sums['message_count'], 'message')}, {sums['due_count']} due, {size(sums['byte_count'])}"
        + (f"; {counted(found.ledger_count, 'ledger')} of the cluster looked at" if found.ledger_count else "")
    )


def _show_problems(found: Inspection) -> None:
    """Print the problems as a table, and their number."""
    rows = [
        (
            each.subscription,
            str(each.topic),
            "-" if bucket is None else bucket.property.value,
            problem.fault,
            problem.text,
        )
        for each, bucket, problem in found.problems()
    ]
    rows += [
        (each.subscription or "-", each.topic or "-", str(each.ledger_id), Fault.ORPHAN, orphan_text(each))
        for each in found.orphans
    ]
    if rows:
        shown = table("problems", "subscription", "topic", "bucket", "problem", "", numbers=("bucket",))
        for name, topic, bucket_id, fault, text in rows[:PROBLEMS_SHOWN]:
            shown.add_row(name, topic, bucket_id, fault.value, text)
        show(shown)
        if len(rows) > PROBLEMS_SHOWN:
            say(f"and {len(rows) - PROBLEMS_SHOWN} more; --json has all")
    if found.damaged_ledger_count:
        say(f"{counted(found.damaged_ledger_count, 'ledger')} with metadata that does not decode: its owner is unknown")
    say(counted(len(rows), "problem"))


def orphan_text(ledger: BucketLedger) -> str:
    """Return a sentence about a ledger without a property."""
    if not ledger.closed:
        return "No property names this ledger, which is not closed: a broker is writing it, or its writer was killed."
    return f"No property names this ledger of {size(ledger.payload_bytes)}."


def _document(found: Inspection, now_ms: int) -> dict[str, Any]:
    """Return the findings as JSON."""
    return {
        "sound": found.is_sound,
        "now_ms": now_ms,
        **_sums(found),
        "bucket_count": sum(len(each.buckets) for each in found.subscriptions),
        "ledger_count": found.ledger_count,
        "damaged_ledger_count": found.damaged_ledger_count,
        "subscriptions": [
            {
                "topic": str(each.topic),
                "subscription": each.subscription,
                "damage": each.damage,
                "buckets": [_bucket_document(bucket) for bucket in each.buckets],
            }
            for each in found.subscriptions
        ],
        "orphans": found.orphans,
    }


def _bucket_document(bucket: InspectedBucket) -> dict[str, object]:
    ledgers = bucket.property.ledgers
    return {
        "property": bucket.property,
        "bucket_id": bucket.property.bucket_id,
        "first_ledger_id": None if ledgers is None else ledgers[0],
        "last_ledger_id": None if ledgers is None else ledgers[1],
        "message_count": bucket.message_count,
        "segment_count": bucket.segment_count,
        "byte_count": bucket.byte_count,
        "due_count": bucket.due_count,
        "first_deadline_ms": bucket.first_deadline_ms,
        "last_deadline_ms": bucket.last_deadline_ms,
        "problems": bucket.problems,
    }


def _sums(found: Inspection) -> dict[str, int]:
    buckets = [bucket for each in found.subscriptions for bucket in each.buckets]
    return {
        "message_count": sum(bucket.message_count for bucket in buckets),
        "due_count": sum(bucket.due_count for bucket in buckets),
        "byte_count": sum(bucket.byte_count for bucket in buckets),
    }
