"""One interface to every place where entries are kept: a topic is a sequence of ledgers, a ledger one of entries.

Whoever looks messages up, shows, compacts or imports them works on these types alone, and does not know whether the
bytes lie on a bookie's disk, in tiered storage or in a local managed ledger. Reading is synchronous and changes
nothing; readers of different threads need sources of their own.
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
        """Unique among all ledgers of a cluster."""

    @property
    def last_entry_id(self) -> int:
        """-1 when it is empty. Known without reading an entry."""

    @property
    def payload_bytes(self) -> int | None:
        """Bytes of all payloads together; None when no metadata says so."""

    @property
    def closed(self) -> bool:
        """Whether a writer closed it: false for one that may still grow, or was never closed."""

    def read(self, first: int, last: int) -> LedgerEntries:
        """Entries ``first`` to ``last``, both included, at once.

        Args:
            first: 0 or more.
            last: at most ``last_entry_id``; below ``first`` for nothing at all.
        Returns: a row for each entry that is whole, ascending; the others are listed as bad.
        Raises:
            LedgerFileInvalid: the file is not what it should be, so that nothing can be read from it.
        Cost: as near to O(bytes of the range) as the storage allows.
        """

    def scan(self, first: int, last: int) -> Iterator[LedgerEntries]:
        """The same range in pieces of bounded size, ascending: for reading a whole ledger.

        Cost: memory for one piece.
        """


@dataclass(frozen=True, slots=True)
class TopicLog:
    """A topic's ledgers in message order: ascending by id, as Pulsar orders positions."""

    name: TopicName
    ledgers: tuple[Ledger, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of the managed ledger: ``index`` holds the broker's message counter when the metadata was last written."""
    terminated_at: Position | None = None

    @property
    def entry_count(self) -> int:
        """Entries of all ledgers."""
        return sum(ledger.last_entry_id + 1 for ledger in self.ledgers)

    @property
    def first(self) -> Position | None:
        """The first entry's position; None when the topic has no entries."""
        return next((Position(ledger.ledger_id, 0) for ledger in self.ledgers if ledger.last_entry_id >= 0), None)

    @property
    def last(self) -> Position | None:
        """The last entry's position; None when the topic has no entries."""
        newest_first = reversed(self.ledgers)
        return next(
            (Position(ledger.ledger_id, ledger.last_entry_id) for ledger in newest_first if ledger.last_entry_id >= 0),
            None,
        )

    def ledger(self, ledger_id: int) -> Ledger:
        """One of its ledgers.

        Raises:
            LedgerNotFound: it has no such ledger; the message names those it has.
        """
        at = bisect_left(self.ledgers, ledger_id, key=lambda ledger: ledger.ledger_id)
        if at < len(self.ledgers) and self.ledgers[at].ledger_id == ledger_id:
            return self.ledgers[at]
        raise LedgerNotFound.of(str(self.name), ledger_id, [ledger.ledger_id for ledger in self.ledgers])

    def scan(self, start: Position | None = None, through: Position | None = None) -> Iterator[LedgerEntries]:
        """All entries from a position on (None is the beginning), piece by piece, each piece of one ledger.

        Args:
            start: the first position; there need not be an entry.
            through: the last position; None is the end.
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
    """What compaction left of a topic: read it up to the horizon, the topic itself after that."""

    ledger: Ledger
    """Its entries are in the compacted form; their own ids are no positions of the topic."""
    horizon: Position
    """The last position of the topic that compaction has seen."""


@dataclass(frozen=True, slots=True)
class TopicParts:
    """What one source has of a topic, when others may have the rest. Ledgers are opened when they are asked for."""

    name: TopicName
    listed: tuple[int, ...] | None
    """Every ledger of the topic, ascending, wherever it is; None if the source knows but what it has itself."""
    whole: Mapping[int, Callable[[], Ledger]]
    """Ledgers of which it has every entry."""
    partial: Mapping[int, Callable[[], Ledger]] = field(default_factory=dict)
    """Ledgers of which it should have more than it has."""
    absent: Mapping[int, AbsentLedger] = field(default_factory=dict)
    """The others of those that are listed, and those of which it cannot tell what it has: each says why."""
    properties: Mapping[str, str] = field(default_factory=dict)
    terminated_at: Position | None = None


class LedgerSource(Protocol):
    """A place that keeps topics. A context manager; not thread-safe."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def topics(self) -> Sequence[str]:
        """Full names of all topics that have ledgers here, ascending."""

    def topic_log(self, topic: str) -> TopicLog:
        """A topic and its ledgers, as they are now.

        Raises:
            TopicNotFound: there is no such topic; the message lists near names.
            MetadataInvalid: metadata of the topic or of a ledger is damaged.
            InvalidInput: no topic name.
        Cost: O(ledgers of the topic); reads no entries.
        """

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """What compaction left of a topic; None when it was never compacted or the source cannot know.

        Raises: as :meth:`topic_log`; EntriesUnreadable when the compaction cursor cannot be read.
        """

    def close(self) -> None:
        """Release files and connections. What was answered stays valid; reading more does not work."""
