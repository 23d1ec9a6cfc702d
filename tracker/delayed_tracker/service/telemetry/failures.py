"""Log lines about storage failures, few enough for an operator to read.

The first failure of each tracker and kind is logged at once. As long as the failures continue, one line a minute
follows, with the number of failures in between. A success ends the failure: the next one is logged at once again.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import TrackerKey

STORE_FAILED: Final = "snapshot not stored, its positions stay in memory"
LOAD_FAILED: Final = "segments not loaded"
MERGE_FAILED: Final = "buckets not merged"
DELETE_FAILED: Final = "snapshots not deleted"
SNAPSHOT_LOST: Final = "snapshot lost, the dispatcher is asked to replay"
RECOVERY_FAILED: Final = "tracker not recovered"
CHECKPOINT_FAILED: Final = "consumed positions not recorded, they come back as duplicates"
FENCED: Final = "another owner has taken over the tracker"

REPEATED_AFTER_MS: Final = 60_000
"""Interval, in milliseconds, at which a lasting failure is logged."""

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(slots=True)
class _Failing:
    begun_ms: float
    attempts: int
    suppressed: int
    logged_at_ms: float


class FailureLog:
    """Log of the failures that last now, for all trackers. It stores nothing about trackers without failures."""

    def __init__(self, clock: Clock, *, retry_ms: int) -> None:
        self._clock = clock
        self._retry_ms = retry_ms
        self._lasting: dict[TrackerKey, dict[str, _Failing]] = {}

    def failed(
        self, key: TrackerKey, event: str, error: DelayedTrackerError, *, retried: bool = True, **fields: object
    ) -> None:
        """Record a failure, and log it unless a line of the same kind was logged within the last minute.

        Args:
            key: tracker that failed.
            event: one of the messages above.
            error: error of the last attempt.
            retried: True if the operation is repeated automatically.
            fields: further fields of the line, such as ``bucket_id``.
        """
        now_ms = self._clock.elapsed_ms()
        kinds = self._lasting.setdefault(key, {})
        failing = kinds.get(event)
        if failing is None:
            failing = kinds[event] = _Failing(now_ms, 0, 0, now_ms - REPEATED_AFTER_MS)
        failing.attempts += 1
        if now_ms - failing.logged_at_ms < REPEATED_AFTER_MS:
            failing.suppressed += 1
            return
        if retried:
            fields["retry_in_ms"] = self._retry_ms
        _log.warning(
            event,
            topic=key.topic,
            subscription=key.subscription,
            attempt=failing.attempts,
            suppressed=failing.suppressed,
            reason=error.reason,
            error=error.message,
            **fields,
        )
        failing.suppressed, failing.logged_at_ms = 0, now_ms

    def over(self, key: TrackerKey, event: str) -> None:
        """Record a success. If a failure was recorded before, log its end."""
        kinds = self._lasting.get(key)
        if kinds is None or (failing := kinds.pop(event, None)) is None:
            return
        if not kinds:
            del self._lasting[key]
        _log.info(
            "storage works again",
            topic=key.topic,
            subscription=key.subscription,
            failure=event,
            attempts=failing.attempts,
            lasted_ms=round(self._clock.elapsed_ms() - failing.begun_ms),
        )

    def forget(self, key: TrackerKey) -> None:
        """Remove the failures of a tracker that is closed."""
        self._lasting.pop(key, None)
