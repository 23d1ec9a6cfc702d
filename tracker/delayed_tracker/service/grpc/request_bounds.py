"""Bounds requests that protobuf makes much larger in memory than they are on the wire.

An empty message of a repeated field has two bytes on the wire and about fifty in memory, and the room for requests counts
the former (``request_admission.py``). So a request is measured before it is parsed, and its rows are counted right after
that, before anything waits: one that is too large is in memory alone, and for a moment.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.service.queries.entry_ranges import RANGES_MAX, require_range_count
from delayed_tracker.v1 import tracker_pb2
from delayed_tracker.wire.calls import ACKS_MAX
from delayed_tracker.wire.column_fields import Columned

_NAMES_BYTES: Final = 64 * 2**10
"""More than the names and numbers of any request."""
_RANGES_BYTES: Final = 256 * 2**10
"""More than a thousand ranges of the largest numbers."""
_LEASE_BYTES: Final = 32
_UNPACKED_BYTES: Final = 9
"""A value of a column that is not packed."""
_SHARE_BYTES: Final = 11
_ENTRY_BYTES_MIN: Final = 8
"""Fewer than any entry of a bucket has."""

_BYTES_MAX: Final[Mapping[str, Callable[[ServiceLimits], int]]] = {
    "FilterEntries": lambda _: _RANGES_BYTES,
    "PollScheduledMessages": lambda limits: _NAMES_BYTES + _SHARE_BYTES * limits.poll_messages_max,
    # Twice as many positions as a call may have, so that one with a few too many learns how many it may have.
    "AckMessages": lambda limits: _NAMES_BYTES + _LEASE_BYTES * ACKS_MAX + 2 * 2 * _UNPACKED_BYTES * limits.batch_max,
}


def require_size(method: str, byte_count: int, limits: ServiceLimits) -> None:
    """Refuse a request that has more bytes than any legal one of its method; raises InvalidInput.

    Other methods take what gRPC takes (``grpcMessageBytesMax``).
    """
    if method in _BYTES_MAX:
        require_at_most(byte_count, _BYTES_MAX[method](limits))


def require_at_most(byte_count: int, bytes_max: int) -> None:
    """Refuse a request that has more bytes than it may have; raises InvalidInput."""
    if byte_count > bytes_max:
        raise InvalidInput("request", f"{byte_count} bytes", f"send at most {bytes_max} bytes")


def require_counts(method: str, request: object, byte_count: int, limits: ServiceLimits) -> None:
    """Refuse a request with more rows than its method takes; raises InvalidInput.

    Args:
        method: name of the method.
        request: its parsed request.
        byte_count: bytes of the request on the wire.
        limits: limits of the service now.
    """
    if (require := _COUNTED.get(method)) is not None:
        require(request, byte_count, limits)


def _require_range_count(request: tracker_pb2.FilterEntriesRequest, _byte_count: int, _limits: ServiceLimits) -> None:
    if len(request.ranges) > RANGES_MAX:
        require_range_count(len(request.ranges))


def _require_share_count(
    request: tracker_pb2.PollScheduledMessagesRequest, _byte_count: int, limits: ServiceLimits
) -> None:
    if (count := len(request.share_messages)) > limits.poll_messages_max:
        raise InvalidInput("share_messages", f"{count} shares", f"give at most {limits.poll_messages_max}")


def _require_lease_count(
    columned: Columned[tracker_pb2.AckMessagesRequest], _byte_count: int, _limits: ServiceLimits
) -> None:
    if (count := len(columned.head.leases)) > ACKS_MAX:
        raise InvalidInput("leases", count, f"give at most {ACKS_MAX} in one call")


def _require_entries(request: tracker_pb2.ImportSnapshotsRequest, byte_count: int, _limits: ServiceLimits) -> None:
    if (count := len(request.entries.entries)) * _ENTRY_BYTES_MIN > byte_count:
        raise InvalidInput(
            "entries", f"{count} entries in {byte_count} bytes", "send entries as Pulsar's codec has them"
        )
    # Of parts that follow each other in one message the last one counts, and all take memory.
    if byte_count > 2 * request.ByteSize() + _NAMES_BYTES:
        raise InvalidInput("part", f"several in {byte_count} bytes", "send one part in each message")


_COUNTED: Final[Mapping[str, Callable[[Any, int, ServiceLimits], None]]] = {
    "FilterEntries": _require_range_count,
    "PollScheduledMessages": _require_share_count,
    "AckMessages": _require_lease_count,
    "ImportSnapshots": _require_entries,
}
