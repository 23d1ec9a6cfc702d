"""Tiered storage as a source of topics, whatever the driver: with the cluster's metadata, or from what is found there.

Metadata says which ledgers a topic has, and which of several copies is the whole one. Without it, the topics are those
that are named in the storage, with the ledgers that are there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from types import TracebackType
from typing import Protocol, Self
from uuid import UUID

from tracker.ledger.errors import LedgerFileInvalid, LedgerNotFound, TopicNotFound
from tracker.ledger.managed_ledger import TopicCatalogue, TopicLedger
from tracker.ledger.topic_log import CompactedLog, Ledger, TopicLog, TopicParts
from tracker.ledger.topic_name import TopicName


@dataclass(frozen=True, slots=True)
class FoundLedger:
    """A copy of a ledger, as the storage itself names it."""

    ledger_id: int
    uuids: tuple[UUID, ...]
    """One, or those of its parts in order."""


class LedgerStore(Protocol):
    """Where one driver keeps its copies."""

    @property
    def name(self) -> str:
        """What to call it in messages."""

    def find(self) -> Mapping[TopicName, Sequence[FoundLedger]]:
        """All copies of topics' ledgers. Reads what must be read to tell.

        Raises:
            LedgerFileInvalid: something there is damaged.
        """

    def has(self, topic: TopicName, ledger_id: int, uuids: Sequence[UUID]) -> bool:
        """Whether all parts of a copy are there."""

    def open(self, topic: TopicName, ledger_id: int, uuids: Sequence[UUID], *, entry_count: int | None) -> Ledger:
        """A ledger from its copy.

        Args:
            topic: whose it is.
            ledger_id: of BookKeeper.
            uuids: of the copy's parts, in order.
            entry_count: what the topic's metadata says, if there is any.
        Raises:
            LedgerFileInvalid: the copy is damaged, or not there.
        """

    def close(self) -> None:
        """Release what is held."""


class OffloadSource:
    """A :class:`~tracker.ledger.topic_log.LedgerSource` over the copies of one driver."""

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
        """Release what the store holds."""
        self.store.close()

    def topics(self) -> list[str]:
        """Full names of all topics that have ledgers here, ascending."""
        if self.catalogue is None:
            return [str(topic) for topic in sorted(self._find())]
        return [
            str(topic)
            for topic in self.catalogue.topics()
            if any(ledger.offload_uuids for ledger in self.catalogue.managed_ledger(topic).ledgers)
        ]

    def topic_log(self, topic: str) -> TopicLog:
        """A topic and its ledgers.

        Raises:
            TopicNotFound: there is no such topic; the message lists near names.
            LedgerNotFound: the metadata lists a ledger that was not offloaded, or is not here.
            LedgerFileInvalid: a copy is damaged.
            MetadataInvalid: metadata of the topic is damaged.
            InvalidInput: no topic name.
        Cost: O(ledgers of the topic), each with a small read or two.
        """
        parts = self.topic_parts(topic)
        listed = tuple(parts.whole) if parts.listed is None else parts.listed
        missing = [ledger_id for ledger_id in listed if ledger_id not in parts.whole]
        if missing:
            error = LedgerNotFound.of(f"{self.store.name}, for {parts.name},", missing[0], sorted(parts.whole))
            raise LedgerNotFound(
                f"{error.message}; give the bookies' disks together with it, or leave out metadata= to read what is there",
                metadata=error.metadata,
            )
        return TopicLog(
            parts.name,
            tuple(parts.whole[ledger_id]() for ledger_id in listed),
            properties=parts.properties,
            terminated_at=parts.terminated_at,
        )

    def topic_parts(self, topic: str) -> TopicParts:
        """What is here of a topic, for reading the rest from other sources.

        Raises: as :meth:`topic_log`, save LedgerNotFound; opening a ledger raises LedgerFileInvalid.
        """
        if self.catalogue is None:
            name = TopicName.parse(topic)
            return TopicParts(name, None, self._copies_of(name))
        name = self.catalogue.topic(topic)
        stored = self.catalogue.managed_ledger(name)
        whole = {
            ledger.ledger_id: self._opener(name, ledger)
            for ledger in stored.ledgers
            if ledger.offload_uuids and self.store.has(name, ledger.ledger_id, ledger.offload_uuids)
        }
        listed = tuple(ledger.ledger_id for ledger in stored.ledgers)
        return TopicParts(name, listed, whole, properties=stored.properties, terminated_at=stored.terminated_at)

    def compacted_log(self, topic: str) -> CompactedLog | None:
        """None: compacted ledgers are not offloaded.

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

    def _copies_of(self, name: TopicName) -> Mapping[int, Callable[[], Ledger]]:
        found = self._find()
        if name not in found:
            known = [str(topic) for topic in sorted(found)]
            near = ", ".join(get_close_matches(str(name), known, n=5, cutoff=0))
            raise TopicNotFound(
                f"{self.store.name} has no topic {name}; near names: {near}", metadata={"topic": str(name)}
            )
        return {copy.ledger_id: self._copy_opener(name, copy) for copy in found[name]}

    def _copy_opener(self, name: TopicName, copy: FoundLedger) -> Callable[[], Ledger]:
        return lambda: self.store.open(name, copy.ledger_id, copy.uuids, entry_count=None)

    def _find(self) -> Mapping[TopicName, Sequence[FoundLedger]]:
        """What is there, looked up once."""
        if self._found is None:
            self._found = self.store.find()
        return self._found
