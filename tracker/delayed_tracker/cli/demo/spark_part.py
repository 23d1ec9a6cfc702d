"""Second part of the demo: Spark rebuilds the same snapshots from the ledgers, without a service.

The result must be the same as the service's snapshots: the same buckets, with the same segments, in the same bytes,
after the service's deadlines are shifted back to those of Pulsar's producers.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from delayed_tracker.cli.demo.buckets_part import PULSAR_SETTINGS, SubscriptionBuckets
from delayed_tracker.cli.demo.checks import Checks
from delayed_tracker.cli.demo.sample import Sample
from delayed_tracker.cli.demo.snapshot_comparison import BucketComparison, compare_snapshots
from delayed_tracker.cli.terminal.output import progress, table
from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.protocol import CatalogueEntry, SnapshotStore
from delayed_tracker.storage.registry import open_storage

_WORKERS = "local[2]"


class SparkFailed(DelayedTrackerError):
    """The rebuild with Spark failed; the message contains its last output."""

    reason = "SPARK_FAILED"


@dataclass(frozen=True, slots=True)
class RebuiltSubscription:
    """One subscription of the sample, rebuilt by Spark and compared with the service's snapshots."""

    topic: str
    subscription: str
    live_count: int
    """Snapshots that the service stored."""
    comparisons: tuple[BucketComparison, ...]
    """One comparison for each snapshot that Spark made."""

    @property
    def difference_count(self) -> int:
        """Snapshots that only one of the two has, or that are not equal."""
        unequal = sum(not comparison.equal for comparison in self.comparisons)
        return unequal + max(0, self.live_count - len(self.comparisons))


@dataclass(frozen=True, slots=True)
class _Rebuilt:
    """A snapshot of Spark, in the form of a comparison's argument."""

    first_ledger_id: int
    last_ledger_id: int
    metadata: bytes
    segments: tuple[bytes, ...]


def has_spark() -> bool:
    """Return True if Spark is installed."""
    return find_spec("pyspark") is not None


async def show_rebuild(
    sample: Sample,
    work_directory: Path,
    storage_url: str,
    replayed: Sequence[SubscriptionBuckets],
    *,
    console: Console,
    checks: Checks,
) -> list[RebuiltSubscription]:
    """Rebuild the sample with Spark as of the capture, and compare it with the service's snapshots.

    Raises:
        SparkFailed: the job failed.
        StorageError: a storage cannot be read.
    """
    rebuilt_url = f"sqlite:{work_directory / 'rebuilt.db'}"
    document = await _rebuild(sample, work_directory, rebuilt_url)
    seconds = sum(document["seconds"].values())
    console.print(
        f"Spark read {document['read']} entries and wrote {document['written']} indexes, in {seconds:.1f} s.\n"
    )
    live, theirs = open_storage(storage_url), open_storage(rebuilt_url)
    await live.start()
    await theirs.start()
    try:
        compared = [await _compare(one, live, theirs) for one in replayed]
    finally:
        await theirs.close()
        await live.close()
    rows = table(
        "Rebuilt by Spark, against the live service", "topic", "subscription", "snapshots", "rebuilt", "different"
    )
    for one in compared:
        rows.add_row(
            one.topic, one.subscription, str(one.live_count), str(len(one.comparisons)), str(one.difference_count)
        )
    console.print(rows)
    for subscription, one in zip(sample.subscriptions, compared, strict=True):
        checks.equal(f"snapshots of {one.topic} rebuilt by Spark", len(one.comparisons), len(subscription.buckets))
        checks.equal("  different from the live service's, in any byte", one.difference_count, 0)
    return compared


async def _rebuild(sample: Sample, work_directory: Path, target: str) -> Any:
    settings = [option for key, value in PULSAR_SETTINGS.items() for option in ("--set", f"{key}={value}")]
    with progress("rebuilding with Spark", "jobs"):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "delayed_tracker.cli.spark", "rebuild",
            "--source", f"bookkeeper+file:{sample.log_directory}?metadata={sample.metadata}",
            "--ignore-acks", "--now", str(sample.captured_at_ms),
            "--staging", str(work_directory / "staging"), "--commit", target, "--json",
            "--master", _WORKERS, "--spark-option", "spark.ui.enabled=false",
            "--spark-option", "spark.sql.shuffle.partitions=2", "--spark-option", f"spark.local.dir={work_directory}",
            *settings,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=work_directory,
        )  # fmt: skip
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode:
        said = err.decode("utf-8", "replace").rstrip().rpartition("\n")[2]
        raise SparkFailed(f"spark-rebuild ended with status {process.returncode}: {said}")
    return json.loads(out)


async def _compare(replayed: SubscriptionBuckets, live: SnapshotStore, rebuilt: SnapshotStore) -> RebuiltSubscription:
    topic, subscription = replayed.account.topic, replayed.account.subscription
    ours = (await live.list(topic, subscription)).entries
    theirs = [await _read(rebuilt, entry) for entry in (await rebuilt.list(topic, subscription)).entries]
    compared = await compare_snapshots(theirs, live, ours, shift_ms=replayed.account.shift_ms)
    return RebuiltSubscription(topic, subscription, len(ours), tuple(compared))


async def _read(store: SnapshotStore, entry: CatalogueEntry) -> _Rebuilt:
    metadata = await store.get_bucket_snapshot_metadata(entry.bucket_id)
    first, last = entry.first.ledger_id, entry.last.ledger_id
    length = len(decode_metadata(metadata).bounds)
    segments = await store.get_bucket_snapshot_segments(entry.bucket_id, 1, length)
    return _Rebuilt(first, last, metadata, tuple(segments))
