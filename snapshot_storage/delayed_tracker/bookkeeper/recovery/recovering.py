"""Recovers a ledger: fences its writer, adds again what may be acknowledged, and closes it.

    OPEN -> IN_RECOVERY, by compare-and-swap: the writer cannot change the ensemble any more
    fence the bookies of the last ensemble, until no add of the writer can be acknowledged any more
    read on from the last entry that is confirmed, and add each entry again, until one is missing
    IN_RECOVERY -> CLOSED, by compare-and-swap: the last entry, and the segments that adding again has made

Several clients may do so at a time: the first swap to CLOSED is the end of the ledger, which the others take over. If a
step fails, the ledger stays in recovery, and the next recovery begins anew. Rules as in BookKeeper's ``LedgerRecoveryOp``
and ``ReadOnlyLedgerHandle``.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

from delayed_tracker.bookkeeper.errors import DigestMismatch, LedgerClosed, LedgerUnreadable
from delayed_tracker.bookkeeper.metadata.errors import MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.placement.bookies import Bookies
from delayed_tracker.bookkeeper.reading.ahead_bound import AheadBound
from delayed_tracker.bookkeeper.reading.entry_reads import EntryRead, EntryReads
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.reading.ledger_end import LedgerEnd, read_last_entries
from delayed_tracker.bookkeeper.recovery.closing import Segment, closed, last_known
from delayed_tracker.bookkeeper.recovery.held_segments import HeldSegments
from delayed_tracker.bookkeeper.wire.digest import Entry, master_key
from delayed_tracker.bookkeeper.writing.entry_adds import EntryAdds
from delayed_tracker.bookkeeper.writing.pending_adds import PendingAdds

_BYTES_AHEAD: Final = 8 * 1024 * 1024


class LedgerRecovery:
    """The recovery of one ledger.

    Args:
        store: the ledgers' metadata.
        access: to the ledger.
        bookies: those that may take the place of bookies that fail.
        password: of the ledger.
    """

    def __init__(self, store: LedgerStore, access: LedgerAccess, bookies: Bookies, password: bytes) -> None:
        self._store = store
        self._access = access
        self._bookies = bookies
        self._key = master_key(password)

    async def run(self, found: Versioned) -> Versioned:
        """Close the ledger at its last entry, and return its metadata; a closed ledger stays as it is.

        Args:
            found: the ledger's metadata, which may be old.
        Raises:
            LedgerUnreadable: too few bookies answer to know the last entry.
            NotEnoughBookies: entries must be stored again, and there are too few bookies.
            Unauthorized: a bookie refuses the password.
            LedgerNotFound: the ledger was deleted.
            MetadataConflict: somebody has opened the ledger again, or added to it during the recovery.
            LedgerMetadataInvalid: the metadata are damaged, or in format 1.
            ZooKeeperUnavailable: ZooKeeper does not answer.
            ClientClosed: the client was closed meanwhile.
        """
        current = await self._begin(found)
        metadata = current.metadata
        if metadata.closed:
            return current
        end = await read_last_entries(self._access, metadata.segments[-1][1], fence_key=self._key)
        known = last_known(metadata, end.last_confirmed)
        segments = HeldSegments(self._bookies)
        adds = await self._add_again(metadata, known, segments)
        if adds is None:
            last, payload_bytes = known, await self._length_at(metadata, known, end)
        else:
            last, payload_bytes = adds.last_confirmed, adds.length
        return await self._close(current, list(segments.segments.items()), last, payload_bytes)

    async def _begin(self, current: Versioned) -> Versioned:
        """Return metadata of the ledger in recovery, or closed."""
        while current.metadata.state is LedgerState.OPEN:
            try:
                return await self._store.replace(current, current.metadata.with_state(LedgerState.IN_RECOVERY))
            except MetadataConflict:
                # The writer has changed the ensemble or closed the ledger, or another client recovers it.
                current = await self._read()
        return current

    async def _add_again(self, metadata: LedgerMetadata, known: int, segments: HeldSegments) -> EntryAdds | None:
        """Add all entries behind one again, up to the first that is missing; return the answered adds, None if none."""
        bookies = metadata.segments[-1][1]
        reads = EntryReads(self._access, fence_key=self._key)
        bound = AheadBound(_BYTES_AHEAD // self._access.quorums.write)
        ahead: deque[EntryRead] = deque()
        adding: deque[asyncio.Future[int]] = deque()
        adds: EntryAdds | None = None
        next_id = known + 1
        try:
            while True:
                # No more than were found so far: mostly one or two entries are behind the last confirmed one.
                while len(ahead) < min(bound.entries, next_id - len(ahead) - known):
                    ahead.append(reads.begin(next_id, bookies))
                    next_id += 1
                entry = await ahead.popleft().outcome()
                if entry is None:
                    break
                bound.seen((len(entry.payload),))
                if adds is None:
                    adds = self._adds(bookies, entry, segments)
                if len(adding) >= bound.entries:
                    await adding.popleft()
                adding.append(adds.add(entry.payload))
            for added in adding:
                await added
        finally:
            for read in ahead:
                read.cancel()
            if adds is not None:
                adds.end(LedgerClosed(f"ledger {metadata.ledger_id}: its recovery has ended"))
                await adds.until_unchanging()
        return adds

    def _adds(self, bookies: Sequence[str], first: Entry, segments: HeldSegments) -> EntryAdds:
        """Begin to add entries again from one on."""
        access = self._access
        return EntryAdds(
            access.ledger_id,
            access.digest.found,
            # A bookie is replaced only if an entry needs it: there may be no other one.
            PendingAdds(access.quorums, bookies, change_early=False, first_entry_id=first.entry_id),
            segments=segments,
            connections=access.connections,
            settings=access.settings,
            on_settled=lambda _bytes, _count: None,
            earlier_bytes=first.length - len(first.payload),
            is_recovery=True,
        )

    async def _length_at(self, metadata: LedgerMetadata, last: int, end: LedgerEnd) -> int:
        """Return the payload bytes of the ledger up to its last entry, which that entry has."""
        if last < 0:
            return 0
        if end.last_stored is not None and end.last_stored.entry_id == last:
            return end.last_stored.length
        try:
            entry = await EntryReads(self._access).begin(last, metadata.bookies_of(last)).outcome()
        except DigestMismatch:
            entry = None
        if entry is None:
            raise LedgerUnreadable(
                f"entry {self._access.ledger_id}:{last}: none of its bookies has it undamaged, so that the length of the ledger"
                " is not known; try again when all bookies are back"
            )
        return entry.length

    async def _close(self, current: Versioned, changes: Sequence[Segment], last: int, payload_bytes: int) -> Versioned:
        """Close the ledger, or return it as another client has closed it."""
        while True:
            made = closed(current.metadata, changes, last_entry_id=last, payload_bytes=payload_bytes)
            try:
                return await self._store.replace(current, made)
            except MetadataConflict:
                current = await self._read()
                if current.metadata.closed:
                    # The end that another client found is the end for all.
                    return current

    async def _read(self) -> Versioned:
        return await self._store.read(self._access.ledger_id, newest=True)
