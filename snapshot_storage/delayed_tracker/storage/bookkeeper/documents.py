"""The two stores of a shared catalogue over BookKeeper: documents are nodes of ZooKeeper, blobs are ledgers."""

import asyncio
from collections.abc import AsyncIterator
from struct import Struct
from typing import Final

from delayed_tracker.bookkeeper.metadata.errors import NodeChanged, NodeExists, NodeMissing
from delayed_tracker.bookkeeper.metadata.zookeeper import ZooKeeperClient
from delayed_tracker.storage.bookkeeper.ledgers import TrackerLedgers, unavailable
from delayed_tracker.storage.bookkeeper.registrations import BLOB, Registration, folder_of
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.shared.document_store import Stale, StoredBlob, StoredDocument

DOCUMENT_BYTES_MAX: Final = 256 * 1024
"""ZooKeeper keeps all nodes in memory, and takes requests of 1 MiB at most."""
LISTINGS_AT_ONCE_MAX: Final = 16
BLOB_ENTRY_BYTES: Final = 1024 * 1024

_POINTER: Final = Struct("<qqQ1s")


class ZooKeeperDocuments:
    """Documents as nodes, which ZooKeeper replaces by version.

    Args:
        zookeeper: session that is started.
        root: path of the node above all documents, which exists.
    """

    def __init__(self, zookeeper: ZooKeeperClient, root: str, *, max_bytes: int = DOCUMENT_BYTES_MAX) -> None:
        self._zookeeper = zookeeper
        self._root = root
        self.max_bytes: Final = max_bytes
        self.min_interval_s: Final = 0.0

    async def read(self, name: str) -> StoredDocument | None:
        """Return the newest content, of any process."""
        path = f"{self._root}/{name}"
        with unavailable():
            await self._zookeeper.sync(path)
            node = await self._zookeeper.get(path)
        return None if node is None else StoredDocument(node.value, str(node.version))

    async def write(self, name: str, content: bytes, expected: str | None) -> str:
        """Replace the document if it has the expected version."""
        path = f"{self._root}/{name}"
        with unavailable():
            try:
                if expected is not None:
                    return str(await self._zookeeper.set(path, content, int(expected)))
                try:
                    await self._zookeeper.create(path, content)
                except NodeMissing:
                    await self._zookeeper.ensure(path.rpartition("/")[0])
                    await self._zookeeper.create(path, content)
            except (NodeChanged, NodeExists, NodeMissing) as error:
                raise Stale(f"the node {path} is not at version {expected}; read it again") from error
        return "0"

    async def listing(self, folder: str) -> dict[str, str]:
        """Return the names in a folder, which has one level of folders. ZooKeeper lists no versions."""
        slots = asyncio.Semaphore(LISTINGS_AT_ONCE_MAX)

        async def inside(middle: str) -> list[str]:
            async with slots:
                return [f"{folder}/{middle}/{name}" for name in await self._children(f"{folder}/{middle}")]

        middles = await self._children(folder)
        return {name: "" for names in await asyncio.gather(*map(inside, middles)) for name in names}

    async def _children(self, name: str) -> list[str]:
        with unavailable():
            try:
                return await self._zookeeper.children(f"{self._root}/{name}")
            except NodeMissing:
                return []


class LedgerBlobs:
    """Blobs as ledgers beside the snapshots of their tracker. Their pointers are ledger id, epoch and instance.

    What a crash left of a snapshot that was being created is listed among the blobs, so that it goes with them.
    """

    def __init__(self, ledgers: TrackerLedgers) -> None:
        self._ledgers = ledgers

    async def put(self, topic: str, cursor: str, epoch: int, content: bytes) -> bytes:
        """Store a blob as a new ledger."""
        made = await self._ledgers.create(folder_of(topic, cursor), epoch, BLOB, {}, _entries(content))
        return _pointer(made)

    async def get(self, topic: str, cursor: str, pointer: bytes) -> bytes:
        """Return a blob. One whose entries are lost or damaged in all their copies is gone as a deleted one is."""
        registration = _registration(topic, cursor, pointer)
        try:
            return b"".join(await self._ledgers.read_all(registration.ledger_id))
        except SnapshotCorrupt as error:
            raise SnapshotNotFound(error.message) from error

    async def delete(self, topic: str, cursor: str, pointer: bytes) -> None:
        """Delete a blob if it exists."""
        await self._ledgers.delete(_registration(topic, cursor, pointer))

    async def blobs(self, topic: str, cursor: str) -> list[StoredBlob]:
        """Return the blobs of a tracker, and what was not finished."""
        found = await self._ledgers.registered(folder_of(topic, cursor))
        return [
            StoredBlob(_pointer(registration), registration.epoch)
            for registration in found
            if registration.kind == BLOB or not registration.closed
        ]


async def _entries(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), BLOB_ENTRY_BYTES):
        yield content[start : start + BLOB_ENTRY_BYTES]


def _pointer(made: Registration) -> bytes:
    return _POINTER.pack(made.ledger_id, made.epoch, made.instance, made.kind.encode())


def _registration(topic: str, cursor: str, pointer: bytes) -> Registration:
    if len(pointer) != _POINTER.size:
        raise SnapshotCorrupt(
            f"a catalogue of {topic!r}, {cursor!r} names a blob of another kind of storage; copy it with its storage"
        )
    ledger_id, epoch, instance, kind = _POINTER.unpack(pointer)
    return Registration(folder_of(topic, cursor), ledger_id, epoch, kind.decode("latin-1"), instance)
