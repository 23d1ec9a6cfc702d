"""Tiered storage of any driver as a source of topics, with the cluster's metadata or without it.

Metadata contains the ledgers of a topic, and which of several copies is whole. Without metadata, the topics are those
that are named in the storage, with the ledgers that are there. If a ledger is missing, or if it is not known which of
its copies is whole, the source lists it as a ledger whose entries are missing.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self
from uuid import UUID

from delayed_tracker.ledger.errors import BadEntry, LedgerFileInvalid, TopicNotFound
from delayed_tracker.ledger.metadata.managed_ledger import TopicCatalogue, TopicLedger
from delayed_tracker.ledger.topic.absent_ledger import AbsentLedger
from delayed_tracker.ledger.topic.topic_log import CompactedLog, Ledger, TopicLog, TopicParts
from delayed_tracker.ledger.topic_name import TopicName, similar_names

_BOOKIES: Final = "give the bookies' disks together with it"


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """Copy of a ledger, as named in the storage."""

    ledger_id: int
    uuids: tuple[UUID, ...]
    """Id of the copy, or the ids of its parts in order."""
    problem: str | None = None
    """Reason why the ledger cannot be read, or why the whole copy is not known; None if there is no problem."""
    remedy: str | None = None
    """Advice to the user about the problem."""


class LedgerStore(Protocol):
    """Storage in which one driver keeps its copies."""

    @property
    def name(self) -> str:
        """Name of the storage, for messages."""

    def find(self) -> Mapping[TopicName, Sequence[FoundLedger]]:
        """Return all copies of topics' ledgers, and read as much as that takes.

        Raises:
            LedgerFileInvalid: an object or file is damaged.
        """

    def has(self, topic: TopicName, ledger_id: int, uuids: Sequence[UUID]) -> bool:
        """Return True if all parts of a copy exist."""

    def open(self, topic: TopicName, ledger_id: int, uuids: Sequence[UUID], *, entry_count: int | None) -> Ledger:
        """Open a ledger from its copy.

        Args:
            topic: the topic of the ledger.
            ledger_id: BookKeeper's id of the ledger.
            uuids: the ids of the copy's parts, in order.
            entry_count: the number in the topic's metadata, if there is any.
        Raises:
            LedgerFileInvalid: the copy is damaged or missing.
        """

    @property
    def unclaimed(self) -> Sequence[BadEntry]:
        """Objects whose topic :meth:`find` could not determine."""

    def close(self) -> None:
        """Release the resources of the storage."""


class OffloadSource:
    """A :class:`~delayed_tracker.ledger.topic.topic_log.LedgerSource` over the copies of one driver."""

    def __init__(self, store: LedgerStore, catalogue: TopicCatalogue | None = None) -> None:
        self.store = store
        self.catalogue = catalogue
        self._found: Mapping[TopicName, Sequence[FoundLedger]] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the resources of the storage."""
        self.store.close()

    def topics(self, beside: TopicName | None = None) -> list[str]:
        """Return the full names of topics that have ledgers here, ascending: all, or those of one namespace."""
        if self.catalogue is None:
            return [str(topic) for topic in sorted(self._find()) if beside is None or topic.is_beside(beside)]
        return [
            str(topic)
            for topic in self.catalogue.topics(beside)
            if any(ledger.offload_uuids for ledger in self.catalogue.managed_ledger(topic).ledgers)
        ]

    def unclaimed(self) -> Sequence[BadEntry]:
        """Return objects that may belong to any topic.

        With metadata there are none, because it states which objects belong to a topic.

        Raises: as :meth:`topics`.
        """
        if self.catalogue is None:
            self._find()
        return self.store.unclaimed

    def topic_log(self, topic: str) -> TopicLog:
        """Return a topic and its ledgers.

        A ledger that was not offloaded, or whose copy is not here, is an :class:`AbsentLedger`.

        Raises:
            TopicNotFound: the topic does not exist; the message lists similar names.
            LedgerFileInvalid: a copy is damaged.
            MetadataInvalid: metadata of the topic is damaged.
            InvalidInput: ``topic`` is not a topic name.
        Cost: O(ledgers of the topic), each with one or two small reads.
        """
        parts = self.topic_parts(topic)
        return TopicLog(
            parts.name,
            tuple(
                parts.whole[ledger_id]() if ledger_id in parts.whole else parts.absent[ledger_id]
                for ledger_id in sorted((*parts.whole, *parts.absent))
            ),
            properties=parts.properties,
            terminated_at=parts.terminated_at,
        )

    def topic_parts(self, topic: str) -> TopicParts:
        """Return the part of a topic that is here; the rest is read from other sources.

        Raises: as :meth:`topic_log`; LedgerFileInvalid is raised only when a ledger is opened.
        """
        if self.catalogue is None:
            name = TopicName.parse(topic)
            return self._found_parts(name)
        name = self.catalogue.topic(topic)
        stored = self.catalogue.managed_ledger(name)
        whole = {
            ledger.ledger_id: self._opener(name, ledger)
            for ledger in stored.ledgers
            if ledger.offload_uuids and self.store.has(name, ledger.ledger_id, ledger.offload_uuids)
        }
        return TopicParts(
            name,
            tuple(ledger.ledger_id for ledger in stored.ledgers),
            whole,
            absent={
                ledger.ledger_id: self._absent(ledger) for ledger in stored.ledgers if ledger.ledger_id not in whole
            },
            properties=stored.properties,
            terminated_at=stored.terminated_at,
        )

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """Return None: compacted ledgers are not offloaded.

        Raises: as :meth:`topic_parts`.
        """
        self.topic_parts(topic)
        return None

    def _opener(self, name: TopicName, ledger: TopicLedger) -> Callable[[], Ledger]:
        def open_ledger() -> Ledger:
            opened = self.store.open(name, ledger.ledger_id, ledger.offload_uuids, entry_count=ledger.entry_count)
            if ledger.entry_count not in {None, opened.last_entry_id + 1}:
                raise LedgerFileInvalid(
                    f"{self.store.name}: the copy of ledger {ledger.ledger_id} has {opened.last_entry_id + 1} entries, "
                    f"the metadata of {name} says {ledger.entry_count}; give the metadata that belongs to it"
                )
            return opened

        return open_ledger

    def _absent(self, ledger: TopicLedger) -> AbsentLedger:
        lacks = "does not have the copy that the metadata names" if ledger.offload_uuids else "has no copy of it"
        return AbsentLedger(ledger.ledger_id, ledger.entry_count, f"{self.store.name} {lacks}", _BOOKIES)

    def _found_parts(self, name: TopicName) -> TopicParts:
        found = self._find()
        if name not in found:
            near = similar_names(name, map(str, found))
            hint = f"similar names: {', '.join(near)}" if near else f"it has {len(found)} topics"
            raise TopicNotFound(f"{self.store.name} has no topic {name}; {hint}", metadata={"topic": str(name)})
        whole = {copy.ledger_id: self._copy_opener(name, copy) for copy in found[name] if copy.problem is None}
        absent = {
            copy.ledger_id: AbsentLedger(copy.ledger_id, None, copy.problem, copy.remedy)
            for copy in found[name]
            if copy.problem is not None
        }
        return TopicParts(name, None, whole, absent=absent)

    def _copy_opener(self, name: TopicName, copy: FoundLedger) -> Callable[[], Ledger]:
        return lambda: self.store.open(name, copy.ledger_id, copy.uuids, entry_count=None)

    def _find(self) -> Mapping[TopicName, Sequence[FoundLedger]]:
        """Return the ledgers in the storage; they are searched once."""
        if self._found is None:
            self._found = self.store.find()
        return self._found
