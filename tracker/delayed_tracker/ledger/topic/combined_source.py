"""Several sources as one: each ledger of a topic is read from the first of them that has all of it.

A topic that was offloaded lies in two places: brokers delete a ledger from the bookies some time after it was copied to
tiered storage, and never copy the one that is still written to.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import BadEntry, TopicNotFound
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, LedgerSource, TopicLog, TopicParts


@runtime_checkable
class PartialSource(Protocol):
    """A source that may have some of a topic's ledgers, and leave the others to other sources."""

    def topic_parts(self, topic: str) -> TopicParts:
        """What there is of a topic.

        Raises: as :meth:`~delayed_tracker.ledger.topic.topic_log.LedgerSource.topic_log`.
        """


@runtime_checkable
class ListingSource(Protocol):
    """A source that finds its topics by looking at what is there, some of which may name no topic."""

    def unclaimed(self) -> Sequence[BadEntry]:
        """What is there and may be any topic's: a reader of all topics must know that it may lack entries."""


def unclaimed_of(source: LedgerSource) -> Sequence[BadEntry]:
    """What a source has and cannot tell whose it is; nothing of sources that have metadata."""
    return source.unclaimed() if isinstance(source, ListingSource) else ()


class CombinedSource:
    """A :class:`~delayed_tracker.ledger.topic.topic_log.LedgerSource` over others, in the order in which they are to be asked."""

    def __init__(self, sources: Sequence[LedgerSource]) -> None:
        if not sources:
            raise InvalidInput("sources", [], "give at least one source of ledgers")
        self.sources = tuple(sources)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all of them."""
        for source in self.sources:
            source.close()

    def topics(self) -> list[str]:
        """Full names of the topics of all sources, ascending."""
        return sorted({topic for source in self.sources for topic in source.topics()})

    def unclaimed(self) -> Sequence[BadEntry]:
        """What the sources have and cannot tell whose it is."""
        return [bad for source in self.sources for bad in unclaimed_of(source)]

    def topic_log(self, topic: str) -> TopicLog:
        """A topic whose ledgers come from several sources.

        The first source with metadata says which ledgers those are; without metadata, they are all that are found. One
        that no source has is an :class:`~delayed_tracker.ledger.topic.absent_ledger.AbsentLedger`.

        Raises:
            TopicNotFound: no source has the topic; the message is that of the first.
            MetadataInvalid, LedgerFileInvalid: metadata of the topic or of a ledger is damaged.
            InvalidInput: no topic name.
        """
        parts = self._parts(topic)
        known = _knowing(parts)
        return TopicLog(
            known.name,
            tuple(_ledger(ledger_id, parts) for ledger_id in _listed(known, parts)),
            properties=known.properties,
            terminated_at=known.terminated_at,
        )

    def openers(self, topic: str) -> dict[int, Callable[[], Ledger]]:
        """What opens each ledger of a topic, ascending: for going on where one cannot be opened.

        Raises:
            TopicNotFound, MetadataInvalid, InvalidInput: as :meth:`topic_log`; an opener raises the rest.
        """
        parts = self._parts(topic)
        known = _knowing(parts)
        return {ledger_id: partial(_ledger, ledger_id, parts) for ledger_id in _listed(known, parts)}

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """What compaction left of a topic, from the first source that knows."""
        self._parts(topic)
        for source in self.sources:
            try:
                compacted = source.compacted_log(topic)
            except TopicNotFound:
                continue
            if compacted is not None:
                return compacted
        return None

    def _parts(self, topic: str) -> list[TopicParts]:
        parts, missing = [], []
        for source in self.sources:
            try:
                parts.append(_parts_of(source, topic))
            except TopicNotFound as error:
                missing.append(error)
        if not parts:
            raise missing[0]
        return parts


def _parts_of(source: LedgerSource, topic: str) -> TopicParts:
    if isinstance(source, PartialSource):
        return source.topic_parts(topic)
    log = source.topic_log(topic)
    listed = tuple(ledger.ledger_id for ledger in log.ledgers)
    whole = {ledger.ledger_id: _kept(ledger) for ledger in log.ledgers}
    return TopicParts(log.name, listed, whole, properties=log.properties, terminated_at=log.terminated_at)


def _knowing(parts: Sequence[TopicParts]) -> TopicParts:
    """The first that has metadata, or else simply the first."""
    return next((part for part in parts if part.listed is not None), parts[0])


def _listed(known: TopicParts, parts: Sequence[TopicParts]) -> tuple[int, ...]:
    if known.listed is not None:
        return known.listed
    return tuple(sorted({ledger_id for part in parts for ledger_id in (*part.whole, *part.absent)}))


def _kept(ledger: Ledger) -> Callable[[], Ledger]:
    return lambda: ledger


def _ledger(ledger_id: int, parts: Sequence[TopicParts]) -> Ledger:
    # Part of a ledger is better than none of it: what is missing will be listed when it is read.
    for kept in (*(part.whole for part in parts), *(part.partial for part in parts)):
        if ledger_id in kept:
            return kept[ledger_id]()
    return next(part.absent[ledger_id] for part in parts if ledger_id in part.absent)
