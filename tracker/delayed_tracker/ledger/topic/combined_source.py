"""Combines several sources into one: each ledger of a topic is read from the first source that has all of it.

An offloaded topic is in two places. Brokers delete a ledger from the bookies some time after they copied it to tiered
storage, and they never copy the ledger that is still written to.
"""

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Protocol, Self, runtime_checkable

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import BadEntry, TopicNotFound
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, LedgerSource, TopicLog, TopicParts
from delayed_tracker.ledger.topic.topic_reader import TopicReader
from delayed_tracker.ledger.topic_name import TopicName


@runtime_checkable
class PartialSource(Protocol):
    """Source that may have only some ledgers of a topic; other sources may have the rest."""

    def topic_parts(self, topic: str) -> TopicParts:
        """Return the part of a topic that this source has.

        Raises: as :meth:`~delayed_tracker.ledger.topic.topic_log.LedgerSource.topic_log`.
        """


@runtime_checkable
class ListingSource(Protocol):
    """Source that lists its storage to find topics, and may find ledgers without the name of their topic."""

    def unclaimed(self) -> Sequence[BadEntry]:
        """Return what was found and may belong to any topic, because a reader of all topics may lack these entries."""


@runtime_checkable
class CursorSource(Protocol):
    """Source that has the ledgers of cursors, too."""

    def topic_reader(self) -> TopicReader:
        """Return a reader of topics and cursors, as of one moment."""


def unclaimed_of(source: LedgerSource) -> Sequence[BadEntry]:
    """Return what a source found without the name of its topic; nothing for sources with metadata."""
    return source.unclaimed() if isinstance(source, ListingSource) else ()


class CombinedSource:
    """A :class:`~delayed_tracker.ledger.topic.topic_log.LedgerSource` over other sources, searched in order."""

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
        """Close all sources."""
        for source in self.sources:
            source.close()

    def topics(self, beside: TopicName | None = None) -> list[str]:
        """Return the full names of the topics of all sources, ascending; of one namespace if a topic of it is given."""
        return sorted({topic for source in self.sources for topic in source.topics(beside)})

    def unclaimed(self) -> Sequence[BadEntry]:
        """Return what the sources found without the name of its topic."""
        return [bad for source in self.sources for bad in unclaimed_of(source)]

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic whose ledgers come from several sources.

        The first source with metadata lists the ledgers; without metadata, all ledgers found are used. A ledger that no
        source has becomes an :class:`~delayed_tracker.ledger.topic.absent_ledger.AbsentLedger`.

        Raises:
            TopicNotFound: no source has the topic; the message is that of the first source.
            MetadataInvalid, LedgerFileInvalid: metadata of the topic or of a ledger is damaged.
            InvalidInput: not a topic name.
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
        """Return a function for each ledger of a topic, ascending, that opens it.

        A caller can skip a ledger that cannot be opened.

        Raises:
            TopicNotFound, MetadataInvalid, InvalidInput: as :meth:`topic_log`. The functions raise the other errors.
        """
        parts = self._parts(topic)
        known = _knowing(parts)
        return {ledger_id: partial(_ledger, ledger_id, parts) for ledger_id in _listed(known, parts)}

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """Return the result of a topic's compaction, from the first source that has it."""
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
    """Return the first part that has metadata, or else the first part."""
    return next((part for part in parts if part.listed is not None), parts[0])


def _listed(known: TopicParts, parts: Sequence[TopicParts]) -> tuple[int, ...]:
    if known.listed is not None:
        return known.listed
    return tuple(sorted({ledger_id for part in parts for ledger_id in (*part.whole, *part.absent)}))


def _kept(ledger: Ledger) -> Callable[[], Ledger]:
    return lambda: ledger


def _ledger(ledger_id: int, parts: Sequence[TopicParts]) -> Ledger:
    # An incomplete ledger is better than none: its missing entries are reported when it is read.
    for kept in (*(part.whole for part in parts), *(part.partial for part in parts)):
        if ledger_id in kept:
            return kept[ledger_id]()
    return next(part.absent[ledger_id] for part in parts if ledger_id in part.absent)
