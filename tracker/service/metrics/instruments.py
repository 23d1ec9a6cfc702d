"""What the shell measures as it goes: one set for a whole service, written by the event loop alone."""

from typing import Final

from tracker.service.metrics.bucket_operations import OPERATIONS
from tracker.service.metrics.histogram import Histogram, LatenessHistogram

LATENESS_BOUNDS_S: Final = (
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600, 21_600, 86_400,
)  # fmt: skip
OPERATION_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
RECOVERY_BOUNDS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
LOOP_LAG_BOUNDS_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

RECOVERY_OUTCOMES: Final = ("succeeded", "failed", "cancelled")


class Instruments:
    """Counts and histograms that belong to no single tracker."""

    def __init__(self) -> None:
        self.operations = {kind: Histogram(OPERATION_BOUNDS_S) for kind in OPERATIONS}
        """How long operations on bucket snapshots took that succeeded."""
        self.lateness = LatenessHistogram(LATENESS_BOUNDS_S)
        self.early_count = 0
        """Indexes handed out before their deadline allowed: a bug, if there ever is one."""
        self.recoveries = {outcome: Histogram(RECOVERY_BOUNDS_S) for outcome in RECOVERY_OUTCOMES}
        self.loop_lag = Histogram(LOOP_LAG_BOUNDS_S)
