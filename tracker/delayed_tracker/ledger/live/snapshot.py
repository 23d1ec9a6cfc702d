"""Metadata and entries of one cluster as of the moment when each was first looked at.

A topic rolls over, is trimmed and gets messages while it is read. A snapshot keeps what it has read of it: the list of the
topic's ledgers, the metadata of each, and the end of those that are still open. Cursors are looked at once by each reader,
and are read anew.
"""

from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import DigestMismatch, EntryMissing, LedgerUnreadable
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound, NodeMissing
from delayed_tracker.bookkeeper.metadata.ledger_store import Versioned
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries, StoredEntries
from delayed_tracker.ledger.errors import BadEntry, EntriesUnreadable, MetadataInvalid
from delayed_tracker.ledger.live.client import ClusterClient, patiently
from delayed_tracker.ledger.live.reading import DELETED, scan_ledger
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from delayed_tracker.ledger.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.ledger.metadata.managed_ledger import ManagedLedger, TopicCatalogue
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers, TopicReader
from delayed_tracker.ledger.topic_name import TopicName

_Found = Versioned | LedgerNotFound | LedgerMetadataInvalid
UNKNOWN_END: Final = "the bookies do not say how far it is confirmed"


class ClusterNodes:
    """Nodes of the metadata store below the cluster's root, read from ZooKeeper on each call: a
    :class:`~delayed_tracker.ledger.metadata.metadata_dump.MetadataSource`.

    Every call raises MetadataUnavailable if ZooKeeper does not answer.
    """

    def __init__(self, client: ClusterClient) -> None:
        self.name = client.address.text
        self._client = client

    def get(self, path: str) -> bytes | None:
        """Return the value of a node, empty bytes if it has none; None if there is no such node."""

        async def value(bookkeeper: BookKeeper) -> bytes | None:
            node = await patiently(bookkeeper, lambda: bookkeeper.zookeeper.get(self._path(path)))
            return None if node is None else node.value

        return self._client.run(value)

    def children(self, path: str) -> Sequence[str]:
        """Return the names of the nodes directly below a path, ascending; empty if there is no such node."""

        async def names(bookkeeper: BookKeeper) -> list[str]:
            try:
                return await patiently(bookkeeper, lambda: bookkeeper.zookeeper.children(self._path(path)))
            except NodeMissing:
                return []

        return self._client.run(names)

    def _path(self, path: str) -> str:
        return f"{self._client.address.root}{path}"


class LiveCatalogue(TopicCatalogue):
    """Catalogue that keeps the lists of ledgers and the ledgers' metadata that it has read.

    Ledgers are found by the layout that the cluster states, and those of a topic are asked for together.
    """

    def __init__(self, client: ClusterClient) -> None:
        super().__init__(ClusterNodes(client))
        self._client = client
        self._topics: dict[TopicName, ManagedLedger] = {}
        self._ledgers: dict[int, _Found] = {}

    def managed_ledger(self, topic: TopicName) -> ManagedLedger:
        """Return the ledgers of a topic when it was first asked for. Errors as those of :class:`TopicCatalogue`."""
        if topic not in self._topics:
            found = super().managed_ledger(topic)
            self._fetch([ledger.ledger_id for ledger in found.ledgers])
            self._topics[topic] = found
        return self._topics[topic]

    def ledger(self, ledger_id: int) -> LedgerMetadata | None:
        """Return BookKeeper's metadata of a ledger; None if it was deleted.

        Raises:
            MetadataInvalid: the stored value is damaged or of an unknown version. The message names the ledger.
        """
        found = self.versioned(ledger_id)
        return None if found is None else found.metadata

    def versioned(self, ledger_id: int) -> Versioned | None:
        """Return the metadata with the version of their node. Errors are those of :meth:`ledger`."""
        self._fetch([ledger_id])
        found = self._ledgers[ledger_id]
        match found:
            case LedgerMetadataInvalid():
                raise MetadataInvalid(found.message) from found
            case LedgerNotFound():
                return None
        return found

    def has(self, ledger_id: int) -> bool:
        """Return False if a ledger was deleted."""
        self._fetch([ledger_id])
        return not isinstance(self._ledgers[ledger_id], LedgerNotFound)

    def replace(self, ledger_id: int, newer: Versioned) -> None:
        """Keep newer metadata of a ledger."""
        self._ledgers[ledger_id] = newer

    def _fetch(self, ledger_ids: Collection[int]) -> None:
        missing = [ledger_id for ledger_id in ledger_ids if ledger_id not in self._ledgers]
        found = self._client.run_all([partial(_metadata_of, ledger_id) for ledger_id in missing]) if missing else []
        self._ledgers.update(zip(missing, found, strict=True))


