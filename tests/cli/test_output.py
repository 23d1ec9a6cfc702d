"""Values as JSON and as people read them."""

import pytest

from tracker.cli.output import answer_console, duration, instant, jsonable, progress, size, table
from tracker.client import BucketState, MarkDeleteAnswer, Position


def test_frozen_values_become_json():
    """Dataclasses and positions are objects, enum members their values."""
    assert jsonable([MarkDeleteAnswer(Position(4, -1), 2), BucketState.SEALED, {"x": (1, None)}]) == [
        {"mark_delete": {"ledger_id": 4, "entry_id": -1}, "trimmed_count": 2},
        "sealed",
        {"x": [1, None]},
    ]


def test_what_has_no_json_form_is_a_bug():
    """Nothing is silently printed as its repr."""
    with pytest.raises(TypeError, match="object has no JSON form"):
        jsonable(object())


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (-3_000, "-3.0 s"), (7_200_000, "2.0 h"), (172_800_000, "2.0 d")],
)
def test_durations_have_the_unit_that_fits(ms, shown):
    """From milliseconds to days."""
    assert duration(ms) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_000_000_000_000, "2000.0 GB")]
)
def test_sizes_have_the_unit_that_fits(count, shown):
    """The last unit takes any amount."""
    assert size(count) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(None, "-"), (1_795_245_852_556, "2026-11-21 07:24:12.556Z"), (2**63 - 1, "9223372036854775807 ms")],
)
def test_instants_are_utc_and_total(ms, shown):
    """Deadlines beyond the calendar are shown as they are."""
    assert instant(ms) == shown


@pytest.mark.parametrize("name", ["[/oops]", "[red]x[/red]", ":smile:", "100%", "a b/c"])
def test_names_are_printed_as_they_are(capsys, name):
    """They are no markup, not in titles and not in cells."""
    rows = table(f"{name} of t", "a wide enough column")
    rows.add_row(name)
    answer_console().print(rows)
    assert capsys.readouterr().out.count(name) == 2


def test_progress_without_a_terminal_is_a_log_line(capsys):
    """Long work ends with a line that says so; answers stay alone on stdout."""
    with progress("reading entries", "entries") as shown:
        shown(10, 20)
        shown(20, 20)
        shown(20, 20)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "reading entries: 20 of 20 entries\n"
