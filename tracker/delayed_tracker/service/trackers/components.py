"""Components that all trackers of one process share, and the states of a tracker."""

import enum
from collections.abc import Callable
from dataclasses import dataclass

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.instruments.instruments import Instruments
from delayed_tracker.service.instruments.tracker_rows import TrackerRows
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.storage.access import StorageAccess
from delayed_tracker.service.storage.log_writer import LogWriter
from delayed_tracker.service.trackers.load_room import LoadRoom
from delayed_tracker.service.trackers.polls import PollLimiter
from delayed_tracker.service.trackers.timer_queue import TimerQueue
from delayed_tracker.service.trackers.unstored import UnstoredBound


class HostState(enum.Enum):
    """State of a host."""

    RECOVERING = "recovering"
    READY = "ready"
    UNLOADED = "unloaded"
    """Idle: open, under its epoch and owner, with the core not in memory."""
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SharedComponents:
    """Components that all trackers of one process share."""

    clock: Clock
    limits: ServiceLimits
    access: StorageAccess
    timers: TimerQueue
    polls: PollLimiter
    unstored: UnstoredBound
    load_room: LoadRoom
    instruments: Instruments
    rows: TrackerRows
    log: LogWriter | None
    """None if adds are not durable before their bucket is."""
    log_may_shrink: Callable[[TrackerKey, int], None]
    """Called when a part of a tracker's records, of so many bytes together, may not be needed any more."""
    empty_log: Callable[[TrackerKey], None]
    """Called when no record of a tracker is to stay in the log that a snapshot can replace."""
    needed: Callable[[TrackerKey], None]
    """Called when an unloaded tracker falls due."""
    fenced: Callable[[TrackerKey], None]
    """Called when the catalogue of an open tracker has an epoch of another process."""
    broken: Callable[[TrackerKey], None]
    """Called when the core of an open tracker was given up."""
