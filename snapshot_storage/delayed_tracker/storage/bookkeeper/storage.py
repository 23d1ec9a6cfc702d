"""The storage over BookKeeper: snapshots are closed ledgers, catalogues are documents, and many processes may share it.

The bucket id is the ledger id, as PIP-195 has it. A ledger says in its custom metadata where it is registered, so that an
id is all that is needed to read or delete it.

Source: PIP-195, "BucketSnapshotStorage"; custom metadata as in Pulsar's ``BookkeeperBucketSnapshotStorage``.
"""

import random
from collections import OrderedDict
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import AsyncExitStack
from typing import Final

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.errors import NodeExists
from delayed_tracker.storage.bookkeeper.connecting import Connect, client_of
from delayed_tracker.storage.bookkeeper.documents import DOCUMENT_BYTES_MAX, LedgerBlobs, ZooKeeperDocuments
from delayed_tracker.storage.bookkeeper.ledgers import TrackerLedgers, unavailable
from delayed_tracker.storage.bookkeeper.registrations import SNAPSHOT, TRACKERS, Registration, folder_of
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.capabilities import ClusterReport, SnapshotPlaces
from delayed_tracker.storage.errors import StorageFormatUnsupported, StorageInUse
from delayed_tracker.storage.protocol import StoredSnapshot, require_entry_range
from delayed_tracker.storage.shared.catalogue import SharedCatalogue
from delayed_tracker.storage.shared.document_store import DocumentStore
from delayed_tracker.storage.shared.names import places_of
from delayed_tracker.storage.shared.storage import SharedStorage

FORMAT: Final = b"delayed-tracker bookkeeper 1\n"
LISTED_MAX: Final = 10_000
"""Registrations of listings that are kept, so that one whose ledger is gone can be deleted; and ids of deleted ones."""


