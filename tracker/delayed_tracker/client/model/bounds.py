"""Single values on their way to the wire: what is of a wrong type or out of range is refused by field, before anything
is sent.
"""

import math
import operator
from collections.abc import Sequence
from typing import SupportsIndex

from delayed_tracker.client.model.answers import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import ENTRY_ID_MAX, INT63_MAX

UINT32_MAX = 2**32 - 1
UINT64_MAX = 2**64 - 1
SECONDS_MAX = 1e9
"""More than any wait can mean, and little enough for every clock."""
ACKS_MAX = 1_000
"""Leases that one call may acknowledge."""


def require_type(field: str, value: object, kind: type, remedy: str) -> None:
    """Raise InvalidInput unless a value is of a type."""
    if not isinstance(value, kind):
        raise InvalidInput(field, value, remedy)


def bounded(field: str, value: SupportsIndex, *, minimum: int, maximum: int) -> int:
    """The value as an integer; raises InvalidInput unless it is one within both bounds."""
    number = operator.index(value) if isinstance(value, SupportsIndex) else None
    if number is None or not minimum <= number <= maximum:
        raise InvalidInput(field, value, f"give an integer from {minimum} to {maximum}")
    return number


def seconds(field: str, value: float, *, zero: bool = False) -> float:
    """A length of time; raises InvalidInput unless it is a number up to ``SECONDS_MAX``, above 0 unless ``zero`` is legal."""
    is_long_enough = isinstance(value, (int, float)) and math.isfinite(value) and (value > 0 or (zero and value == 0))
    if not is_long_enough or value > SECONDS_MAX:
        least = "0 seconds or more" if zero else "more than 0 seconds"
        raise InvalidInput(field, value, f"give {least}, at most {SECONDS_MAX:g}")
    return value


def text(field: str, value: str) -> str:
    """The text as given; raises InvalidInput unless it is one with a UTF-8 form: its length is the service's to judge."""
    require_type(field, value, str, "give text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(field, value, "half of a surrogate pair is no text; give valid unicode") from error
    return value


def flag(field: str, value: bool) -> bool:  # it is the value that is looked at
    """The value as given; raises InvalidInput unless it is True or False."""
    require_type(field, value, bool, "give True or False")
    return value


def pair(field: str, value: Position) -> Position:
    """A ledger and an entry; raises InvalidInput unless there are two values."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(Position._fields):
        raise InvalidInput(field, value, "give a Position: a ledger id and an entry id")
    return Position(*value)


def instant_ms(field: str, value: int) -> int:
    """A moment of the wall clock; raises InvalidInput unless it is 0 to 2^63-1."""
    return bounded(field, value, minimum=0, maximum=INT63_MAX)


def place_message(field: str, position: Position) -> pb.Position:
    """A place between entries for the wire, such as a mark-delete position: entry -1 is allowed, and ledger -1 with it.

    Raises:
        InvalidInput: below -1 or above 2^63-1.
    """
    ledger_id, entry_id = pair(field, position)
    return pb.Position(
        ledger_id=bounded(f"{field}.ledger_id", ledger_id, minimum=-1, maximum=INT63_MAX),
        entry_id=bounded(f"{field}.entry_id", entry_id, minimum=-1, maximum=INT63_MAX),
    )


def position_message(position: Position) -> pb.Position:
    """The position of an entry for the wire; raises InvalidInput if no entry can be there."""
    ledger_id, entry_id = pair("position", position)
    return pb.Position(
        ledger_id=bounded("ledger_id", ledger_id, minimum=0, maximum=INT63_MAX),
        entry_id=bounded("entry_id", entry_id, minimum=0, maximum=ENTRY_ID_MAX),
    )
