"""The common interface of all storage of entries: a topic is a sequence of ledgers, a ledger a sequence of entries.

Code that searches, shows, compacts or imports messages uses only these types, whether the bytes are on a bookie's disk,
in tiered storage or in a local managed ledger. Reading is synchronous and changes nothing. Each thread needs a source
of its own.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.errors import LedgerNotFound
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic_name import TopicName


class Ledger(Protocol):
    """Entries 0 to ``last_entry_id`` of one ledger, readable in any order."""

    @property
    def ledger_id(self) -> int:
        """Id that is unique among all ledgers of a cluster."""

    @property
    def last_entry_id(self) -> int:
        """Last entry id; -1 if the ledger is empty. Known without reading an entry."""

    @property
    def payload_bytes(self) -> int | None:
        """Bytes of all payloads together; None if no metadata contains them."""

    @property
    def closed(self) -> bool:
        """True if a writer closed the ledger; False if it may still grow or was never closed."""

    def read(self, first: int, last: int) -> LedgerEntries:
        """Read entries ``first`` to ``last``, both included, at once.

        Args:
            first: 0 or more.
            last: at most ``last_entry_id``; below ``first`` to read nothing.
        Returns: a row for each entry that is whole, ascending; all others are listed as bad.
        Raises:
            LedgerFileInvalid: the file is not valid, so that nothing can be read from it.
        Cost: as near to O(bytes of the range) as the storage allows.
        """

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """Read the same range in pieces of bounded size, ascending. Use it to read a whole ledger.

        Cost: memory for one piece.
        """


@dataclass(frozen=True, slots=True)
class TopicLog:
    """Ledgers of a topic in message order: ascending by id, as Pulsar orders positions."""

    name: TopicName
    ledgers: tuple[Ledger, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties of the managed ledger. ``index`` is the broker's message counter when the metadata was last written.
    """
    terminated_at: Position | None = None

    @property
    def entry_count(self) -> int:
        """Entries of all ledgers."""
        return sum(ledger.last_entry_id + 1 for ledger in self.ledgers)

    @property
    def first(self) -> Position | None:
        """Position of the first entry; None if the topic has no entries."""
        return next((Position(ledger.ledger_id, 0) for ledger in self.ledgers if ledger.last_entry_id >= 0), None)

    @property
    def last(self) -> Position | None:
        """Position of the last entry; None if the topic has no entries."""
        newest_first = reversed(self.ledgers)
        return next(
            (Position(ledger.ledger_id, ledger.last_entry_id) for ledger in newest_first if ledger.last_entry_id >= 0),
            None,
        )

    def ledger(self, ledger_id: int) -> Ledger:
        """Return one ledger of the topic.

        Raises:
            LedgerNotFound: the topic has no such ledger; the message lists the existing ones.
        """
        at = bisect_left(self.ledgers, ledger_id, key=lambda ledger: ledger.ledger_id)
        if at < len(self.ledgers) and self.ledgers[at].ledger_id == ledger_id:
            return self.ledgers[at]
        raise LedgerNotFound.of(str(self.name), ledger_id, [ledger.ledger_id for ledger in self.ledgers])

    def scan(self, start: Position | None = None, through: Position | None = None) -> Iterator[LedgerEntries]:
        """Read all entries from a position on (None for the beginning), in pieces, each of one ledger.

        Args:
            start: the first position; it need not have an entry.
            through: the last position; None for the end.
        """
        for ledger in self.ledgers:
            first, last = 0, ledger.last_entry_id
            if start is not None and ledger.ledger_id <= start.ledger_id:
                first = max(start.entry_id, 0) if ledger.ledger_id == start.ledger_id else last + 1
            if through is not None and ledger.ledger_id >= through.ledger_id:
                last = min(last, through.entry_id) if ledger.ledger_id == through.ledger_id else -1
            if first <= last:
                yield from ledger.scan(first, last)


@dataclass(frozen=True, slots=True)
class CompactedLog:
    """Result of a topic's compaction. Read it up to the horizon, and the topic itself after that."""

    ledger: Ledger
    """Ledger with entries in the compacted form. Their own ids are not positions of the topic."""
    horizon: Position
    """Last position of the topic that compaction processed."""


@dataclass(frozen=True, slots=True)
class TopicParts:
    """Part of a topic that one source has. Other sources may have the rest. Ledgers are opened on demand."""

    name: TopicName
    listed: tuple[int, ...] | None
    """All ledgers of the topic, ascending, in any source; None if the source has no such list."""
    whole: Mapping[int, Callable[[], Ledger]]
    """Ledgers that the source has completely."""
    partial: Mapping[int, Callable[[], Ledger]] = field(default_factory=dict)
    """Ledgers that the source has only in part."""
    absent: Mapping[int, AbsentLedger] = field(default_factory=dict)
    """Placeholders with the reason, for listed ledgers that the source lacks and for ledgers whose content is unclear.
    """
    properties: Mapping[str, str] = field(default_factory=dict)
    terminated_at: Position | None = None


class LedgerSource(Protocol):
    """Storage of topics. A context manager; not thread-safe."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def topics(self, beside: TopicName | None = None) -> Sequence[str]:
        """Return the full names of topics that have ledgers here, ascending: all, or those in one namespace.

        Args:
            beside: a topic of the namespace, which need not exist; None for all topics.
        """

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic and its ledgers in their current state.

        Raises:
            TopicNotFound: there is no such topic; the message lists similar names.
            MetadataInvalid: metadata of the topic or of a ledger is damaged.
            InvalidInput: not a topic name.
        Cost: O(ledgers of the topic); reads no entries.
        """

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """Return the result of a topic's compaction; None if it was never compacted or the source cannot find out.

        Raises: as :meth:`topic_log`; EntriesUnreadable if the compaction cursor cannot be read.
        """

    def close(self) -> None:
        """Release files and connections. Results stay valid, but further reads fail."""
