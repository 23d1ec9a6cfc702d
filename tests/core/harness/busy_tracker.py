"""A tracker with a bucket in every state, for tests that inspect it."""

from delayed_tracker.core.core import TrackerCore
from delayed_tracker.core.engine.effect_results import SegmentLoadFailed
from delayed_tracker.core.engine.effects import LoadSegments, StoreSnapshot
from delayed_tracker.core.engine.lifecycle import BucketLifecycle
from delayed_tracker.core.engine.state import TrackerState
from delayed_tracker.core.index.buckets import Bucket, MemoryCopies, SnapshotSegments
from delayed_tracker.core.index.lease_part import LeasePart
from delayed_tracker.core.index.runs import Run
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import Shell

LIMITS = TrackerLimits(
    strict=True,
    min_index_count_per_bucket=4,
    max_indexes_per_segment=2,
    prefetch_window_ms=100,
    load_indexes_max=2,
    retry_backoff_ms=10_000,
)
NEAR_MS = 1_050
FAR_MS = 5_000_000

LATE, LOADING, IDLE, WAITING, RETRYING, SEALING, MUTABLE = range(7)
"""Each bucket of the busy tracker has one of these ledgers to itself."""


class BusyTracker:
    """A tracker with a bucket in every state; the ledger selects the bucket."""

    def __init__(self) -> None:
        shell = Shell.with_limits(LIMITS)
        for ledger, first_ms in ((LOADING, NEAR_MS), (IDLE, FAR_MS), (WAITING, NEAR_MS + 10)):
            # In three segments. Of the near ones the first stays in memory, and the second is requested.
            shell.add(*[(first_ms + entry // 2, ledger, entry) for entry in range(6)])
            shell.core.seal_mutable_bucket(shell.now)
            shell.store()
        _, failing = shell.asked(LoadSegments)
        shell.core.apply(SegmentLoadFailed(failing.effect_id, lost=False), shell.now)
        shell.add(*[(FAR_MS + entry, RETRYING, entry) for entry in range(4)])
        shell.core.seal_mutable_bucket(shell.now)
        shell.fail_store()
        shell.add(*[(FAR_MS + entry, SEALING, entry) for entry in range(4)])
        shell.core.seal_mutable_bucket(shell.now)
        assert len(shell.asked(StoreSnapshot)) == 1
        shell.add(*[(FAR_MS + entry, MUTABLE, entry) for entry in range(4)])
        shell.add((FAR_MS, LATE, 0), (FAR_MS, LATE, 1))
        # The dispatcher sends two positions of the mutable bucket itself and offers one of them again: copies stay
        # behind.
        shell.now_ms = NEAR_MS
        shell.add((0, MUTABLE, 0), (0, MUTABLE, 1))
        shell.add((FAR_MS + 77, MUTABLE, 1))
        shell.pop(1, lease_ms=50)
        shell.pop(1, lease_ms=70)
        shell.core.stats()  # clears bits that pops left to be cleared
        self.core: TrackerCore = shell.core

    @property
    def state(self) -> TrackerState:
        return self.core._state

    @property
    def lifecycle(self) -> BucketLifecycle:
        return self.core._lifecycle

    def bucket(self, ledger: int) -> Bucket:
        (bucket,) = self.state.members._by_ledger[ledger]
        return bucket

    def snapshot(self, ledger: int) -> SnapshotSegments:
        snapshot = self.bucket(ledger).snapshot
        assert snapshot is not None
        return snapshot

    def memory(self, ledger: int) -> MemoryCopies:
        memory = self.bucket(ledger).memory
        assert memory is not None
        return memory

    def run(self, ledger: int) -> Run:
        (run,) = self.state.heap.of_bucket(self.bucket(ledger).key)
        return run

    def lease(self) -> LeasePart:
        return self.state.leases._leases[1][0]
