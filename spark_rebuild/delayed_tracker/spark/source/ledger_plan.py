"""Reading plan: divides the ledgers of the chosen topics into parts for tasks, and lists known bad entries."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import MappingProxyType

from pyspark.sql.datasource import InputPartition

from delayed_tracker.ledger.bookkeeper.entry_log_ledger import EntryLogLedger
from delayed_tracker.ledger.bookkeeper.log_inventory import LogInventory
from delayed_tracker.ledger.errors import (
    BadEntry,
    EntriesUnreadable,
    ErrorPolicy,
    LedgerFileInvalid,
    MetadataInvalid,
)
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.topic.combined_source import CombinedSource
from delayed_tracker.ledger.topic.topic_log import Ledger, LedgerSource
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.spark.source.chosen_source import chosen_source
from delayed_tracker.spark.source.entry_filter import Range
from delayed_tracker.spark.source.ledger_splits import LedgerRange, ranges_of, shared_out
from delayed_tracker.spark.source.log_splits import LoggedSpan, plan_logs
from delayed_tracker.spark.source.source_options import SourceOptions

BadRow = tuple[str | None, BadEntry]
"""Bad entry and its topic, if known."""


@dataclass
class LedgerPart(InputPartition):
    """Ranges of ledgers for one task."""

    ranges: tuple[LedgerRange, ...]


@dataclass
class BadPart(InputPartition):
    """Bad entries found during planning."""

    bad: tuple[BadRow, ...]


def plan_parts(
    options: SourceOptions, ledgers: Range, running: Mapping[str, LedgerSource] = MappingProxyType({})
) -> list[InputPartition]:
    """Divide the ledgers of the chosen topics into parts.

    A running cluster whose URL limits the rate is read in at most ``tasks_at_once`` parts, each with an equal share of the
    rate. So the tasks together stay below it, however many executors there are or come.

    Args:
        options: the topics and their sources.
        ledgers: range of ledger ids to read.
        running: clusters that are open, by URL.
    Raises:
        EntriesUnreadable: entries of a topic are missing, or one of its ledgers cannot be read, and the policy is FAIL.
        InvalidInput: there is no such source or topic.
        LedgerError: a source or its metadata is damaged as a whole.
        OSError: a file cannot be read.
    Cost: O(ledgers), with one or two small reads for each; O(records) for entry logs.
    """
    wanted = _Wanted()
    with ExitStack() as stack:
        source = CombinedSource(
            [stack.enter_context(chosen_source(url, options, _ledgers_of, running)) for url in options.urls]
        )
        for topic in options.found(source.topics() if options.topic is None else ()):
            try:
                openers = source.openers(topic)
            except MetadataInvalid as error:
                wanted.bad.append((topic, BadEntry(None, None, None, None, error.message)))
                continue
            for ledger_id, open_ledger in openers.items():
                if ledger_id not in ledgers:
                    continue
                try:
                    wanted.add(topic, open_ledger(), options.partition_bytes)
                except (LedgerFileInvalid, MetadataInvalid) as error:
                    wanted.bad.append((topic, BadEntry(ledger_id, None, None, None, error.message)))
        wanted.bad += ((None, found) for found in source.unclaimed())
        parts = wanted.parts(options.partition_bytes, options.tasks_at_once)
    if wanted.bad and options.on_error is ErrorPolicy.FAIL:
        raise EntriesUnreadable([found for _, found in wanted.bad])
    return [*([BadPart(tuple(wanted.bad))] if wanted.bad else []), *parts]


@dataclass(slots=True)
class _Wanted:
    """Ledgers, grouped by the way in which they are read."""

    ranges: list[LedgerRange] = field(default_factory=list)
    logged: dict[LogInventory, dict[int, LoggedSpan]] = field(default_factory=lambda: defaultdict(dict))
    bad: list[BadRow] = field(default_factory=list)

    def add(self, topic: str, ledger: Ledger, part_bytes: int) -> None:
        if not isinstance(ledger, EntryLogLedger) or not isinstance(ledger.logs, LogInventory):
            self.ranges += ranges_of(topic, ledger, part_bytes)
            return
        self.logged[ledger.logs][ledger.ledger_id] = LoggedSpan(topic, ledger.span)
        if not ledger.span.end_known and ledger.span.state is None:
            gone = "BookKeeper's metadata of it is gone"
            self.bad.append((topic, BadEntry(ledger.ledger_id, None, None, None, gone)))

    def parts(self, part_bytes: int, tasks_at_once: int | None) -> list[InputPartition]:
        parts: list[InputPartition] = []
        for inventory, spans in self.logged.items():
            plan = plan_logs(inventory, spans, part_bytes)
            parts += plan.parts
            self.bad += plan.missing
            if not all(logged.span.end_known for logged in spans.values()):
                # The bytes after the damage may hold the rest of such a ledger, which would not be counted as missing.
                self.bad += ((None, damage) for damage in inventory.damage)
        return [*parts, *map(LedgerPart, shared_out(self.ranges, part_bytes, tasks_at_once))]


def _ledgers_of(catalogue: TopicCatalogue, topic: TopicName) -> Iterator[int]:
    return (ledger.ledger_id for ledger in catalogue.managed_ledger(topic).ledgers)
