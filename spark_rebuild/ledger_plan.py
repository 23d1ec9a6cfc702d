"""What there is to read: the ledgers of the wanted topics, as parts for the tasks, and what is known to be bad."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from spark_rebuild.entry_filter import Range
from spark_rebuild.ledger_splits import LedgerRange, packed, ranges_of
from spark_rebuild.source_options import SourceOptions
from tracker.ledger.combined_source import CombinedSource
from tracker.ledger.errors import (
    BadEntry,
    EntriesUnreadable,
    ErrorPolicy,
    LedgerFileInvalid,
    MetadataInvalid,
)
from tracker.ledger.source_url import open_source


@dataclass
class LedgerPart(InputPartition):
    """Ranges of ledgers for one task."""

    ranges: tuple[LedgerRange, ...]


@dataclass
class BadPart(InputPartition):
    """What could not be planned, with the topics it belongs to."""

    bad: tuple[tuple[str | None, BadEntry], ...]


def plan_parts(options: SourceOptions, ledgers: Range) -> list[InputPartition]:
    """Divide what is wanted into parts.

    Args:
        options: which topics, and where they are.
        ledgers: which of their ledgers.
    Raises:
        EntriesUnreadable: a ledger that a topic lists cannot be read, and the policy says to fail.
        InvalidInput: there is no such source or topic.
        LedgerError: a source or its metadata is damaged as a whole.
        OSError: a file cannot be read.
    Cost: O(ledgers), each with a small read or two.
    """
    ranges: list[LedgerRange] = []
    bad: list[tuple[str | None, BadEntry]] = []
    with CombinedSource([open_source(url) for url in options.urls]) as source:
        for topic in options.chosen(source.topics() if options.topic is None else ()):
            try:
                openers = source.openers(topic)
            except MetadataInvalid as error:
                _note(options, bad, topic, BadEntry(None, None, None, None, error.message))
                continue
            for ledger_id, open_ledger in openers.items():
                if ledger_id not in ledgers:
                    continue
                try:
                    ranges += ranges_of(topic, open_ledger(), options.partition_bytes)
                except (LedgerFileInvalid, MetadataInvalid) as error:
                    _note(options, bad, topic, BadEntry(ledger_id, None, None, None, error.message))
    parts: list[InputPartition] = [LedgerPart(group) for group in packed(ranges, options.partition_bytes)]
    return [*([BadPart(tuple(bad))] if bad else []), *parts]


def _note(options: SourceOptions, bad: list[tuple[str | None, BadEntry]], topic: str, found: BadEntry) -> None:
    if options.on_error is ErrorPolicy.FAIL:
        raise EntriesUnreadable([found])
    bad.append((topic, found))