class BookKeeperStorage(SharedStorage):
    """Snapshots in ledgers, catalogues in ZooKeeper.

    Args:
        url: where.
        document_bytes_max: documents that are larger keep their rows in a ledger.
        chance: source of ids; those of two processes must differ.
        connect: makes the client.
    """

    def __init__(
        self,
        url: BookKeeperUrl,
        *,
        document_bytes_max: int = DOCUMENT_BYTES_MAX,
        chance: random.Random | None = None,
        connect: Connect = client_of,
    ) -> None:
        self._url = url
        self._document_bytes_max = document_bytes_max
        self._chance = chance or random.SystemRandom()
        self._instance = self._chance.getrandbits(64)
        self._connect = connect
        self._parts = AsyncExitStack()
        self._client: BookKeeper | None = None
        self._ledgers: TrackerLedgers | None = None
        self._listed: OrderedDict[int, Registration] = OrderedDict()
        self._deleted: OrderedDict[int, None] = OrderedDict()

    async def start(self) -> None:
        """Connect to ZooKeeper, and verify that the root has this format or nothing. Bookies are connected when needed."""
        if self._catalogue is not None:
            raise StorageInUse("this storage is started already; close it first, or open another one")
        async with AsyncExitStack() as parts:
            with unavailable():
                client = await parts.enter_async_context(self._connect(self._url))
                await self._require_format(client)
            self._parts = parts.pop_all()
        self._client = client
        documents, self._ledgers = self._stores(client)
        self._catalogue = SharedCatalogue(documents, LedgerBlobs(self._ledgers), chance=self._chance)

    def _stores(self, client: BookKeeper) -> tuple[DocumentStore, TrackerLedgers]:
        """Return the stores of documents and of ledgers. Tests put faults before them."""
        documents = ZooKeeperDocuments(client.zookeeper, self._url.root, max_bytes=self._document_bytes_max)
        return documents, TrackerLedgers(client, self._url, self._instance)

    async def _require_format(self, client: BookKeeper) -> None:
        node = f"{self._url.root}/format"
        await client.zookeeper.ensure(self._url.root)
        try:
            await client.zookeeper.create(node, FORMAT)
        except NodeExists:
            await client.zookeeper.sync(node)
            found = await client.zookeeper.get(node)
            if found is not None and found.value != FORMAT:
                raise StorageFormatUnsupported(
                    f"the node {node} has {found.value[:60]!r} instead of {FORMAT!r}: another program's, or a newer "
                    "version's; use that one, or give another root"
                ) from None

    @property
    def entry_bytes_max(self) -> int | None:
        """Largest entry that fits into a bookie's frame; None while the storage is closed."""
        return None if self._catalogue is None or self._ledgers is None else self._ledgers.entry_bytes_max

    async def close(self) -> None:
        """Finish the accepted operations and end the connections."""
        catalogue, self._catalogue = self._catalogue, None
        if catalogue is not None:
            await catalogue.finish()
            self._client = None
            await self._parts.aclose()

    def cluster_report(self) -> ClusterReport | None:
        """Return the state of the client, which the add log has, too; None unless the storage is open."""
        client = self._client
        if client is None:
            return None
        zookeeper = client.zookeeper
        return ClusterReport(client.stats(), zookeeper.hosts, zookeeper.connected, zookeeper.session_count)

    async def create_bucket_snapshot(
        self,
        metadata: bytes,
        segments: AsyncIterable[bytes],
        *,
        bucket_key: str,
        topic: str,
        cursor: str,
        epoch: int,
    ) -> int:
        """Store a snapshot as one ledger, with the custom metadata that Pulsar gives it."""
        custom = {
            "application": b"pulsar",
            "component": b"delayed-index-bucket",
            "pulsar/delayedIndexBucketKey": bucket_key.encode(),
            "pulsar/delayedIndexTopic": topic.encode(),
            "pulsar/delayedIndexCursor": cursor.encode(),
        }
        made = await self._opened_ledgers().create(
            folder_of(topic, cursor), epoch, SNAPSHOT, custom, _entries(metadata, segments)
        )
        return made.ledger_id

    async def get_bucket_snapshot_metadata(self, bucket_id: int) -> bytes:
        """Return entry 0, verified."""
        return (await self._opened_ledgers().read(bucket_id, 0, 0))[0]

    async def get_bucket_snapshot_segments(self, bucket_id: int, first: int, last: int) -> list[bytes]:
        """Return entries ``first`` to ``last``, both inclusive, verified."""
        require_entry_range(first, last)
        return await self._opened_ledgers().read(bucket_id, first, last)

    async def get_bucket_snapshot_length(self, bucket_id: int) -> int:
        """Return the payload bytes of all entries, from the ledger's metadata."""
        return await self._opened_ledgers().payload_bytes(bucket_id)

    async def delete_bucket_snapshot(self, bucket_id: int) -> None:
        """Delete the ledger if it exists and is one of this root."""
        ledgers = self._opened_ledgers()
        registration = self._listed.pop(bucket_id, None) or await ledgers.find(bucket_id)
        if registration is not None:
            await ledgers.delete(registration)
        self._deleted[bucket_id] = None
        while len(self._deleted) > LISTED_MAX:
            self._deleted.popitem(last=False)

    async def list_bucket_snapshots(self, topic: str, cursor: str) -> list[StoredSnapshot]:
        """Return every finished snapshot of the tracker, ascending by bucket id."""
        found = [
            registration
            for registration in await self._opened_ledgers().registered(folder_of(topic, cursor))
            if registration.kind == SNAPSHOT and registration.closed and registration.ledger_id not in self._deleted
        ]
        for registration in found:
            self._listed[registration.ledger_id] = registration
        while len(self._listed) > LISTED_MAX:
            self._listed.popitem(last=False)
        return sorted(
            (StoredSnapshot(registration.ledger_id, registration.epoch) for registration in found),
            key=lambda stored: stored.bucket_id,
        )

    async def snapshot_places(self) -> SnapshotPlaces:
        """Return the trackers that have finished snapshots, by their registrations: a request for each tracker."""
        ledgers = self._opened_ledgers()
        paths = [
            folder.removeprefix(f"{TRACKERS}/")
            for folder in await ledgers.folders()
            if any(found.kind == SNAPSHOT and found.closed for found in await ledgers.registered(folder))
        ]
        return places_of(paths, await self.trackers())

    def _opened_ledgers(self) -> TrackerLedgers:
        self._opened()
        assert self._ledgers is not None
        return self._ledgers


async def _entries(metadata: bytes, segments: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield metadata
    async for segment in segments:
        yield segment
