"""Converts calls with several acks between the API's messages and the core. Errors name the fields of the messages."""

from collections.abc import Sequence

import numpy as np

from delayed_tracker.core.engine.leases import LeaseAck
from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.verb_results import LeaseOutcome
from delayed_tracker.service.errors import BatchTooLarge
from delayed_tracker.service.grpc.wire import to_offsets
from delayed_tracker.v1 import tracker_pb2


def to_lease_acks(
    request: tracker_pb2.AckMessagesRequest, positions: PositionColumns, *, positions_max: int
) -> list[LeaseAck]:
    """Return what a call acknowledges, one ``LeaseAck`` for each lease that it names.

    Args:
        request: a request with at least one lease; their number is bounded in ``request_bounds.py``.
        positions: the request's columns.
        positions_max: positions that all leases together may end, named or not.
    Raises:
        BatchTooLarge: the leases end more positions.
        InvalidInput: counts that do not fit.
    """
    leases = request.leases
    if request.lease_id:
        raise InvalidInput("lease_id", request.lease_id, "leave it unset when leases are given")
    acks = []
    first = held_count = 0
    for place, lease in enumerate(leases):
        if lease.held_count and lease.position_count:
            field = f"leases[{place}].held_count"
            raise InvalidInput(field, lease.held_count, "give either this or position_count")
        if lease.held_count:
            held_count += lease.held_count
            acks.append(LeaseAck(lease.lease_id, None, lease.held_count))
        else:
            end = first + lease.position_count
            acks.append(LeaseAck(lease.lease_id, positions.take(slice(first, end))))
            first = end
    if first != len(positions):
        raise InvalidInput(
            "leases", first, f"make the sum of all position_count {len(positions)}, the number of positions in the call"
        )
    if first + held_count > positions_max:
        raise BatchTooLarge("leases", first + held_count, positions_max)
    return acks


def from_acked(acks: Sequence[LeaseAck], outcomes: Sequence[LeaseOutcome]) -> tracker_pb2.AckMessagesResponse:
    """Return the answer. Offsets refer to the call's columns."""
    stale, unknown = [], []
    first = 0
    for ack, outcome in zip(acks, outcomes, strict=True):
        if ack.positions is not None:
            stale.append(outcome.stale + first)
            unknown.append(outcome.unknown + first)
            first += len(ack.positions)
    acked_counts = [outcome.changed_count for outcome in outcomes]
    return tracker_pb2.AckMessagesResponse(
        acked_count=sum(acked_counts),
        stale_offsets=to_offsets(np.concatenate(stale)) if stale else (),
        unknown_offsets=to_offsets(np.concatenate(unknown)) if unknown else (),
        acked_counts=acked_counts,
    )
