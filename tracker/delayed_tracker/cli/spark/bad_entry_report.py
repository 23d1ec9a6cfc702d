"""Output that commands of ``spark-rebuild`` share: entries that cannot be read."""

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the usual name

from delayed_tracker.cli.terminal.output import say, say_first
from delayed_tracker.spark import schema
from delayed_tracker.spark.summary import LISTED_MAX, Summary


@dataclass(frozen=True, slots=True)
class BadEntries:
    """Entries that cannot be read."""

    count: int
    errors: tuple[str, ...]
    """Position and reason, one for each entry or for several consecutive ones; the first ``LISTED_MAX``."""


def bad_rows(summary: Summary) -> BadEntries:
    """Return the bad entries of a rebuild or a verification."""
    return BadEntries(summary.bad_count, tuple(row.error for row in summary.bad_entries))


def bad_entries(entries: DataFrame, count: int) -> BadEntries:
    """Return the bad entries of a data frame. Reads everything once more, if there are any.

    Args:
        entries: topic, ledger_id, entry_id, error.
        count: number of bad entries.
    """
    if not count:
        return BadEntries(0, ())
    bad = entries.where(F.col(schema.ERROR).isNotNull())
    ordered = bad.orderBy(schema.TOPIC, schema.LEDGER_ID, schema.ENTRY_ID)
    return BadEntries(
        count, tuple(row[schema.ERROR] for row in ordered.select(schema.ERROR).limit(LISTED_MAX).collect())
    )


def print_bad_entries(bad: BadEntries) -> None:
    """Print a few bad entries, and their number."""
    say_first("bad", bad.errors)
    if bad.count:
        say(f"{bad.count} entries cannot be read")
