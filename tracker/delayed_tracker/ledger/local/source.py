"""Reads a directory of local ledgers as a source of topics."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import TopicNotFound
from delayed_tracker.ledger.local.compacted import read_compacted_log
from delayed_tracker.ledger.local.files.layout import LedgerDirectory, TopicDirectory, topic_of_directory
from delayed_tracker.ledger.local.ledger import LocalLedger
from delayed_tracker.ledger.local.metadata import TopicMetadata, read_metadata
from delayed_tracker.ledger.local.recovery import confirmed_last_entry, examine_open_ledger
from delayed_tracker.ledger.metadata.managed_ledger import TopicLedger
from delayed_tracker.ledger.topic.topic_log import CompactedLog, TopicLog
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from delayed_tracker.ledger.topic_name import TopicName, similar_names

_TRIES_MAX: Final = 100


class LocalLedgers:
    """Source of local ledgers; implements :class:`~delayed_tracker.ledger.topic.topic_log.LedgerSource`.

    Takes no lock and keeps no file open.
    """

    def __init__(self, directory: LedgerDirectory, *, open_ledgers: OpenLedgers) -> None:
        self.directory = directory
        self.open_ledgers = open_ledgers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: the source holds no resources."""

    def topics(self, beside: TopicName | None = None) -> list[str]:
        """Return the full names of topics that were ever opened for writing, ascending: all, or those of one namespace.

        Raises:
            MetadataInvalid: the metadata of a topic with a very long name is damaged; only the metadata contains that
                name.
            OSError: a directory cannot be read.
        Cost: O(topics); reads metadata for very long names only.
        """
        names = (_name(files) for files in self.directory.topic_directories() if files.metadata.exists())
        return sorted(str(name) for name in names if name is not None and (beside is None or name.is_beside(beside)))

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic and its ledgers, up to the last durable entry.

        Raises:
            TopicNotFound: the topic does not exist; the message lists similar names.
            MetadataInvalid: the topic's metadata is damaged.
            LedgerFileInvalid: the log of the open ledger is not a ledger's log.
            InvalidInput: ``topic`` is not a topic name.
            OSError: a file cannot be read.
        Cost: O(ledgers); with :attr:`OpenLedgers.RECOVERED` O(bytes of a ledger that was left open).
        """
        name = TopicName.parse(topic)
        files = self.directory.topic(name)
        metadata, open_ledger = self._consistent(name, files)
        ended = [
            LocalLedger(
                files.log(ledger.ledger_id),
                files.index(ledger.ledger_id),
                ledger.ledger_id,
                (ledger.entry_count or 0) - 1,
                ledger.payload_bytes,
                closed=True,
            )
            for ledger in metadata.ledgers
            if ledger.entry_count is not None
        ]
        return TopicLog(
            name,
            tuple(ended if open_ledger is None else [*ended, open_ledger]),
            properties=metadata.properties,
            terminated_at=metadata.terminated_at,
        )

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """Return the result of the topic's last compaction; None if the topic was never compacted.

        The next compaction removes the files. A caller that reads for a long time must be ready to call this again.
        Raises: as :meth:`topic_log`.
        """
        files = self.directory.topic(self._metadata(TopicName.parse(topic)).topic)
        return read_compacted_log(files.compacted)

    def _consistent(self, name: TopicName, files: TopicDirectory) -> tuple[TopicMetadata, LocalLedger | None]:
        """Return the metadata and the open ledger of the same moment, although a writer may begin new ledgers."""
        metadata = self._metadata(name)
        for _ in range(_TRIES_MAX):
            open_ledger = None
            if metadata.open_ledger is not None:
                open_ledger = self._open_ledger(files, metadata.open_ledger)
            again = self._metadata(name)
            if again.ledgers == metadata.ledgers:
                return metadata, open_ledger
            metadata = again
        raise OSError(f"{files.metadata} changed {_TRIES_MAX} times while it was read")

    def _metadata(self, name: TopicName) -> TopicMetadata:
        metadata = read_metadata(self.directory.topic(name).metadata)
        if metadata is not None:
            return metadata
        known = self.topics(name)
        near = similar_names(name, known)
        hint = f"similar names: {', '.join(near)}" if near else f"its namespace has {len(known)} topics"
        raise TopicNotFound(f"{self.directory.root} has no topic {name}; {hint}", metadata={"topic": str(name)})

    def _open_ledger(self, files: TopicDirectory, stored: TopicLedger) -> LocalLedger:
        ledger_id = stored.ledger_id
        if self.open_ledgers is OpenLedgers.LIVE:
            last_entry_id, payload_bytes = confirmed_last_entry(files, ledger_id)
        else:
            recovered = examine_open_ledger(files, ledger_id)
            last_entry_id, payload_bytes = recovered.entry_count - 1, recovered.payload_bytes
        return LocalLedger(
            files.log(ledger_id), files.index(ledger_id), ledger_id, last_entry_id, payload_bytes, closed=False
        )


def open_local_ledgers(directory: str | Path, *, open_ledgers: OpenLedgers = OpenLedgers.LIVE) -> LocalLedgers:
    """Open a directory of local ledgers for reading.

    Args:
        directory: the directory that contains ``topics``.
        open_ledgers: how to read a ledger that was never closed. LIVE is correct while a writer has the topic open, and
            after a writer was killed. After a power failure, LIVE may leave out the entries of the last sync until a
            writer opens the topic. RECOVERED shows them, but is wrong while a writer has the topic open.
    Raises:
        InvalidInput: the directory has no local ledgers.
    """
    found = LedgerDirectory(Path(directory))
    if not found.topics_path.is_dir():
        raise InvalidInput("directory", str(directory), "give a directory of local ledgers; it has topics/ in it")
    return LocalLedgers(found, open_ledgers=open_ledgers)


def _name(files: TopicDirectory) -> TopicName | None:
    if (known := topic_of_directory(files.path.name)) is not None:
        return known
    metadata = read_metadata(files.metadata)
    return None if metadata is None else metadata.topic
