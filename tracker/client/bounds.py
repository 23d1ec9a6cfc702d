"""Single values on their way to the wire: what is out of range is refused by field, before anything is sent."""

from delayed_tracker.v1 import tracker_pb2 as pb
from tracker.client.answers import Position
from tracker.client.columns import ENTRY_ID_MAX, INT63_MAX
from tracker.core.errors import InvalidInput

UINT32_MAX = 2**32 - 1
ACKS_MAX = 1_000
"""Leases that one call may acknowledge."""


def bounded(field: str, value: int, *, minimum: int, maximum: int) -> int:
    """The value as given; raises InvalidInput unless it is within both bounds."""
    if not minimum <= value <= maximum:
        raise InvalidInput(field, value, f"give an integer from {minimum} to {maximum}")
    return value


def instant_ms(field: str, value: int) -> int:
    """A moment of the wall clock; raises InvalidInput unless it is 0 to 2^63-1."""
    return bounded(field, value, minimum=0, maximum=INT63_MAX)


def mark_delete_message(position: Position) -> pb.Position:
    """A mark-delete position for the wire: entry -1 is allowed, and ledger -1 with it.

    Raises:
        InvalidInput: below -1 or above 2^63-1.
    """
    return pb.Position(
        ledger_id=bounded("mark_delete.ledger_id", position[0], minimum=-1, maximum=INT63_MAX),
        entry_id=bounded("mark_delete.entry_id", position[1], minimum=-1, maximum=INT63_MAX),
    )


def position_message(position: Position) -> pb.Position:
    """The position of an entry for the wire; raises InvalidInput if no entry can be there."""
    return pb.Position(
        ledger_id=bounded("ledger_id", position[0], minimum=0, maximum=INT63_MAX),
        entry_id=bounded("entry_id", position[1], minimum=0, maximum=ENTRY_ID_MAX),
    )
