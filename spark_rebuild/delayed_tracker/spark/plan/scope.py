"""Scope of a job: its topics, the entry counts of their ledgers, and their subscriptions.

Usually the metadata contains all of this and no ledger is opened. The disks of bookies are searched only for cursors
that are stored in ledgers, and for ledgers of topics that were never closed.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from types import MappingProxyType

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.errors import ErrorPolicy, LedgerFileInvalid, LedgerNotFound, MetadataInvalid, TopicNotFound
from delayed_tracker.ledger.metadata.cursor import NO_LEDGER
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.source import BookieDisk
from delayed_tracker.ledger.topic.combined_source import CombinedSource
from delayed_tracker.ledger.topic.topic_log import LedgerSource
from delayed_tracker.ledger.topic.topic_reader import TopicReader
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.spark.plan.subscribers import Subscribers, read_subscribers
from delayed_tracker.spark.settings import RebuildSettings
from delayed_tracker.spark.source.chosen_source import chosen_source
from delayed_tracker.spark.source.source_options import SourceOptions, parse_options


@dataclass(frozen=True, slots=True)
class Scope:
    """Facts known before the ledgers are read."""

    subscribers: Subscribers
    entry_counts: Mapping[int, int]
    """Entries that each ledger should have, by ledger id; without ledgers that cannot be opened."""
    ends: Mapping[str, Position]
    """The position behind the last entry of each topic that has a ledger."""


def read_scope(settings: RebuildSettings, running: Mapping[str, LedgerSource] = MappingProxyType({})) -> Scope:
    """Read the topics, the entry counts and the subscriptions.

    Args:
        settings: of the job.
        running: clusters that are open, by URL.
    Raises:
        InvalidInput: an option is wrong, or no topic matches.
        SubscriptionNotFound, TopicNotFound: a named one does not exist, or there are no topics at all.
        LedgerError: metadata is damaged, or a ledger cannot be opened, and the policy is FAIL; or a source is damaged
            as a whole.
        OSError: a file cannot be read.
    """
    options = parse_options(settings.source)
    with ExitStack() as stack:
        sources = [
            stack.enter_context(chosen_source(url, options, _ledgers_without_end, running)) for url in options.urls
        ]
        source = CombinedSource(sources)
        there = source.topics() if options.topic is None else ()
        if options.topic is None and not there:
            raise TopicNotFound(
                f"--source: {' '.join(options.urls)!r} has no topics; give the metadata of a cluster that has some"
            )
        topics = options.found(there)
        counts: dict[int, int] = {}
        ends: dict[str, Position] = {}
        readable = []
        for topic in topics:
            try:
                counted = _counted(source, topic, options)
                counts |= counted
                if counted:
                    ends[topic] = Position(*max(counted.items()))
                readable.append(topic)
            except MetadataInvalid:
                if options.on_error is ErrorPolicy.FAIL:
                    raise
                # The data source reports this error, too.
        subscribers = read_subscribers(
            sources,
            readable,
            named=settings.subscriptions,
            ignore_acks=settings.ignore_acks,
            on_error=options.on_error,
        )
    return Scope(subscribers, counts, ends)


def _ledgers_without_end(catalogue: TopicCatalogue, topic: TopicName) -> Iterator[int]:
    """Yield the ledgers of a topic whose end the metadata does not contain, and the ledgers of its cursors."""
    for ledger in catalogue.managed_ledger(topic).ledgers:
        metadata = catalogue.ledger(ledger.ledger_id)
        if ledger.entry_count is None and (metadata is None or not metadata.closed):
            yield ledger.ledger_id
    for subscription in catalogue.subscriptions(topic):
        cursor = catalogue.cursor(topic, subscription)
        if cursor.cursors_ledger_id != NO_LEDGER:
            yield cursor.cursors_ledger_id


def _counted(source: CombinedSource, topic: str, options: SourceOptions) -> dict[int, int]:
    """Return the entry count of each ledger of a topic, without ledgers that the data source lists as bad."""
    disk = next((other for other in source.sources if isinstance(other, BookieDisk)), None)
    if disk is not None and topic in disk.topics():
        spans = TopicReader(disk.catalogue, disk.logs, disk.open_ledgers).topic_spans(disk.catalogue.topic(topic))
        return {span.ledger_id: span.entry_count for span in spans}
    counts = {}
    for ledger_id, open_ledger in source.openers(topic).items():
        try:
            counts[ledger_id] = open_ledger().last_entry_id + 1
        except (LedgerFileInvalid, LedgerNotFound):
            if options.on_error is ErrorPolicy.FAIL:
                raise
    return counts
