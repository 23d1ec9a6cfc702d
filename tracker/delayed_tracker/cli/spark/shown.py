"""What commands of ``spark-rebuild`` have in common to show: entries that cannot be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that everybody uses

from delayed_tracker.cli.terminal.output import say
from delayed_tracker.cli.tracker.replay import BAD_ENTRIES_SHOWN
from delayed_tracker.spark import schema
from delayed_tracker.spark.summary import BadRow

LISTED_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class BadEntries:
    """Entries that cannot be read."""

    count: int
    errors: tuple[str, ...]
    """Where and why, one for each or for several in a row; the first ``LISTED_MAX``."""


def bad_rows(rows: Sequence[BadRow]) -> BadEntries:
    """Those of a rebuild or a verification."""
    return BadEntries(sum(row.entry_count for row in rows), tuple(row.error for row in rows[:LISTED_MAX]))


def bad_entries(entries: DataFrame, count: int) -> BadEntries:
    """Those of a data frame of entries. Reads everything once more, if there are any.

    Args:
        entries: topic, ledger_id, entry_id, error.
        count: how many there are.
    """
    if not count:
        return BadEntries(0, ())
    bad = entries.where(F.col(schema.ERROR).isNotNull())
    ordered = bad.orderBy(schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID)
    return BadEntries(
        count, tuple(row[schema.ERROR] for row in ordered.select(schema.ERROR).limit(LISTED_MAX).collect())
    )


def say_bad(bad: BadEntries) -> None:
    """A few of them, and how many there are."""
    for error in bad.errors[:BAD_ENTRIES_SHOWN]:
        say(f"bad: {error}")
    if len(bad.errors) > BAD_ENTRIES_SHOWN:
        say(f"... and {len(bad.errors) - BAD_ENTRIES_SHOWN} more; --json lists all")
    if bad.count:
        say(f"{bad.count} entries cannot be read")
