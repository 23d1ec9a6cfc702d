"""Process that publishes a storage until it kills itself at a named point.

``python -m tests.cluster.publication.publish_worker CLUSTER STORAGE BACKUP POINT``
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from delayed_tracker.cluster.address import ClusterAddress, connected
from delayed_tracker.cluster.change_record import ChangeRecord
from delayed_tracker.cluster.publication.bucket_switch import PublicationOptions
from delayed_tracker.cluster.publication.publishing import plan_subscription, publish
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.storage.maintenance.opening import opened_storage

LIMITS = TrackerLimits(min_index_count_per_bucket=10, max_step_per_segment_ms=1_000, max_indexes_per_segment=3)


async def run(address: str, storage: str, backup: str, point: str) -> None:
    """Publish all trackers, and end at the point."""

    def at_point(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    async with opened_storage("--from", storage) as whole, connected(ClusterAddress.parse(address)) as cluster:
        trackers = await whole.snapshots.trackers()
        plans = [await plan_subscription(cluster, whole.snapshots, each, LIMITS) for each in trackers]
        with await ChangeRecord.create(Path(backup), cluster) as record:
            options = PublicationOptions(record=record, at_point=at_point)
            await publish(cluster, whole.snapshots, plans, LIMITS, options=options, progress=lambda _done, _total: None)


if __name__ == "__main__":
    asyncio.run(run(*sys.argv[1:]))
