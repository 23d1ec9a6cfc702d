"""Writes one ledger that this client has created."""

import asyncio
from collections.abc import Sequence
from typing import Final

from delayed_tracker.bookkeeper.errors import (
    BookKeeperError,
    ClientClosed,
    EntryTooLarge,
    LedgerClosed,
    LedgerFenced,
    NotEnoughBookies,
    TooManyInFlight,
)
from delayed_tracker.bookkeeper.metadata.errors import MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.metadata.zookeeper import Operation
from delayed_tracker.bookkeeper.placement.bookies import Bookies
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import Digest, master_key
from delayed_tracker.bookkeeper.wire.in_flight import InFlight
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import write_lac_request
from delayed_tracker.bookkeeper.writing.entry_adds import EntryAdds
from delayed_tracker.bookkeeper.writing.pending_adds import PendingAdds
from delayed_tracker.bookkeeper.writing.published_segments import ATTEMPTS, PublishedSegments, fenced
from delayed_tracker.core.values.errors import InvalidInput

ENTRIES_AT_ONCE: Final = 64
"""Entries that are sent before others have their turn in the event loop: one to five milliseconds."""
BYTES_AT_ONCE: Final = 1024 * 1024
"""Most payload bytes that are sent together, but for a single entry."""


class LedgerWriter:
    """A ledger that takes entries; made by ``BookKeeper.create``.

    Adds may be sent without waiting for the ones before; they are answered in the order of their entries. Bookies that fail
    are replaced. A failure beyond that ends the writer: all adds without an answer fail with its error, and so do later
    ones. Such entries may be stored, and a recovery of the ledger may keep them.

    Args:
        store: the ledgers' metadata.
        bookies: of the cluster.
        connections: to them.
        current: metadata of the ledger, which is open and empty.
        digest: of its entries, with its password.
        settings: bounds and times.
    """

    def __init__(
        self,
        store: LedgerStore,
        bookies: Bookies,
        connections: BookieConnections,
        *,
        current: Versioned,
        digest: Digest,
        settings: ClientSettings,
    ) -> None:
        metadata = current.metadata
        self._store = store
        self._connections = connections
        self._settings = settings
        self._digest = digest
        self._quorums = Quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
        self._segments = PublishedSegments(store, bookies, current)
        self._room = InFlight(settings.pending_entries_max, settings.pending_bytes_max)
        self._adds = EntryAdds(
            metadata.ledger_id,
            digest,
            PendingAdds(self._quorums, metadata.segments[-1][1], change_early=settings.change_early),
            segments=self._segments,
            connections=connections,
            settings=settings,
            on_settled=self._room.give,
        )
        self._adds_in_a_row = 0
        self._is_closing = False
        self._close_turn = asyncio.Lock()

    @property
    def ledger_id(self) -> int:
        """Id of the ledger."""
        return self._segments.current.metadata.ledger_id

    @property
    def metadata(self) -> LedgerMetadata:
        """Metadata of the ledger, as they were read or written last."""
        return self._segments.current.metadata

    @property
    def last_confirmed(self) -> int:
        """The last entry that is answered; -1 for none."""
        return self._adds.last_confirmed

    @property
    def length(self) -> int:
        """Payload bytes of the answered entries."""
        return self._adds.length

    async def add(self, payload: bytes) -> int:
        """Add an entry, and return its id when enough bookies have stored it. It waits for room first.

        Cancelling does not take back what was sent.

        Raises:
            EntryTooLarge: a bookie does not take so many bytes; nothing was sent.
            LedgerClosed: the writer was closed.
            LedgerFenced: another client recovers or has closed the ledger.
            Unauthorized: a bookie knows the ledger by another password, or could not write the entry.
            NotEnoughBookies: so many bookies failed that no ack quorum is left, and there are no others.
            ZooKeeperUnavailable: bookies failed, and the others cannot be published.
            ClientClosed: the client was closed.
        """
        return await (await self.begin_add(payload))

    async def add_all(self, payloads: Sequence[bytes]) -> int:
        """Add entries in this order, and return the id of the last one when enough bookies have stored all of them.

        Errors are those of :meth:`add`; entries before the one that failed may be stored. Many small entries cost a
        fraction of as many calls of :meth:`begin_add`.
        """
        return await (await self.begin_add_all(payloads))

    async def begin_add(self, payload: bytes) -> asyncio.Future[int]:
        """Send an entry as soon as there is room, and return its future id, which :meth:`add` describes.

        Entries of one task are in the order of its calls.
        """
        return await self.begin_add_all((payload,))

    async def begin_add_all(self, payloads: Sequence[bytes]) -> asyncio.Future[int]:
        """Send entries, each as soon as there is room; return the future id of the last one, as :meth:`add_all` describes.

        Entries of other tasks may come between them.

        Raises:
            InvalidInput: there are none.
        """
        if not payloads:
            raise InvalidInput("payloads", "[]", "give at least one entry")
        for payload in payloads:
            self._require_size(payload)
        self._require_open()
        at = 0
        while True:
            together = payloads[at : at + self._together(payloads, at)]
            await self._room.take(sum(map(len, together)), len(together))
            answer = self._add(together)
            # Who adds in a loop with room for thousands leaves the event loop to others now and then.
            self._adds_in_a_row += len(together)
            if self._adds_in_a_row >= ENTRIES_AT_ONCE:
                self._adds_in_a_row = 0
                await asyncio.sleep(0)
            at += len(together)
            if at == len(payloads):
                return answer

    def _together(self, payloads: Sequence[bytes], first: int) -> int:
        """Return how many entries from one on are sent together: they need room together, too."""
        entries_max = min(ENTRIES_AT_ONCE, self._settings.pending_entries_max)
        bytes_max = min(BYTES_AT_ONCE, self._settings.pending_bytes_max)
        total = 0
        for count, payload in enumerate(payloads[first : first + entries_max]):
            total += len(payload)
            if count and total > bytes_max:
                return count
        return min(entries_max, len(payloads) - first)

    def add_nowait(self, payload: bytes) -> asyncio.Future[int]:
        """Send an entry at once, and return its future id, which :meth:`add` describes.

        Raises:
            TooManyInFlight: ``pending_bytes_max`` or ``pending_entries_max`` is reached; nothing was sent. Use
                :meth:`begin_add`, which waits.
            EntryTooLarge, LedgerClosed: as :meth:`add`, and the error that ended the writer.
        """
        self._require_size(payload)
        self._require_open()
        if not self._room.try_take(len(payload)):
            raise TooManyInFlight(
                f"ledger {self.ledger_id}: {self._room.requests} entries of {self._room.bytes} bytes are pending, and"
                f" pending_entries_max={self._settings.pending_entries_max} and"
                f" pending_bytes_max={self._settings.pending_bytes_max}; wait for answers"
            )
        return self._add((payload,))

    async def write_lac(self) -> int:
        """Tell bookies the last entry that is answered, for readers of the open ledger, and return it; -1 for none.

        Without this call readers learn of it by the next entry.

        Raises:
            LedgerClosed: the writer was closed.
            LedgerFenced, Unauthorized: as :meth:`add`.
            NotEnoughBookies: fewer than the ack quorum have stored it; the writer goes on.
        """
        self._require_open()
        await self._adds.until_unchanging()
        self._require_open()
        last = self.last_confirmed
        if last < 0:
            return last
        key = master_key(self._digest.password)
        request = write_lac_request(self.ledger_id, last, key, self._digest.seal_lac(self.ledger_id, last))
        bookies = [self._adds.ensemble[index] for index in self._quorums.write_set(last)]
        replies = await asyncio.gather(
            *(self._connections.of(bookie).call(request) for bookie in bookies), return_exceptions=True
        )
        stored = 0
        for bookie, reply in zip(bookies, replies, strict=True):
            if isinstance(reply, BookKeeperError):
                continue
            if isinstance(reply, BaseException):
                raise reply
            refusal = self._adds.refused(bookie, reply)
            if refusal is not None:
                self._adds.end(refusal)
                raise refusal
            stored += reply.status == Status.OK
        if stored < self._quorums.ack:
            raise NotEnoughBookies(
                f"ledger {self.ledger_id}: {stored} of {self._quorums.ack} bookies that are needed stored the last confirmed"
                f" entry {last}; try again"
            )
        return last

    async def close(self, also: Sequence[Operation] = ()) -> LedgerMetadata:
        """Wait for the answers to all adds, close the ledger at the last one, and return its metadata.

        If the writer has failed, the ledger is closed at the last entry that was answered, unless another client has taken
        it. Closing again does nothing.

        Args:
            also: operations that happen together with the closing, or not at all.
        Raises:
            LedgerFenced: another client recovers it, or has closed it at another entry.
            LedgerNotFound: it was deleted.
            MetadataConflict: other clients kept changing its metadata.
            ZooKeeperUnavailable: ZooKeeper does not answer; the ledger may be closed. Close again.
            NodeExists, NodeChanged, NodeMissing: an operation of ``also`` is refused.
        """
        self._is_closing = True
        async with self._close_turn:
            if self.metadata.closed:
                return self.metadata
            await self._adds.until_answered()
            await self._adds.until_unchanging()
            failure = self._adds.failure
            if isinstance(failure, LedgerFenced | ClientClosed):
                raise failure.with_traceback(None)
            self._segments.current = await self._closed(also)
            self._adds.end(self._closed_error())
            return self.metadata

    async def abandon(self) -> None:
        """End the writer, and leave the ledger open: adds that are not answered fail with ClientClosed."""
        self._adds.end(ClientClosed(f"ledger {self.ledger_id}: its client was closed; recover the ledger"))
        await self._adds.until_unchanging()

    async def _closed(self, also: Sequence[Operation]) -> Versioned:
        found = self._segments.current
        for attempt in range(1, ATTEMPTS + 1):
            made = found.metadata.with_state(
                LedgerState.CLOSED, last_entry_id=self.last_confirmed, payload_bytes=self.length
            )
            try:
                return await self._store.replace(found, made, also)
            except MetadataConflict:
                if attempt == ATTEMPTS:
                    raise
            found = await self._store.read(self.ledger_id, newest=True)
            state, end = found.metadata.state, (found.metadata.last_entry_id, found.metadata.payload_bytes)
            if state is LedgerState.CLOSED and end == (self.last_confirmed, self.length):
                # The answer of an earlier close was lost, or a recovery came to the same end.
                return found if not also else await self._store.replace(found, found.metadata, also)
            if state is not LedgerState.OPEN:
                raise fenced(found.metadata)
        raise AssertionError

    def _add(self, payloads: Sequence[bytes]) -> asyncio.Future[int]:
        """Send entries for which room was taken."""
        try:
            self._require_open()
            return self._adds.add_all(payloads)
        except BookKeeperError:
            self._room.give(sum(map(len, payloads)), len(payloads))
            raise

    def _require_size(self, payload: bytes) -> None:
        if len(payload) > self._settings.frame_bytes_max:
            raise EntryTooLarge(
                f"payload: {len(payload)} bytes are above frame_bytes_max={self._settings.frame_bytes_max}; cut it into"
                " several entries"
            )

    def _require_open(self) -> None:
        if self._adds.failure is not None:
            raise self._adds.failure.with_traceback(None)
        if self._is_closing:
            raise self._closed_error()

    def _closed_error(self) -> LedgerClosed:
        return LedgerClosed(f"ledger {self.ledger_id}: its writer was closed; create another ledger")
