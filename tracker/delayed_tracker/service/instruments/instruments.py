"""The measurements of the service that belong to no single tracker, written only by the event loop."""

from typing import Final

from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.instruments.bucket_operations import OPERATIONS
from delayed_tracker.service.instruments.clock_steps import ClockSteps
from delayed_tracker.service.instruments.histogram import Histogram, LatenessHistogram
from delayed_tracker.service.instruments.recovery_times import RecoveryTimes
from delayed_tracker.service.instruments.security_counts import SecurityCounts

LATENESS_BOUNDS_S: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400,
)  # fmt: skip
OPERATION_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
LOOP_LAG_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)


class Instruments:
    """Counts and histograms that belong to no single tracker."""

    def __init__(self, clock: Clock) -> None:
        self.operations = {kind: Histogram(OPERATION_BOUNDS_S) for kind in OPERATIONS}
        """Durations of operations on bucket snapshots that succeeded, by type."""
        self.lateness = LatenessHistogram(LATENESS_BOUNDS_S)
        self.early_count = 0
        """Indexes handed out before their deadline allowed; always 0, unless there is a bug."""
        self.recoveries = RecoveryTimes(clock)
        self.loop_lag = Histogram(LOOP_LAG_BOUNDS_S)
        self.clock_steps = ClockSteps(clock)
        self.security = SecurityCounts()

    def note_handed_out(self, key: TrackerKey, indexes: IndexColumns, cutoff_ms: int, now_ms: int) -> None:
        """Record the answer of a poll.

        Args:
            key: tracker of the indexes.
            indexes: at least one, ascending by deadline.
            cutoff_ms: the last deadline that was due.
            now_ms: time of the hand-out.
        """
        if int(indexes.deliver_at_ms[-1]) > cutoff_ms:
            self.early_count += int((indexes.deliver_at_ms > cutoff_ms).sum())
        latest = f"{indexes.ledger_id[0]}:{indexes.entry_id[0]}"
        labels = (("position", latest), ("subscription", key.subscription), ("topic", key.topic))
        self.lateness.observe(indexes.deliver_at_ms, now_ms, labels)
