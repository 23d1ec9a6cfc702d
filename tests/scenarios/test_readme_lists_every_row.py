"""The table of scenarios is complete and correct: it has every row, and every test that it names exists."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECT = FOLDER.parents[1]
README = (FOLDER / "README.md").read_text()

# Rows of the list that the scenarios were taken from; its numbers have gaps.
ROWS = {
    *["1", "2", "3", "4", "6", "7", "8", "9", "10", "11", "12", "15", "16", "17", "19", "20", "21", "22", "23", "25"],
    *["26", "27", "28", "30", "32", "33", "34", "35", "36", "38", "39", "41", "42", "43", "44", "46", "47", "48"],
    *["49", "51", "52", "53", "55", "56", "57", "58", "59", "61", "62"],
    *["63", "64", "65", "66", "67", "68", "69", "70", "71", "72", "73", "74", "75", "76", "77", "78", "80"],
    *["L1", "L4", "L5", "L7", "L8", "L10", "R1", "R2", "R3", "R4"],
}


def _listed() -> list[tuple[list[str], list[str]]]:
    """Return (rows, cells) of each line of the README's tables."""
    lines = [line for line in README.splitlines() if re.match(r"\| [0-9LR]", line)]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [(first[0].split(", "), first) for first in cells]


def _tests() -> dict[str, Path]:
    return {
        name: path
        for path in (PROJECT / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }


def test_every_row_is_listed() -> None:
    """The table lists exactly these rows, each with its test or with the reason why it cannot occur here."""
    listed = {row for rows, _ in _listed() for row in rows}
    assert listed == ROWS, f"missing {sorted(ROWS - listed)}, unknown {sorted(listed - ROWS)}"


def test_every_test_and_file_it_names_exists() -> None:
    """Each named test and file exists; ``test_row_07_…`` names all tests with this prefix."""
    known = _tests()
    named = re.findall(r"`(test_\w+)(…?)`", README)
    assert len(named) > 60
    for name, more in named:
        assert any(test.startswith(name) if more else test == name for test in known), f"no test is called {name}{more}"
    for path in re.findall(r"`([\w/]+\.py)`", README):
        assert (FOLDER / path).is_file() or (PROJECT / path).is_file(), f"there is no {path}"
    assert "../" not in README, "nothing outside the project is needed to read it"


def test_every_scenario_stands_in_the_table() -> None:
    """A test named by a row is listed under that row, with the mutation that it caught."""
    for name in _tests():
        rows = re.match(r"test_rows?_(L?R?\d+)((?:_(?:and_)?\d{1,2}(?=_))*)_", name, re.IGNORECASE)
        if rows is None:
            continue
        for row in [rows[1], *re.findall(r"\d+", rows[2])]:
            number = row.upper().removeprefix("0")
            lines = [cells for listed, cells in _listed() if number in listed and len(cells) == 4]
            assert lines, f"{name} is not listed"
            assert all(cells[3] for cells in lines), f"row {number} names no mutation"
