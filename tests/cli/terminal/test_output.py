"""Tests of values as JSON and in readable form."""

import json

import pytest
from rich.text import Text

from delayed_tracker.cli.terminal.output import (
    LISTED_FIRST,
    answer_console,
    duration,
    for_machines,
    instant,
    jsonable,
    notice_console,
    print_json,
    print_json_lines,
    progress,
    say,
    say_first,
    show,
    size,
    table,
)
from delayed_tracker.client import BucketState, MarkDeleteAnswer, Position


def test_frozen_values_become_json():
    """Dataclasses and positions become objects, enum members their values."""
    assert jsonable([MarkDeleteAnswer(Position(4, -1), 2), BucketState.SEALED, {"x": (1, None)}]) == [
        {"mark_delete": {"ledger_id": 4, "entry_id": -1}, "trimmed_count": 2},
        "sealed",
        {"x": [1, None]},
    ]


def test_what_has_no_json_form_is_a_bug():
    """A value without a JSON form raises an error and is not printed as its repr."""
    with pytest.raises(TypeError, match="object has no JSON form"):
        jsonable(object())


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(0, "0 ms"), (999, "999 ms"), (1_500, "1.5 s"), (-3_000, "-3.0 s"), (7_200_000, "2.0 h"), (172_800_000, "2.0 d")],
)
def test_durations_have_the_unit_that_fits(ms, shown):
    """Durations have units from milliseconds to days."""
    assert duration(ms) == shown


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_000_000_000_000, "2000.0 GB")]
)
def test_sizes_have_the_unit_that_fits(count, shown):
    """The last unit accepts any amount."""
    assert size(count) == shown


@pytest.mark.parametrize(
    ("ms", "shown"),
    [(None, "-"), (1_795_245_852_556, "2026-11-21 07:24:12.556Z"), (2**63 - 1, "9223372036854775807 ms")],
)
def test_instants_are_utc_and_total(ms, shown):
    """Deadlines after the year 9999 are printed in milliseconds."""
    assert instant(ms) == shown


@pytest.mark.parametrize("name", ["[/oops]", "[red]x[/red]", ":smile:", "100%", "a b/c"])
def test_names_are_printed_as_they_are(capsys, name):
    """Names are not read as markup, neither in titles nor in cells."""
    rows = table(f"{name} of t", "a wide enough column")
    rows.add_row(name)
    answer_console().print(rows)
    assert capsys.readouterr().out.count(name) == 2


HOSTILE = "a\x1b[2Jb\x9b31m\u202e\x7f\rc\nd"
"""A name that clears a screen, sets colours, reverses text, and forges a line."""
SHOWN = r"a\x1b[2Jb\x9b31m\u202e\x7f\rc\nd"


def test_no_control_character_of_a_name_reaches_the_terminal(capsys, narrow):
    """Titles, columns, cells, sentences and progress show escapes, on one line each; the output's own colours stay."""
    rows = table(f"title {HOSTILE}", "column")
    rows.add_row(HOSTILE)
    show(rows)
    say(HOSTILE)
    answer_console().print(HOSTILE, style="bold", soft_wrap=True)
    notice_console().print(Text(HOSTILE), soft_wrap=True)
    with progress(f"reading {HOSTILE}", "entries") as shown:
        shown(1, 1)
    captured = capsys.readouterr()
    for character in "\x9b\u202e\x7f":
        assert character not in captured.out + captured.err
    assert "\x1b[2J" not in captured.out + captured.err
    assert captured.out.count(SHOWN) == 3


def test_columns_stay_aligned_around_escapes(capsys):
    """A column is as wide as its cells with escapes."""
    rows = table("title", "name", "more")
    rows.add_row(HOSTILE, "x")
    rows.add_row("short", "y")
    show(rows)
    _, *drawn = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in drawn}) == 1


@pytest.mark.parametrize("printed", [print_json, lambda value: print_json_lines([value])])
def test_json_has_the_value_and_no_control_character(capsys, printed):
    """Programs read the original name, and a terminal gets JSON's escapes."""
    printed({"name": HOSTILE})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": HOSTILE}
    assert all(line.isprintable() for line in out.splitlines())


def test_progress_without_a_terminal_is_a_log_line(capsys):
    """Long work ends with a log line, and stdout contains only the answer."""
    with progress("reading entries", "entries") as shown:
        shown(10, 20)
        shown(20, 20)
        shown(20, 20)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "reading entries: 20 of 20 entries\n"


NAME = "persistent://lab/main/" + "x" * 150


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch):
    """Simulate a terminal of 40 columns."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("delayed_tracker.cli.terminal.output.PLAIN_WIDTH", 40)


def rows_of(*columns: str):
    rows = table(f"of {NAME}", *columns, numbers=columns[1:])
    rows.add_row("sub-1", *(str(10**number) for number in range(len(columns) - 1)))
    rows.add_row("sub-2", *("0" for _ in columns[1:]))
    return rows


def test_what_is_piped_is_never_folded(capsys):
    """Rows and titles are printed on one line each, so that other programs can search them."""
    rows = rows_of("name", "count")
    rows.add_row(NAME, "1")
    show(rows)
    say(f"{NAME} and {NAME}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"of {NAME}"
    assert sum(NAME in line for line in lines) == 3
    assert lines[-1] == f"{NAME} and {NAME}"


def test_a_long_list_is_cut_and_counted(capsys):
    """The first items are printed, then how many there are besides; a list that fits has no such line."""
    say_first("bad", range(LISTED_FIRST))
    assert capsys.readouterr().out.splitlines() == [f"bad: {item}" for item in range(LISTED_FIRST)]
    say_first("bad", range(LISTED_FIRST + 3))
    assert capsys.readouterr().out.splitlines()[LISTED_FIRST - 1 :] == [
        f"bad: {LISTED_FIRST - 1}",
        "... and 3 more; --json lists all",
    ]


def test_a_table_too_wide_for_the_terminal_is_a_list(capsys, narrow):
    """A table too wide for the terminal is printed as a list with all columns and with lines between rows."""
    show(rows_of("name", "pending", "leased", "buckets", "trimmed", "acknowledged"))
    drawn = capsys.readouterr().out
    assert (
        "name: sub-1\npending: 1\nleased: 10\nbuckets: 100\ntrimmed: 1000\nacknowledged: 10000\n\nname: sub-2\n"
        in drawn
    )


def test_pairs_too_wide_for_the_terminal_are_a_line_each(capsys, narrow):
    """Rows of a table with the columns what and value are printed as one line each."""
    rows = rows_of("what", "value")
    rows.add_row("topic", NAME)
    show(rows)
    assert f"sub-1: 1\nsub-2: 0\ntopic: {NAME}\n" in capsys.readouterr().out


def test_a_table_that_fits_the_terminal_is_drawn(capsys, narrow):
    """A table that fits is drawn even if its title is wider."""
    show(rows_of("name", "pending"))
    drawn = capsys.readouterr().out
    assert f"of {NAME}" in drawn
    assert "│ sub-1 │       1 │" in drawn


def test_progress_is_silent_for_machines(capsys):
    """With --json stderr contains only the error object."""
    with for_machines(True), progress("reading entries", "entries") as shown:
        shown(20, 20)
    assert capsys.readouterr().err == ""
