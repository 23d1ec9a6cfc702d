"""Log lines of tracker events: recovered, opened, taken over, cleared, closed, deleted, imported, cut off.

One line for each, and a hundred of a kind a minute at most, since ten thousand trackers that open after a restart are no
news; the minute's last line counts the others.
Losses are told whatever else is going on.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import structlog

from delayed_tracker.core.values.columns import Position
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import ShuttingDown, TrackerBroken, TrackerKey, shortened
from delayed_tracker.service.storage.recovery import TrackerRecovery
from delayed_tracker.service.storage.removal import Deleted
from delayed_tracker.service.telemetry.log_rate_limiter import LogRateLimiter
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.service.trackers.results import Adopted, Cleared, Opened

LINES_MAX: Final = 100
"""Lines of one event in a minute."""

_log = structlog.stdlib.get_logger("delayed_tracker.service")


class TrackerEvents:
    """Logger of tracker events, for all trackers of one service."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._budget = LogRateLimiter(
            clock, lines_max=LINES_MAX, left_out=lambda event, count: _log.info(event, suppressed=count)
        )

    @contextmanager
    def recovering(self, host: TrackerHost, recovery: TrackerRecovery) -> Iterator[None]:
        """Log the beginning of the recovery in the block and, unless it fails, its end.

        Log a warning if snapshots were lost.
        """
        begun_ms = self._clock.elapsed_ms()
        _log.debug("tracker recovery begun", **_names(host.key))
        yield
        core = host.core_for_reading()
        if recovery.missing_count or recovery.corrupt_count:
            event, write = "tracker recovered with losses", _log.warning
        elif core.recovered_count and self._budget.allows("tracker recovered"):
            event, write = "tracker recovered", _log.info
        else:
            return  # before counting what the line would say: thousands may be recovered at once
        stats = core.stats()
        write(
            event,
            **_names(host.key),
            epoch=stats.epoch,
            duration_ms=round(self._clock.elapsed_ms() - begun_ms),
            bucket_count=stats.bucket_count,
            position_count=stats.recovered_count,
            missing_count=recovery.missing_count,
            corrupt_count=recovery.corrupt_count,
        )

    def opened(self, key: TrackerKey, opened: Opened, *, owner: str, previous_owner: str) -> None:
        """Log that a tracker was opened, with the previous owner if that was another one."""
        fields: dict[str, object] = {"epoch": opened.epoch, "owner": shortened(owner)}
        if previous_owner in {"", owner}:
            self._tell("tracker opened", key, **fields)
        else:
            self._tell("tracker taken over", key, **fields, previous_owner=shortened(previous_owner))

    def cleared(self, key: TrackerKey, cleared: Cleared) -> None:
        """Log that every position was dropped, or that the cursor was moved."""
        self._tell("tracker cleared", key, epoch=cleared.epoch, position_count=cleared.cleared_count)

    def cursor_moved(self, key: TrackerKey, moved: Cleared, mark_delete: Position) -> None:
        """Log that the cursor was moved, and what is tracked above it was kept."""
        self._tell(
            "cursor moved",
            key,
            epoch=moved.epoch,
            mark_delete=str(mark_delete),
            position_count=moved.cleared_count,
        )

    def deleted(self, key: TrackerKey, deleted: Deleted) -> None:
        """Log that a tracker and its snapshots were deleted. There is no line if it did not exist."""
        if deleted.existed:
            self._tell("tracker deleted", key, position_count=deleted.position_count)

    def imported(self, key: TrackerKey, adopted: Adopted) -> None:
        """Log that imported snapshots have replaced everything."""
        self._tell(
            "snapshots imported",
            key,
            epoch=adopted.epoch,
            bucket_count=adopted.bucket_count,
            position_count=adopted.tracked_count,
            replaced_count=adopted.replaced_count,
        )

    def closing(self, key: TrackerKey, reason: str) -> None:
        """Log that a tracker is closing.

        There is no line if the service stops, or if the tracker was given up, which has its own line.
        """
        if reason not in {ShuttingDown.reason, TrackerBroken.reason}:
            self._tell("tracker closed", key, reason=reason)

    def cut_off(self, tracker_count: int) -> None:
        """Log that the grace period is over while this many trackers are open."""
        _log.warning("grace period over, operations in progress are cancelled", tracker_count=tracker_count)

    def _tell(self, event: str, key: TrackerKey, **fields: object) -> None:
        if self._budget.allows(event):
            _log.info(event, **_names(key), **fields)


def _names(key: TrackerKey) -> dict[str, str]:
    return {"topic": key.topic, "subscription": key.subscription}
