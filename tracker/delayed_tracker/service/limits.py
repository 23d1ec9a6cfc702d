"""Every bound of the service shell, in one value with no components in it, which all parts of a service share."""

from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput

NAME_BYTES_MAX = 4_096
"""Topics and subscriptions are 1 to this many bytes of UTF-8."""
OWNER_BYTES_MAX = 1_024


@dataclass(slots=True)
class ServiceLimits:
    """Settings of the shell. Durations in milliseconds, sizes in items. Only :meth:`adopt` changes them."""

    batch_max: int = 100_000
    """Positions in one call; more is refused with BATCH_TOO_LARGE. Bounds the time one call holds the event loop."""
    poll_messages_max: int = 10_000
    """Positions one poll may ask for."""
    poll_wait_max_ms: int = 60_000
    """A poll that asks to wait longer waits this long."""
    waiting_polls_max: int = 10_000
    """Polls waiting at once in the whole service; more are refused with OVERLOADED."""
    calls_max: int = 20_000
    """Calls under way at once in the whole service, waiting polls included; more are refused with OVERLOADED."""
    message_bytes_max: int = 16 * 2**20
    """The largest request and the largest answer."""
    request_bytes_in_flight_max: int = 128 * 2**20
    """Requests of all calls, from before they are read until their calls end; more wait unread, then are refused."""
    answer_bytes_in_flight_max: int = 128 * 2**20
    """Large answers of all calls, until their callers have taken them; more wait unmade, then are refused."""
    unread_calls_max: int = 4_000
    """Calls that wait to be read; more are refused with OVERLOADED."""
    receive_max_ms: int = 30_000
    """A call waits this long to be read, and has this long to send its request; then it is refused with OVERLOADED."""
    streams_max: int = 2_000
    """Streams open at once in the whole service; more are refused with OVERLOADED."""
    trackers_max: int = 100_000
    """Trackers open at once; more are refused with OVERLOADED."""
    lease_default_ms: int = 30_000
    """Lease of a poll that does not name one."""
    lease_max_ms: int = 43_200_000
    """Longest lease a poll may ask for."""
    leased_positions_max: int = 1_000_000
    """Positions of one tracker leased at once; more are refused with LEASES_EXHAUSTED."""
    unstored_indexes_max: int = 4_000_000
    """Indexes of all trackers in memory and in no snapshot: adds wait, or are refused with OVERLOADED, while there are more."""
    tracker_unstored_indexes_max: int = 2_000_000
    """The same of one tracker."""
    retry_after_ms: int = 1_000
    """What a refused caller is told to wait."""
    storage_operations_max: int = 128
    """Effects of all trackers under way on one storage."""
    tracker_operations_max: int = 4
    """Effects of one kind and one tracker under way, so that a slow one leaves room for the others."""
    storage_attempts_max: int = 3
    """Attempts at one storage call before the effect fails and the core takes over."""
    storage_backoff_ms: int = 50
    """Pause before the second attempt; it doubles, with jitter."""
    snapshot_metadata_bytes_max: int = 4 * 2**20
    """Metadata of a snapshot at most: merging stops short of it, because a storage's entries have a size limit."""
    worker_threads: int = 2
    """Threads that seal, encode and decode."""
    labelled_trackers_max: int = 1_000
    """Trackers whose metrics have labels of their own; 0 is none. Of the others there are sums."""

    def __post_init__(self) -> None:
        """Refuse values no service can work with."""
        if self.labelled_trackers_max < 0:
            raise InvalidInput("labelled_trackers_max", self.labelled_trackers_max, "give 0 or more")
        for name in self.__slots__:
            value = getattr(self, name)
            if value < 1 and name != "labelled_trackers_max":
                raise InvalidInput(name, value, "give 1 or more")
        if self.lease_default_ms > self.lease_max_ms:
            raise InvalidInput("lease_default_ms", self.lease_default_ms, f"give at most {self.lease_max_ms}")

    def adopt(self, other: "ServiceLimits") -> None:
        """Take over the values of another one, which every part of the service reads from then on."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))
