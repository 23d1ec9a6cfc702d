"""Checks of single values before they are sent: a wrong type or value raises InvalidInput with the field."""

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
"""Longest accepted time in seconds: longer than any useful wait, and short enough for every clock."""


def require_type(field: str, value: object, kind: type, remedy: str) -> None:
    """Raise InvalidInput unless a value has a type."""
    if not isinstance(value, kind):
        raise InvalidInput(field, value, remedy)


def bounded(field: str, value: SupportsIndex, *, minimum: int, maximum: int) -> int:
    """Return the value as an integer; raises InvalidInput unless it is an integer within both bounds."""
    number = operator.index(value) if isinstance(value, SupportsIndex) else None
    if number is None or not minimum <= number <= maximum:
        raise InvalidInput(field, value, f"give an integer from {minimum} to {maximum}")
    return number


def seconds(field: str, value: float, *, zero: bool = False) -> float:
    """Return a duration in seconds.

    Raises:
        InvalidInput: not a number up to ``SECONDS_MAX``, or not above 0 unless ``zero`` is set.
    """
    is_long_enough = isinstance(value, (int, float)) and math.isfinite(value) and (value > 0 or (zero and value == 0))
    if not is_long_enough or value > SECONDS_MAX:
        least = "0 seconds or more" if zero else "more than 0 seconds"
        raise InvalidInput(field, value, f"give {least}, at most {SECONDS_MAX:g}")
    return value


def text(field: str, value: str) -> str:
    """Return the text; raises InvalidInput unless it is text with a UTF-8 form. The service checks its length."""
    require_type(field, value, str, "give text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(field, value, "half of a surrogate pair is no text; give valid unicode") from error
    return value


def flag(field: str, value: bool) -> bool:  # checks the value's type
    """Return the value as given; raises InvalidInput unless it is True or False."""
    require_type(field, value, bool, "give True or False")
    return value


def pair(field: str, value: Position) -> Position:
    """Return a ledger id and an entry id; raises InvalidInput unless there are two values."""
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) != len(Position._fields):
        raise InvalidInput(field, value, "give a Position: a ledger id and an entry id")
    return Position(*value)


def instant_ms(field: str, value: int) -> int:
    """Return a time in milliseconds since 1970, UTC; raises InvalidInput unless it is 0 to 2^63-1."""
    return bounded(field, value, minimum=0, maximum=INT63_MAX)


def place_message(field: str, position: Position) -> pb.Position:
    """Return the message for a place between entries, such as a mark-delete position: -1 is allowed in both numbers.

    Raises:
        InvalidInput: a number below -1 or above 2^63-1.
    """
    ledger_id, entry_id = pair(field, position)
    return pb.Position(
        ledger_id=bounded(f"{field}.ledger_id", ledger_id, minimum=-1, maximum=INT63_MAX),
        entry_id=bounded(f"{field}.entry_id", entry_id, minimum=-1, maximum=INT63_MAX),
    )


def claim_message(field: str, position: Position) -> pb.Position:
    """Return the message for the end of what was offered; entry -1 is before the ledger's first.

    Raises:
        InvalidInput: no entry can have this position.
    """
    ledger_id, entry_id = pair(field, position)
    return pb.Position(
        ledger_id=bounded(f"{field}.ledger_id", ledger_id, minimum=0, maximum=INT63_MAX),
        entry_id=bounded(f"{field}.entry_id", entry_id, minimum=-1, maximum=ENTRY_ID_MAX),
    )


def position_message(position: Position) -> pb.Position:
    """Return the message for the position of an entry; raises InvalidInput if no entry can have this position."""
    ledger_id, entry_id = pair("position", position)
    return pb.Position(
        ledger_id=bounded("ledger_id", ledger_id, minimum=0, maximum=INT63_MAX),
        entry_id=bounded("entry_id", entry_id, minimum=0, maximum=ENTRY_ID_MAX),
    )
