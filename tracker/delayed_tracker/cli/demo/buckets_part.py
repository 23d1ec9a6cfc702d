"""First part of the demo: the messages at the time when Pulsar was stopped, and the buckets that they form."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from delayed_tracker.cli.demo.checks import Checks
from delayed_tracker.cli.demo.drawing import shades, time_axis, time_line
from delayed_tracker.cli.demo.sample import Sample, SampleSubscription
from delayed_tracker.cli.demo.service_process import ServiceProcess
from delayed_tracker.cli.demo.snapshot_comparison import BucketComparison, compare_snapshots
from delayed_tracker.cli.terminal.output import size, table
from delayed_tracker.cli.tracker.offering import offer, server_now_ms, shifted
from delayed_tracker.cli.tracker.replay import Reconciliation, read_pending, reconcile
from delayed_tracker.client import Bucket, BucketState, DelayedTrackerClient, TrackerView
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.storage.registry import open_storage

PULSAR_SETTINGS = {
    "delayedDeliveryTickTimeMillis": "1000",
    "isDelayedDeliveryDeliverAtTimeStrict": "false",
    "delayedDeliveryMinIndexCountPerBucket": "50",
    "delayedDeliveryMaxTimeStepPerBucketSnapshotSegmentSeconds": "300",
    "delayedDeliveryMaxIndexesPerBucketSnapshotSegment": "30",
}
"""Settings of that Pulsar. (It also merged beyond 10 buckets; no topic of the sample had so many.)"""

_SEALED_WITHIN_S = 30.0
_SEALED_CHECK_S = 0.02
_LINE_WIDTH = 56


class StoringTooSlow(DelayedTrackerError):
    """The service did not store its snapshots in time; the disk is slow, or the service's log contains the reason."""

    reason = "STORING_TOO_SLOW"


@dataclass(frozen=True, slots=True)
class SubscriptionBuckets:
    """One subscription of the sample, replayed and compared."""

    account: Reconciliation
    buckets: tuple[Bucket, ...]
    comparisons: tuple[BucketComparison, ...]


@dataclass(frozen=True, slots=True)
class _Replayed:
    account: Reconciliation
    buckets: tuple[Bucket, ...]
    indexes: IndexColumns
    """Indexes as they were added to the service."""


async def show_buckets(
    sample: Sample, work_directory: Path, storage_url: str, console: Console, checks: Checks
) -> list[SubscriptionBuckets]:
    """Replay each subscription as of the capture, draw its buckets, and compare the snapshots with Pulsar's.

    Raises:
        LedgerError: the sample's ledgers cannot be read.
        ServiceDidNotStart, TrackerCallError, StorageError: the service or its storage failed.
    """
    service = await ServiceProcess.start(work_directory, storage_url=storage_url, settings=PULSAR_SETTINGS)
    try:
        async with DelayedTrackerClient.connect(service.grpc_address) as client:
            replayed = [await _replay(client, sample, subscription) for subscription in sample.subscriptions]
        for subscription, result in zip(sample.subscriptions, replayed, strict=True):
            _draw(console, result, captured_at_ms=sample.captured_at_ms)
            _check_account(checks, subscription, result)
        checks.equal("the service stopped in order on SIGTERM, with exit status", await service.stop(), 0)
    finally:
        await service.ensure_stopped()
    compared = [
        await _compare(sample, storage_url, subscription, result)
        for subscription, result in zip(sample.subscriptions, replayed, strict=True)
    ]
    _print_comparison(console, sample, compared)
    for subscription, comparison in zip(sample.subscriptions, compared, strict=True):
        _check_comparison(checks, subscription, comparison)
    return compared


async def _replay(client: DelayedTrackerClient, sample: Sample, subscription: SampleSubscription) -> _Replayed:
    topic, name = subscription.topic, subscription.subscription
    report = read_pending([sample.log_directory], sample.metadata, topic, name, ignore_acks=True)
    async with await client.open_tracker(topic, name, owner="demo") as session:
        shift_ms = await server_now_ms(session) - sample.captured_at_ms
        indexes = shifted(report.indexes, shift_ms)
        outcome = await offer(session, indexes)
        buckets = await sealed_buckets(session)
    return _Replayed(reconcile(topic, name, report, outcome, shift_ms=shift_ms), buckets, indexes)


async def sealed_buckets(view: TrackerView) -> tuple[Bucket, ...]:
    """Return the buckets when all snapshots are stored."""
    try:
        async with asyncio.timeout(_SEALED_WITHIN_S):
            # The service has no call that waits for this, and needs none.
            while any(bucket.state is BucketState.SEALING for bucket in await view.buckets()):  # noqa: ASYNC110
                await asyncio.sleep(_SEALED_CHECK_S)
    except TimeoutError as error:
        raise StoringTooSlow(f"snapshots were not stored within {_SEALED_WITHIN_S:g} s") from error
    return await view.buckets()


