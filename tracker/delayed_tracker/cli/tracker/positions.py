"""Parses positions of the command line: LEDGER:ENTRY, LEDGER:FIRST-LAST, and -1 in mark-delete positions."""

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final

import typer

from delayed_tracker.client import EntryRange, Position
from delayed_tracker.core.values.columns import ENTRY_ID_MAX, INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput

POSITIONS_MAX: Final = 1_000_000
"""Positions of one command at most; for more, use a program."""

_POSITION = re.compile(r"(-?[0-9]{1,19}):(-?[0-9]{1,19})")
_RANGE = re.compile(r"([0-9]{1,19}):([0-9]{1,19})(?:-([0-9]{1,19}))?")

Positions = Annotated[
    list[str],
    typer.Argument(
        help="Positions, such as 7:3 (ledger 7, entry 3) or 7:0-99 (entries 0 to 99).",
        metavar="LEDGER:ENTRY[-LAST]...",
        show_default=False,
    ),
]
MarkDelete = Annotated[
    str | None,
    typer.Option(
        "--mark-delete",
        help="The cursor's mark-delete position: everything up to and including it is dropped.",
        metavar="LEDGER:ENTRY",
    ),
]


def parse_positions(option: str, texts: Iterable[str]) -> list[Position]:
    """Return all positions in the texts, in their order.

    Raises:
        InvalidInput: a text is not a position, values are out of range, or there are more than POSITIONS_MAX together.
    """
    ranges = [_parse_range(option, text) for text in texts]
    count = sum(last - first + 1 for _, first, last in ranges)
    if count > POSITIONS_MAX:
        raise InvalidInput(option, f"{count} positions", f"give at most {POSITIONS_MAX} at once")
    return [Position(ledger_id, entry_id) for ledger_id, first, last in ranges for entry_id in range(first, last + 1)]


def parse_position(option: str, text: str) -> Position:
    """Return the one position in the text; errors as for :func:`parse_positions`."""
    ranges = _RANGE.fullmatch(text.strip())
    if ranges is None or (ranges[3] and ranges[3] != ranges[2]):
        raise InvalidInput(option, text, "give one position, such as 7:3")
    ledger_id, first, _ = _parse_range(option, text)
    return Position(ledger_id, first)


def parse_mark_delete(option: str, text: str | None) -> Position | None:
    """Return a mark-delete position, where entry -1 means "before the first entry"; None stays None.

    Raises:
        InvalidInput: the text is not a position.
    """
    if text is None:
        return None
    found = _POSITION.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(option, text, "give LEDGER:ENTRY, such as 7:3 or 7:-1")
    return Position(int(found[1]), int(found[2]))


def as_ranges(positions: Iterable[Position]) -> Iterator[str]:
    """Yield the positions in their order, adjacent entries of a ledger joined: 7:0-99, 9:5."""
    joined: EntryRange | None = None
    for ledger_id, entry_id in positions:
        if joined and (ledger_id, entry_id) == (joined.ledger_id, joined.last_entry_id + 1):
            joined = joined._replace(last_entry_id=entry_id)
            continue
        if joined:
            yield _range_text(joined)
        joined = EntryRange(ledger_id, entry_id, entry_id)
    if joined:
        yield _range_text(joined)


def _range_text(joined: EntryRange) -> str:
    ledger_id, first, last = joined
    return f"{ledger_id}:{first}" if first == last else f"{ledger_id}:{first}-{last}"


def columns(positions: Iterable[Position]) -> tuple[list[int], list[int]]:
    """Return positions as ledger ids and entry ids."""
    ledger_ids: list[int] = []
    entry_ids: list[int] = []
    for ledger_id, entry_id in positions:
        ledger_ids.append(ledger_id)
        entry_ids.append(entry_id)
    return ledger_ids, entry_ids


def _parse_range(option: str, text: str) -> EntryRange:
    found = _RANGE.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(option, text, "give LEDGER:ENTRY or LEDGER:FIRST-LAST, such as 7:3 or 7:0-99")
    ledger_id, first, last = int(found[1]), int(found[2]), int(found[3] or found[2])
    if ledger_id > INT63_MAX or not first <= last <= ENTRY_ID_MAX:
        raise InvalidInput(
            option,
            text,
            f"give a ledger up to {INT63_MAX} and entries up to {ENTRY_ID_MAX}, the first not above the last",
        )
    return EntryRange(ledger_id, first, last)
