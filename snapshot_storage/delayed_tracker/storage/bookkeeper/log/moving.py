"""Moves of trackers between the logs of instances: who becomes the owner of a tracker has its records in its own log.

The steps of a move, and why no record is acknowledged behind the new owner's back, are those of ``owners.py``.
"""

import contextlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from delayed_tracker.bookkeeper.errors import BookKeeperError
from delayed_tracker.storage.add_log import LogAppend, LoggedRecord
from delayed_tracker.storage.bookkeeper.log.content import LogContent, TrackerContent, TrackerName
from delayed_tracker.storage.bookkeeper.log.entries import Defined, Item
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.own_log import OwnLog
from delayed_tracker.storage.bookkeeper.log.owners import LEAVING, TRACKERS, Owner, OwnerChanged, Owners
from delayed_tracker.storage.bookkeeper.log.records import cut_items, read_records, record_items
from delayed_tracker.storage.bookkeeper.log.sources import Sources
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, StorageError, StorageUnavailable
from delayed_tracker.storage.protocol import require_epoch

ATTEMPTS_MAX: Final = 8
"""Times that a tracker's node is changed, while other processes change it, too."""
COPY_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records that are copied by one commit when a tracker moves."""
EMPTIED_MAX: Final = 256
"""Trackers without records that one call takes over from dead instances; each takes some ten requests."""
EMPTIED_AT_ONCE: Final = 16


class TrackerMoves:
    """Makes this instance the owner of trackers.

    Args:
        own: log of this instance.
        owners: nodes of instances and trackers.
        ledgers: of all logs.
        sources: logs of other instances.
    """

    def __init__(self, own: OwnLog, owners: Owners, ledgers: LogLedgers, sources: Sources) -> None:
        self._own = own
        self._owners = owners
        self._ledgers = ledgers
        self._sources = sources

    async def own(self, name: TrackerName, epoch: int, writer: str) -> Owner:
        """Become the owner of a tracker, whoever it was before.

        Raises:
            SnapshotConflict: it has a newer epoch, or this one by another writer.
        """
        for _ in range(ATTEMPTS_MAX):
            before = await self._owners.owner_of(name)
            try:
                if before is None:
                    owner = await self._owners.claim(name, epoch, writer)
                else:
                    require_epoch(f"the log of {name[0]!r}, {name[1]!r}", before.epoch, before.writer, epoch, writer)
                    kept = writer or (before.writer if epoch == before.epoch else "")
                    if before.instance != self._owners.instance or before.moving:
                        return await self._move(name, await self._owners.begin_move(name, before, epoch, kept))
                    owner = before
                    if (before.epoch, before.writer) != (epoch, kept):
                        owner = await self._owners.renew(name, before, epoch, kept)
            except OwnerChanged:
                continue
            self._own.owned[name] = owner
            return owner
        raise StorageUnavailable(f"other processes changed the owner of {name[0]!r}, {name[1]!r} meanwhile; retry")

    async def _move(self, name: TrackerName, moving: Owner) -> Owner:
        """Get the records of a tracker that is fenced by name, then become its owner. Raises OwnerChanged."""
        if moving.instance == self._owners.instance:
            return await self._take_back(name, moving)
        content = await self._sources.fenced(moving.instance)
        found = content.trackers.get(name, TrackerContent())
        async with self._own.turn:
            self._own.arriving = name
            try:
                await self._copy(name, content, found)
                owner = await self._become_owner(name, moving)
            finally:
                self._own.arriving = None
        await self._sources.sweep(moving.instance)
        return owner

    async def _take_back(self, name: TrackerName, moving: Owner) -> Owner:
        """Take back a tracker that another instance has begun to take over: its records are in this log."""
        async with self._own.turn:
            await self._own.end_current()
            content = await self._sources.fenced(self._owners.instance)
            # Before the node says so: its reply may be lost, and until then nothing else would keep records and numbers.
            self._own.arriving = name
            try:
                found = content.trackers.get(name, TrackerContent())
                self._own.content.restore(name, found)
                await self._own.write(partial(self._own.definitions, names=[name]))
                await self._write_hole(name, content, found)
                return await self._become_owner(name, moving)
            finally:
                self._own.arriving = None

    async def _become_owner(self, name: TrackerName, moving: Owner) -> Owner:
        """Record that the records are here, in the same turn in this process: a loss in a later one is not overlooked."""
        owner = self._own.owned[name] = await self._owners.end_move(name, moving)
        return owner

    async def _copy(self, name: TrackerName, content: LogContent, found: TrackerContent) -> None:
        """Write what is not cut of a tracker into this instance's log, in which it is new."""
        first = found.parts[0].first_number if found.parts else found.last_number + 1
        before = max(first - 1, 0)

        def define(ledger_id: int) -> list[Item]:
            ordinal = self._own.content.ordinal_for(ledger_id, name)
            return [Defined(ordinal, *name, before, min(found.cut_through, before), is_fresh=True)]

        await self._own.write(define)
        block: list[LoggedRecord] = []
        size = 0
        async for record in read_records(self._ledgers, name, content, found, after=before):
            block.append(record)
            size += len(record.record)
            if size >= COPY_BYTES:
                await self._write_block(name, block)
                block, size = [], 0
        if block:
            await self._write_block(name, block)
        await self._write_hole(name, content, found)
        if found.cut_through > before:
            await self._own.write(lambda ledger_id: cut_items(self._own, ledger_id, [(name, found.cut_through)]))

    async def _write_hole(self, name: TrackerName, content: LogContent, found: TrackerContent) -> None:
        """Let numbers without records say what was lost of a tracker behind its last record, or may have been."""
        last = found.last_number + content.is_damaged

        def compose(ledger_id: int) -> list[Item]:
            tracker = self._own.content.trackers[name]
            if tracker.last_number >= last:
                return []
            return [Defined(self._own.content.ordinal_for(ledger_id, name), *name, last, tracker.cut_through)]

        await self._own.write(compose)

    async def _write_block(self, name: TrackerName, block: Sequence[LoggedRecord]) -> None:
        def compose(ledger_id: int) -> list[Item]:
            last = self._own.content.trackers[name].last_number
            # Numbers may be missing, where entries were lost.
            return record_items(self._own, ledger_id, {name: [record for record in block if record.number > last]})

        await self._own.write(compose)

    async def own_all(self, parts: Sequence[LogAppend], writer: str) -> set[TrackerName]:
        """Become the owner of the trackers of an append, where this instance is not; return those that are refused."""
        refused: set[TrackerName] = set()
        for part in parts:
            name = (part.topic, part.cursor)
            owner = self._own.owned.get(name)
            if owner is not None and (owner.epoch, owner.writer) == (part.epoch, writer):
                continue
            try:
                await self.own(name, part.epoch, writer)
            except SnapshotConflict:
                refused.add(name)
        return refused

    async def take_back_abandoned(self) -> None:
        """Take back what instances that are dead by now were taking over: it keeps every ledger of this log."""
        for name, owner in await self._owners.abandoned():
            with contextlib.suppress(SnapshotConflict):  # another process goes on with it
                await self.own(name, owner.epoch, owner.writer)

    async def empty(self, dead: Mapping[str, LogContent]) -> None:
        """Take trackers over from dead instances that have no records, as far as it can be done, so that their ledgers go.

        Those with the fewest trackers come first: what their processes had in use has mostly moved by itself.

        Args:
            dead: content of their logs by instance.
        """
        found = [(instance, await self._listed(instance, content)) for instance, content in dead.items()]
        found.sort(key=lambda each: len(each[1]))
        moves = [(instance, name) for instance, names in found for name in names][:EMPTIED_MAX]

        async def take(move: tuple[str, TrackerName]) -> None:
            instance, name = move
            with contextlib.suppress(SnapshotConflict, SnapshotCorrupt):
                owner = await self._owners.owner_of(name)
                if owner is not None and owner.instance == instance:
                    await self.own(name, owner.epoch, owner.writer)

        # What cannot be done now is left for the next call: nothing else waits for it.
        with contextlib.suppress(StorageError, BookKeeperError):
            await for_each(moves, take, at_once=EMPTIED_AT_ONCE)

    async def _listed(self, instance: str, content: LogContent) -> list[TrackerName]:
        """Return the trackers of an instance; none if it has one whose name nobody knows, with which its ledgers stay."""
        known = {self._owners.listed_name(name): name for name in content.trackers}
        listed = await self._owners.names(instance, TRACKERS) | await self._owners.names(instance, LEAVING)
        names = [known.get(each) or self._owners.name_of(each) for each in sorted(listed)]
        return [] if None in names else [name for name in names if name is not None]