class LiveLogs:
    """Entries of ledgers by their ids: a :class:`~delayed_tracker.ledger.topic.ledger_logs.LedgerLogs` over bookies."""

    damage: tuple[BadEntry, ...] = ()
    """Nothing: bookies say of each entry whether they have it."""

    def __init__(self, client: ClusterClient, catalogue: LiveCatalogue) -> None:
        self._client = client
        self._catalogue = catalogue
        self._confirmed: dict[int, int] = {}

    def last_add_confirmed(self, ledger_id: int, digest: LedgerDigest) -> int:  # noqa: ARG002  the metadata have it
        """Return the last entry that is confirmed, when it was first asked for; the last one if it was closed meanwhile.

        Raises:
            EntriesUnreadable: too few of the ledger's bookies answer.
        """
        if ledger_id not in self._confirmed:
            self._confirmed[ledger_id] = self._end_of(ledger_id, _confirmed_end)
        return self._confirmed[ledger_id]

    def last_contiguous_entry(self, ledger_id: int, after: int) -> int:
        """Return the last entry that a bookie has stored, confirmed or not, at least ``after``.

        Raises:
            EntriesUnreadable: too few of the ledger's bookies answer, or the last entry is lost or damaged in all copies.
        """
        return max(after, self._end_of(ledger_id, _stored_end))

    def read(self, ledger_id: int, first: int, last: int, digest: LedgerDigest) -> LedgerEntries:
        """Read entries ``first`` to ``last`` of a ledger, both included, at once."""
        pieces = list(self.scan(ledger_id, first, last, digest))
        entries = StoredEntries.concat([piece.entries for piece in pieces])
        return LedgerEntries(entries, tuple(bad for piece in pieces for bad in piece.bad_entries))

    def scan(
        self,
        ledger_id: int,
        first: int,
        last: int,
        digest: LedgerDigest,  # noqa: ARG002
    ) -> Iterator[LedgerEntries]:
        """Read the same range in pieces of about 4 MB, each of at least one entry. Uses memory for one piece."""
        known = self._catalogue.versioned(ledger_id) if first <= last else None
        if known is not None:
            yield from scan_ledger(self._client, known, first, last)
        elif first <= last:
            lost = BadEntry(ledger_id, first, None, None, DELETED, entry_count=last - first + 1)
            yield LedgerEntries(StoredEntries.of(ledger_id, [], []), (lost,))

    def locate(self, ledger_id: int, entry_id: int) -> tuple[Path, int] | None:  # noqa: ARG002
        """Return None: entries of bookies have no place in a file here."""
        return None

    def close(self) -> None:
        """Do nothing: the connection belongs to the source."""

    def _end_of(self, ledger_id: int, end: "_End") -> int:
        known = self._catalogue.versioned(ledger_id)
        if known is None:
            return -1
        try:
            newer, last = self._client.run(lambda bookkeeper: end(bookkeeper, known))
        except (LedgerUnreadable, EntryMissing, DigestMismatch) as error:
            raise EntriesUnreadable(
                [BadEntry(ledger_id, None, None, None, f"{UNKNOWN_END}: {error.message}")]
            ) from error
        except LedgerNotFound as error:
            raise EntriesUnreadable([BadEntry(ledger_id, None, None, None, DELETED)]) from error
        self._catalogue.replace(ledger_id, newer)
        return last


class ClusterSnapshot:
    """Catalogue, logs and the reader over both."""

    def __init__(self, client: ClusterClient) -> None:
        self.catalogue = LiveCatalogue(client)
        self.logs = LiveLogs(client, self.catalogue)

    def reader(self) -> TopicReader:
        """Return a reader of topics up to the last confirmed entry, and of cursors up to the last stored one."""
        return TopicReader(self.catalogue, self.logs, OpenLedgers.LIVE, open_cursors=OpenLedgers.RECOVERED)


_End = Callable[[BookKeeper, Versioned], Coroutine[Any, Any, tuple[Versioned, int]]]
"""Returns the newest metadata of a ledger, and an end of it."""


async def _metadata_of(ledger_id: int, bookkeeper: BookKeeper) -> _Found:
    try:
        return await patiently(bookkeeper, lambda: bookkeeper.versioned(ledger_id))
    except (LedgerNotFound, LedgerMetadataInvalid) as error:
        return error


async def _confirmed_end(bookkeeper: BookKeeper, known: Versioned) -> tuple[Versioned, int]:
    reader = bookkeeper.reader(known)
    last = await patiently(bookkeeper, reader.read_lac)
    return reader.current, last


async def _stored_end(bookkeeper: BookKeeper, known: Versioned) -> tuple[Versioned, int]:
    reader = bookkeeper.reader(known)
    last = await patiently(bookkeeper, reader.read_last_stored)
    return reader.current, -1 if last is None else last.entry_id
