"""Log lines about the storage, few enough for an operator to read: its failures, and calls that were slow.

The first failure of each tracker and kind is logged at once. As long as the failures continue, one line a minute
follows, with the number of failures in between. A success ends the failure: the next one is logged at once again.
Of all trackers together, each kind has a hundred lines a minute at most: an outage concerns every tracker. The minute's
last line counts the others. Slow calls have ten lines a minute for each operation, and so has the add log for each event.
"""

from dataclasses import dataclass
from typing import Final

import structlog

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.telemetry.log_rate_limiter import LogRateLimiter

STORE_FAILED: Final = "snapshot not stored, its positions stay in memory"
LOAD_FAILED: Final = "segments not loaded"
MERGE_FAILED: Final = "buckets not merged"
DELETE_FAILED: Final = "snapshots not deleted"
SNAPSHOT_LOST: Final = "snapshot lost, the dispatcher is asked to replay"
RECORDS_LOST: Final = "records of the add log lost, the dispatcher is asked to offer everything again"
LOG_MISSING: Final = (
    "add log of the last owner is not here, the dispatcher is asked to offer again what no snapshot has"
)
RECOVERY_FAILED: Final = "tracker not recovered"
RELOAD_FAILED: Final = "idle tracker not brought back into memory"
CHECKPOINT_FAILED: Final = "consumed positions not recorded, they come back as duplicates"
CURSOR_NOT_RECORDED: Final = "moved cursor not recorded, its call waits"
FENCED: Final = "another owner has taken over the tracker"

REPEATED_AFTER_MS: Final = 60_000
"""Interval, in milliseconds, at which a lasting failure is logged."""

LOG_NOT_WRITTEN: Final = "add log not written, adds are refused"
LOG_BROKEN: Final = "add log broken, nothing is written to it until the service is restarted"
LOG_WORKS_AGAIN: Final = "add log works again"
LOG_NOT_CUT: Final = "add log not cut"

_NOT_RECOVERED_MAX: Final = 1_000
"""Trackers whose recovery failed, and that are not open, of which the log knows at most."""

LINES_MAX: Final = 100
"""Lines of one kind in a minute, of all trackers together."""
SLOW_LINES_MAX: Final = 10
"""Lines about slow calls of one operation in a minute."""
LOG_LINES_MAX: Final = 10
"""Lines about one event of the add log in a minute: it may fail and work again many times a second."""
_SLOW: Final = "storage is slow"
_WORKS_AGAIN: Final = "storage works again"

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(slots=True)
class _Failing:
    begun_ms: float
    attempts: int
    suppressed: int
    logged_at_ms: float


class FailureLog:
    """Log of the failures that last now, for all trackers. It stores nothing about trackers without failures.

    Of trackers that are not open, because their recovery failed, it knows the last 1,000.
    """

    def __init__(self, clock: Clock, *, retry_ms: int) -> None:
        self._clock = clock
        self._retry_ms = retry_ms
        self._lasting: dict[TrackerKey, dict[str, _Failing]] = {}
        self._not_recovered: dict[TrackerKey, None] = {}
        """In the order of their last failures. Nothing else bounds them: anybody may ask for trackers of any name."""
        self._budget = LogRateLimiter(clock, lines_max=LINES_MAX, left_out=_left_out)

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
        if event == RECOVERY_FAILED:
            self._not_recovered.pop(key, None)
            self._not_recovered[key] = None
            if len(self._not_recovered) > _NOT_RECOVERED_MAX:
                self.forget(next(iter(self._not_recovered)), RECOVERY_FAILED)
        if now_ms - failing.logged_at_ms < REPEATED_AFTER_MS:
            failing.suppressed += 1
            return
        failing.logged_at_ms = now_ms
        if not self._budget.allows(event):
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
        failing.suppressed = 0

    def succeeded(self, key: TrackerKey, event: str) -> None:
        """Record a success. If a failure was recorded before, log its end."""
        kinds = self._lasting.get(key)
        if kinds is None or (failing := kinds.get(event)) is None:
            return
        self.forget(key, event)
        if not self._budget.allows(_WORKS_AGAIN):
            return
        _log.info(
            _WORKS_AGAIN,
            topic=key.topic,
            subscription=key.subscription,
            failure=event,
            attempts=failing.attempts,
            lasted_ms=round(self._clock.elapsed_ms() - failing.begun_ms),
        )

    def lasting_count(self, event: str) -> int:
        """Return the number of trackers for which a kind of failure lasts. O(trackers with failures)."""
        return sum(event in kinds for kinds in self._lasting.values())

    def lasts(self, key: TrackerKey) -> bool:
        """Return True if any failure of a tracker lasts. O(1)."""
        return key in self._lasting

    def forget(self, key: TrackerKey, event: str | None = None) -> None:
        """Remove the failures of a tracker that is closed, or one kind of them that nothing is left of."""
        if event in {None, RECOVERY_FAILED}:
            self._not_recovered.pop(key, None)
        kinds = self._lasting.get(key, {})
        if event is not None:
            kinds.pop(event, None)
        if event is None or not kinds:
            self._lasting.pop(key, None)


class AddLogEvents:
    """Log of the failures of the add log, which all trackers share."""

    def __init__(self, clock: Clock) -> None:
        self._budget = LogRateLimiter(clock, lines_max=LOG_LINES_MAX, left_out=_left_out)

    def not_written(self, error: DelayedTrackerError) -> None:
        """Log that commits begin to fail."""
        if self._budget.allows(LOG_NOT_WRITTEN):
            _log.error(LOG_NOT_WRITTEN, reason=error.reason, error=error.message)

    def broken(self, error: DelayedTrackerError) -> None:
        """Log that nothing is written any more. There is one such line."""
        _log.error(LOG_BROKEN, reason=error.reason, error=error.message)

    def works_again(self, failed_count: int) -> None:
        """Log that commits succeed again, after ``failed_count`` failures since the start."""
        if self._budget.allows(LOG_WORKS_AGAIN):
            _log.info(LOG_WORKS_AGAIN, failed_commits=failed_count)

    def not_cut(self, key: TrackerKey, error: DelayedTrackerError) -> None:
        """Log that records of a tracker were not removed; the next cut removes them."""
        if self._budget.allows(LOG_NOT_CUT):
            _log.warning(
                LOG_NOT_CUT, topic=key.topic, subscription=key.subscription, reason=error.reason, error=error.message
            )


class SlowStorage:
    """Log of slow calls.

    Args:
        clock: measures the minutes.
        slow_ms: calls that take longer are logged; 0 logs none.
    """

    def __init__(self, clock: Clock, *, slow_ms: int) -> None:
        self._slow_ms = slow_ms or float("inf")
        self._budget = LogRateLimiter(clock, lines_max=SLOW_LINES_MAX, left_out=_slow_left_out)

    def ended(self, operation: str, where: dict[str, str | int], *, took_ms: float, outcome: str) -> None:
        """Record the end of a call."""
        if took_ms > self._slow_ms and self._budget.allows(operation):
            _log.warning(_SLOW, operation=operation, duration_ms=round(took_ms), outcome=outcome, **where)


def _left_out(event: str, count: int) -> None:
    _log.warning(event, suppressed=count)


def _slow_left_out(operation: str, count: int) -> None:
    _log.warning(_SLOW, operation=operation, suppressed=count)
