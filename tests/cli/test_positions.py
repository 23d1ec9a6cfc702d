"""Tests of positions on the command line."""

import pytest

from delayed_tracker.cli.tracker.positions import (
    POSITIONS_MAX,
    as_ranges,
    parse_mark_delete,
    parse_position,
    parse_positions,
)
from delayed_tracker.client import Position
from delayed_tracker.core.values.errors import InvalidInput


def test_single_positions_and_ranges_keep_their_order():
    """A range includes both of its ends."""
    assert parse_positions("x", ["7:3", " 5:0-2 ", "7:3"]) == [(7, 3), (5, 0), (5, 1), (5, 2), (7, 3)]
    assert parse_position("x", "7:3-3") == Position(7, 3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "7:",
        ":3",
        "-7:3",
        "7:-3",
        "7:3-",
        "7:3-2",
        f"7:{2**32}",
        f"{2**63}:0",
        "a:b",
        "\u0663:4",
        f"7:{'3' * 5_000}",
    ],
)
def test_what_is_no_position_is_refused(text):
    """The error contains the option's name and an example, or the limits."""
    with pytest.raises(InvalidInput, match="LEDGER"):
        parse_positions("LEDGER:ENTRY", ["7:3", text])


def test_a_command_does_not_take_endless_ranges():
    """More than a million positions are refused before they are created."""
    assert len(parse_positions("x", [f"7:1-{POSITIONS_MAX}"])) == POSITIONS_MAX
    with pytest.raises(InvalidInput, match="1000001 positions"):
        parse_positions("x", [f"7:0-{POSITIONS_MAX}"])
    with pytest.raises(InvalidInput, match="one position"):
        parse_position("x", "7:0-1")


@pytest.mark.parametrize(("text", "position"), [(None, None), ("7:-1", (7, -1)), ("-1:-1", (-1, -1)), ("7:3", (7, 3))])
def test_a_mark_delete_position_may_be_before_the_first_entry(text, position):
    """Entry -1 is before the first entry, and no text is no position."""
    assert parse_mark_delete("--mark-delete", text) == position


@pytest.mark.parametrize("text", ["7:1-2", "\u0663:\u0664", "7:3_0", f"{'7' * 5_000}:3"])
def test_what_is_no_mark_delete_position_is_refused(text):
    """A range, the digits of other scripts, and numbers without end."""
    with pytest.raises(InvalidInput, match="--mark-delete"):
        parse_mark_delete("--mark-delete", text)


@pytest.mark.parametrize(
    "texts", [[], ["7:3"], ["7:0-99"], ["7:0-9", "7:11", "8:12", "5:1-2"], ["7:3", "7:3"], ["7:4", "7:3"]]
)
def test_positions_are_listed_as_ranges(texts):
    """Ranges keep the order, and ``parse_positions`` reads them back as the same positions."""
    assert list(as_ranges(parse_positions("x", texts))) == texts
