"""A table in README.md that the code writes, between two comments."""

from pathlib import Path

README_PATH = Path("README.md")


def with_table(readme: str, begin: str, end: str, table: str) -> str:
    """The README's text with what stands between two of its lines replaced by a fresh table.

    Raises:
        ValueError: it lacks the two lines.
    """
    before, found_begin, rest = readme.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found_begin or not found_end:
        raise ValueError(f"{README_PATH}: put the lines {begin!r} and {end!r} where the table belongs")
    return f"{before}{begin}\n\n{table}\n{end}{after}"
