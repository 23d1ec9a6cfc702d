"""Limits of the service, in one object without other dependencies, which all parts of a service share."""

from dataclasses import dataclass

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.codec.snapshot_codec import SnapshotCodec

NAME_BYTES_MAX = 4_096
"""Topics and subscriptions have 1 to this many bytes of UTF-8."""
OWNER_BYTES_MAX = 1_024
_MAY_BE_ZERO = frozenset({"labelled_trackers_max", "tracker_idle_unload_ms"})


@dataclass(slots=True)
class ServiceLimits:
    """Settings of the service around the cores.

    Durations are in milliseconds, sizes in items. Only :meth:`adopt` changes them.
    """

    batch_max: int = 100_000
    """Positions in one call; more are refused with BATCH_TOO_LARGE.

    Bounds the time for which one call holds the event loop.
    """
    poll_messages_max: int = 10_000
    """Positions that one poll may request."""
    poll_wait_max_ms: int = 60_000
    """Longest wait of a poll; a longer one is shortened to this."""
    waiting_polls_max: int = 10_000
    """Polls waiting at once in the whole service; more are refused with OVERLOADED."""
    calls_max: int = 20_000
    """Calls in flight at once in the whole service, including waiting polls; more are refused with OVERLOADED."""
    message_bytes_max: int = 16 * 2**20
    """Bytes of the largest request and of the largest answer."""
    request_bytes_in_flight_max: int = 128 * 2**20
    """Bytes of the requests of all calls, from before a request is read until its call ends.

    More calls wait unread, and are refused later.
    """
    answer_bytes_in_flight_max: int = 128 * 2**20
    """Bytes of the large answers of all calls, until the callers have taken them.

    More calls wait before they make an answer, and are refused later.
    """
    unread_calls_max: int = 4_000
    """Calls that wait to be read; more are refused with OVERLOADED."""
    receive_max_ms: int = 30_000
    """Longest wait of a call to be read, and again for its request to arrive; then it is refused with OVERLOADED."""
    streams_max: int = 2_000
    """Streams that add, import or read memberships open at once in the whole service; more are refused with OVERLOADED."""
    trackers_max: int = 100_000
    """Trackers open at once; more are refused with OVERLOADED."""
    lease_default_ms: int = 30_000
    """Lease of a poll that does not give one."""
    lease_max_ms: int = 43_200_000
    """Longest lease that a poll may request."""
    leased_positions_max: int = 1_000_000
    """Positions of one tracker leased at once; at the limit, polls are refused with LEASES_EXHAUSTED."""
    unstored_indexes_max: int = 4_000_000
    """Unstored indexes of all trackers. At the limit, adds wait or are refused with OVERLOADED."""
    tracker_unstored_indexes_max: int = 2_000_000
    """Unstored indexes of one tracker. At the limit, adds wait or are refused with OVERLOADED."""
    add_log_bytes_max: int = 2**30
    """Bytes of the add log. At the limit, adds are refused with OVERLOADED; from half of it on, trackers are sealed."""
    add_log_pending_bytes_max: int = 64 * 2**20
    """Bytes of records that wait to be written to the add log; more are refused with OVERLOADED."""
    consumption_window_positions: int = 50_000
    """Acknowledged or handed-off positions of all trackers that are not in the add log yet; at the limit, acks wait."""
    consumption_window_ms: int = 200
    """Time in which such positions are in the add log; once it is over, acks wait until they are."""
    tracker_idle_unload_ms: int = 600_000
    """A tracker that nobody uses for so long, and that needs nothing for as long, leaves memory; 0 means never."""
    retry_after_ms: int = 1_000
    """Delay before a retry, sent with a refusal."""
    storage_operations_max: int = 128
    """Effects of all trackers in flight on one storage."""
    tracker_operations_max: int = 4
    """Effects of one kind and one tracker in flight, so that slow ones leave room for other trackers."""
    storage_attempts_max: int = 3
    """Attempts at one storage call before the effect fails. The core then decides when to try the effect again."""
    storage_backoff_ms: int = 50
    """Pause before the second attempt. It doubles with each further attempt, with jitter."""
    snapshot_metadata_bytes_max: int = 4 * 2**20
    """Largest metadata of a merged snapshot, because the entries of a storage have a size limit."""
    snapshot_codec: SnapshotCodec = SnapshotCodec.PULSAR
    """Codec of the snapshots that are written; those of both are read."""
    worker_threads: int = 2
    """Threads that seal, encode and decode."""
    labelled_trackers_max: int = 1_000
    """Trackers whose metrics have their own labels; 0 means none. The metrics of the others are summed."""

    def __post_init__(self) -> None:
        """Refuse values with which the service cannot work."""
        for name in self.__slots__:
            value, minimum = getattr(self, name), 0 if name in _MAY_BE_ZERO else 1
            if isinstance(value, int) and value < minimum:
                raise InvalidInput(name, value, f"give {minimum} or more")
        if self.lease_default_ms > self.lease_max_ms:
            raise InvalidInput("lease_default_ms", self.lease_default_ms, f"give at most {self.lease_max_ms}")

    def adopt(self, other: "ServiceLimits") -> None:
        """Take over the values of another object. Every part of the service reads them from then on."""
        for name in self.__slots__:
            setattr(self, name, getattr(other, name))
