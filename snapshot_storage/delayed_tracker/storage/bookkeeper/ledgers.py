"""Creates, reads and deletes the ledgers of trackers. Ledgers without our custom metadata are never read or deleted."""

import asyncio
import contextlib
from collections.abc import AsyncIterable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import (
    BookKeeperError,
    DigestMismatch,
    EntryMissing,
    EntryTooLarge,
    NotOurs,
)
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound, NodeMissing
from delayed_tracker.bookkeeper.metadata.zookeeper import Create, Delete
from delayed_tracker.bookkeeper.reading.reader import LedgerReader
from delayed_tracker.bookkeeper.writing.streaming import add_stream
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from delayed_tracker.storage.bookkeeper.connecting import create_ledger
from delayed_tracker.storage.bookkeeper.kept_readers import KeptReaders
from delayed_tracker.storage.bookkeeper.registrations import TRACKERS, Registration
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, SnapshotTooLarge, StorageUnavailable


@contextlib.contextmanager
def unavailable() -> Iterator[None]:
    """Turn errors of the client into those of a storage."""
    try:
        yield
    except (LedgerNotFound, NotOurs) as error:
        raise SnapshotNotFound(error.message) from error
    except (DigestMismatch, EntryMissing, LedgerMetadataInvalid) as error:
        raise SnapshotCorrupt(error.message) from error
    except EntryTooLarge as error:
        raise SnapshotTooLarge(error.message) from error
    except BookKeeperError as error:
        raise StorageUnavailable(error.message) from error


