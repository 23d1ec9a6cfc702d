"""Storage with buckets made by a service, for benchmarks that begin with one."""

import time

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.storage.registry import open_storage
from tests.benchmarks.inputs.hosted import hosted_over
from tests.benchmarks.inputs.shapes import BATCH, NOW_MS, WEEK_MS, Shape, batches, buckets, default_limits
from tests.benchmarks.measure import Run


async def store_buckets(run: Run, url: str, pending: int) -> None:
    """Store ``pending`` indexes of the tracker ``hosted.KEY`` in buckets over a week that begins in a week from now.

    Args:
        run: has the size of a bucket.
        url: of a storage that has nothing yet.
        pending: a multiple of that size.
    """
    run.note(f"storing {pending:,} indexes")
    now_ms = time.time_ns() // 1_000_000
    count = pending // run.scale.bucket
    async with hosted_over(open_storage(url), default_limits(run.scale), now_ms=now_ms) as tracker:
        for bucket in buckets(Shape.WEEK, run.scale, count):
            deadlines = bucket.deliver_at_ms + (now_ms - NOW_MS + WEEK_MS)
            await tracker.add(batches(IndexColumns(deadlines, bucket.ledger_id, bucket.entry_id), 10 * BATCH))
        tracker.host.seal(tracker.epoch)
        await tracker.until(lambda: tracker.host.counters.snapshots_stored == count)
