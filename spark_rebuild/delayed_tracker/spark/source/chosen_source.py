"""Source opened for the topics of one job. For entry logs, memory holds only the locations of the ledgers.

A job looks at its sources twice: for their subscriptions, and for their ledgers. A running cluster changes meanwhile, so
the job keeps one snapshot of it for both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager

from delayed_tracker.ledger.bookkeeper.entry_logs import EntryLogs, RecordColumns
from delayed_tracker.ledger.bookkeeper.log_files import find_log_files
from delayed_tracker.ledger.bookkeeper.log_inventory import LogInventory
from delayed_tracker.ledger.errors import MetadataInvalid, TopicNotFound
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue
from delayed_tracker.ledger.metadata.metadata_store import open_metadata
from delayed_tracker.ledger.source import BookieDisk
from delayed_tracker.ledger.source_url import (
    SourceUrl,
    bookie_disk_options,
    open_live_cluster,
    open_source,
    parse_source_url,
    translate_source_errors,
)
from delayed_tracker.ledger.topic.topic_log import LedgerSource
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.spark.source.source_options import SourceOptions


@contextmanager
def running_clusters(options: SourceOptions) -> Iterator[Mapping[str, LedgerSource]]:
    """Connect to the running clusters of a job, each seen as of one moment, and yield them by their URLs.

    Raises:
        InvalidInput: there is no cluster at an address.
        LedgerError: ZooKeeper does not answer.
    """
    urls = [url for url in map(parse_source_url, options.urls) if url.scheme == "bookkeeper+zk"]
    with ExitStack() as stack:
        yield {url.text: stack.enter_context(open_live_cluster(url, pinned=True)) for url in urls}


@contextmanager
def chosen_source(
    text: str,
    options: SourceOptions,
    ledgers_of: Callable[[TopicCatalogue, TopicName], Iterable[int]],
    running: Mapping[str, LedgerSource],
) -> Iterator[LedgerSource]:
    """Yield the source of a URL: one of the running clusters, which stays open, or one that is opened here.

    Args and errors are those of :func:`open_chosen`; ``running`` has those of :func:`running_clusters`.
    """
    if text in running:
        yield running[text]
        return
    with open_chosen(text, options, ledgers_of) as source:
        yield source


def open_chosen(
    text: str, options: SourceOptions, ledgers_of: Callable[[TopicCatalogue, TopicName], Iterable[int]]
) -> LedgerSource:
    """Open a source.

    Args:
        text: its URL.
        options: the chosen topics.
        ledgers_of: returns the ledgers of a chosen topic for which disks of bookies are searched. If there are none, no
            log is opened.
    Raises:
        InvalidInput: there is no such source, or a directory has no logs.
        LedgerError: metadata is damaged, or a file is no entry log and the policy is FAIL.
        OSError: a file cannot be read.
    """
    url = parse_source_url(text)
    if url.scheme != "bookkeeper+file":
        return open_source(text, on_error=options.on_error)
    with translate_source_errors(url):
        return _open_disk(url, options, ledgers_of)


def _open_disk(
    url: SourceUrl, options: SourceOptions, ledgers_of: Callable[[TopicCatalogue, TopicName], Iterable[int]]
) -> BookieDisk:
    dump, open_ledgers = bookie_disk_options(url)
    catalogue = TopicCatalogue(open_metadata(dump))
    ledger_ids: list[int] = []
    for topic in options.chosen([str(name) for name in catalogue.topics()]):
        try:
            ledger_ids += ledgers_of(catalogue, catalogue.topic(topic))
        except (TopicNotFound, MetadataInvalid):
            continue  # Another source may have the topic; damage is reported when the topic is opened.
    find_log_files(url.paths)  # Fails for a directory without logs even if nothing is read.
    logs = (
        LogInventory(url.paths, ledger_ids, on_error=options.on_error)
        if ledger_ids
        else EntryLogs((), (), RecordColumns.of([]))
    )
    return BookieDisk(catalogue, logs, open_ledgers=open_ledgers)