class TrackerLedgers:
    """Ledgers of one root.

    Args:
        client: started and closed by the caller.
        url: root, ensemble, quorums and digest of new ledgers.
        instance: number of this process, from 0 to 2^64 - 1.
    """

    def __init__(self, client: BookKeeper, url: BookKeeperUrl, instance: int) -> None:
        self._client = client
        self._url = url
        self._instance = instance
        self._readers = KeptReaders()

    @property
    def entry_bytes_max(self) -> int:
        """Largest entry that bookies take."""
        return self._client.payload_bytes_max

    async def create(
        self,
        folder: str,
        epoch: int,
        kind: str,
        custom: Mapping[str, bytes],
        entries: AsyncIterable[bytes],
    ) -> Registration:
        """Store a ledger durably. On any error or cancellation it is deleted again.

        Args:
            folder: of the tracker.
            epoch: of the tracker.
            kind: of the ledger.
            custom: custom metadata besides ours.
            entries: consumed once; the first is acknowledged before the others are sent, which are sent one after the
                other without waiting.
        Raises:
            SnapshotTooLarge: an entry is larger than bookies take.
            StorageUnavailable: ZooKeeper or too many bookies do not answer.
        """
        with unavailable():
            writer = await self._open_writer(Registration(folder, 0, epoch, kind, self._instance), custom)
            registration = Registration(folder, writer.ledger_id, epoch, kind, self._instance)
            finished = False
            try:
                await add_stream(writer, entries)
                opened, closed = registration.open_node(self._url.root), registration.closed_node(self._url.root)
                await writer.close([Delete(opened), Create(closed)])
                finished = True
            finally:
                if not finished:
                    await asyncio.shield(self._discard(registration))
        return registration

    async def _open_writer(self, registration: Registration, custom: Mapping[str, bytes]) -> LedgerWriter:
        """Create a ledger, registered as this registration says but for the id, which is drawn here."""
        root = self._url.root
        opened = partial(
            create_ledger,
            self._client,
            self._url,
            {**custom, **registration.custom(root)},
            lambda ledger_id: replace(registration, ledger_id=ledger_id).open_node(root),
        )
        folder = f"{root}/{registration.folder}"
        try:
            return await opened()
        except NodeMissing as error:
            if not error.path.startswith(f"{folder}/"):
                raise
            await self._client.zookeeper.ensure(folder)
            return await opened()

    async def _discard(self, registration: Registration) -> None:
        """Delete what was created in part. What cannot be deleted now is swept at a later epoch."""
        with contextlib.suppress(StorageUnavailable):
            await self.delete(registration)

    async def read(self, ledger_id: int, first: int, last: int) -> list[bytes]:
        """Return the payloads of entries ``first`` to ``last``, both inclusive, verified.

        Raises:
            SnapshotNotFound: there is no such ledger of this root, it was not finished, or it has fewer entries.
            SnapshotCorrupt: an entry is damaged or missing in all its copies.
            StorageUnavailable: the bookies that have it do not answer.
        """
        reader = await self._reader(ledger_id)
        if last > reader.metadata.last_entry_id:
            raise SnapshotNotFound(f"ledger {ledger_id} has {reader.metadata.last_entry_id} segments, not {last}")
        with unavailable():
            return [bytes(entry.payload) for entry in await reader.read(first, last)]

    async def read_all(self, ledger_id: int) -> list[bytes]:
        """Return the payloads of all entries, as :meth:`read` does."""
        reader = await self._reader(ledger_id)
        if reader.metadata.last_entry_id < 0:
            return []
        return await self.read(ledger_id, 0, reader.metadata.last_entry_id)

    async def payload_bytes(self, ledger_id: int) -> int:
        """Return the payload bytes of all entries. Raises SnapshotNotFound."""
        return (await self._reader(ledger_id)).metadata.payload_bytes

    async def _reader(self, ledger_id: int) -> LedgerReader:
        """Return a reader of a finished ledger of this root."""
        if ledger_id < 0:
            raise SnapshotNotFound(f"there is no ledger {ledger_id}")
        reader = self._readers.get(ledger_id)
        if reader is None:
            with unavailable():
                reader = await self._client.open(ledger_id)
            if Registration.of_ledger(self._url.root, ledger_id, reader.metadata.custom) is None:
                raise SnapshotNotFound(f"ledger {ledger_id} is not one of {self._url.root}")
            if not reader.metadata.closed:
                raise SnapshotNotFound(f"ledger {ledger_id} was not finished")
            self._readers.keep(ledger_id, reader)
        return reader

    async def delete(self, registration: Registration) -> None:
        """Delete a ledger of ours and its registration, finished or not, if they exist."""
        self._readers.drop(registration.ledger_id)
        with unavailable():
            root = self._url.root
            for node in (registration.closed_node(root), registration.open_node(root)):
                with contextlib.suppress(NodeMissing):
                    if await self._client.delete(
                        registration.ledger_id, require=registration.custom(root), also=[Delete(node)]
                    ):
                        return
                    # Somebody else has deleted the ledger, or this process before a crash.
                    await self._client.zookeeper.delete(node)

    async def find(self, ledger_id: int) -> Registration | None:
        """Return the registration of a ledger by its metadata; None if it is none of this root."""
        if ledger_id < 0:
            return None
        with unavailable():
            try:
                metadata = await self._client.metadata(ledger_id)
            except LedgerNotFound:
                return None
        return Registration.of_ledger(self._url.root, ledger_id, metadata.custom)

    async def registered(self, folder: str) -> list[Registration]:
        """Return the ledgers of a tracker, finished or not, in any order."""
        with unavailable():
            try:
                names = await self._client.zookeeper.children(f"{self._url.root}/{folder}")
            except NodeMissing:
                return []
        return [found for name in names if (found := Registration.parse(folder, name)) is not None]

    async def folders(self) -> list[str]:
        """Return the folders of all trackers that have, or had, ledgers."""
        with unavailable():
            found = []
            for group in await self._children(TRACKERS):
                found += [f"{TRACKERS}/{group}/{name}" for name in await self._children(f"{TRACKERS}/{group}")]
        return found

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._client.zookeeper.children(f"{self._url.root}/{path}")
        except NodeMissing:
            return []