async def _compare(
    sample: Sample, storage_url: str, subscription: SampleSubscription, replayed: _Replayed
) -> SubscriptionBuckets:
    topic, name = subscription.topic, subscription.subscription
    with open_bookie_disk([sample.log_directory], sample.metadata) as disk:
        theirs = disk.stored_snapshots(topic, name)
    store = open_storage(storage_url)
    await store.start()
    try:
        entries = (await store.list(topic, name)).entries
        comparisons = await compare_snapshots(theirs, store, entries, shift_ms=replayed.account.shift_ms)
    finally:
        await store.close()
    return SubscriptionBuckets(replayed.account, replayed.buckets, tuple(comparisons))


def _check_account(checks: Checks, subscription: SampleSubscription, replayed: _Replayed) -> None:
    account = replayed.account
    console = checks.console
    console.print(f"[bold]{subscription.topic}[/], subscription {subscription.subscription}")
    checks.equal("entries read from the bookie's disk", account.read_count, subscription.entries)
    checks.equal("delayed messages among them", account.delayed_count, subscription.delayed)
    checks.equal("bad entries", len(account.bad_entries), 0)
    checks.equal("due when Pulsar was stopped", account.due_count, subscription.due_at_capture)
    checks.equal("tracked", account.added_count, subscription.delayed - subscription.due_at_capture)
    sealed = sum(bucket.tracked_count for bucket in replayed.buckets if bucket.state is BucketState.SEALED)
    filling = sum(bucket.tracked_count for bucket in replayed.buckets if bucket.state is BucketState.MUTABLE)
    checks.equal("in stored buckets", sealed, subscription.bucket_indexes)
    checks.equal("in the bucket still filling", filling, account.added_count - subscription.bucket_indexes)


def _check_comparison(checks: Checks, subscription: SampleSubscription, compared: SubscriptionBuckets) -> None:
    count = len(subscription.buckets)
    checks.equal(f"Pulsar's snapshots of {subscription.topic}", len(compared.comparisons), count)
    checks.equal(
        "  equal to ours in ledgers, segments, rows, bitmaps and bytes",
        sum(comparison.equal for comparison in compared.comparisons),
        count,
    )
    indexes = sum(comparison.index_count for comparison in compared.comparisons)
    segments = sum(comparison.segment_count for comparison in compared.comparisons)
    checks.equal("  indexes in them", indexes, subscription.bucket_indexes)
    checks.equal("  segments in them", segments, subscription.bucket_segments)


def _draw(console: Console, replayed: _Replayed, *, captured_at_ms: int) -> None:
    rows = table(
        f"{replayed.account.topic}: deadlines of each bucket, from now on",
        "ledgers", "state", time_axis(_LINE_WIDTH), "indexes", "segments", "snapshot",
        numbers=("indexes", "segments", "snapshot"),
    )  # fmt: skip
    characters = shades(console)
    offered_at_ms = captured_at_ms + replayed.account.shift_ms
    for bucket in replayed.buckets:
        inside = (replayed.indexes.ledger_id >= bucket.first.ledger_id) & (
            replayed.indexes.ledger_id <= bucket.last.ledger_id
        )
        wait_ms = replayed.indexes.deliver_at_ms[inside] - offered_at_ms
        rows.add_row(
            _range(bucket.first.ledger_id, bucket.last.ledger_id),
            bucket.state.value,
            time_line(wait_ms[wait_ms > 0], _LINE_WIDTH, characters),
            str(bucket.tracked_count),
            str(bucket.segment_count),
            size(bucket.snapshot_bytes) if bucket.snapshot_bytes else "-",
        )
    console.print(rows)


def _print_comparison(console: Console, sample: Sample, compared: Sequence[SubscriptionBuckets]) -> None:
    facets = ("ledgers", "segments", "rows", "bitmaps", "bytes")
    rows = table(
        f"Snapshots that Pulsar had stored by {sample.captured_at}, against ours",
        "topic", "ledger range", "indexes", "in segments", *facets,
        numbers=("indexes", "in segments"),
    )  # fmt: skip
    for result in compared:
        for bucket in result.comparisons:
            verdicts = (
                bucket.range_equal,
                bucket.segments_equal,
                bucket.indexes_equal,
                bucket.bitmaps_equal,
                bucket.bytes_equal,
            )
            rows.add_row(
                result.account.topic.removeprefix("persistent://"),
                _range(bucket.first_ledger_id, bucket.last_ledger_id),
                str(bucket.index_count),
                str(bucket.segment_count),
                *("[green]equal[/]" if verdict else "[bold red]differ[/]" for verdict in verdicts),
            )
    console.print(rows)


def _range(first_ledger_id: int, last_ledger_id: int) -> str:
    return str(first_ledger_id) if first_ledger_id == last_ledger_id else f"{first_ledger_id}-{last_ledger_id}"
