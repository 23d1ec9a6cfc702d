"""The log of one instance from start to close: what its trackers append, read and cut, and who owns them."""

import contextlib
from collections.abc import Sequence
from typing import Final

from delayed_tracker.storage.add_log import LogAppend, LogExtent, LoggedRecord, LogPage, require_no_gap
from delayed_tracker.storage.bookkeeper.log.content import LogContent, TrackerContent, TrackerName
from delayed_tracker.storage.bookkeeper.log.entries import Item
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.moving import TrackerMoves
from delayed_tracker.storage.bookkeeper.log.own_log import OwnLog
from delayed_tracker.storage.bookkeeper.log.owners import TRACKERS, Owners
from delayed_tracker.storage.bookkeeper.log.records import cut_items, read_records, record_items, unwritten
from delayed_tracker.storage.bookkeeper.log.rewriting import Rewriting
from delayed_tracker.storage.bookkeeper.log.sources import Sources
from delayed_tracker.storage.errors import SnapshotConflict, StorageUnavailable
from delayed_tracker.storage.protocol import require_epoch

ATTEMPTS_MAX: Final = 2
"""Times that a call becomes the owner of a tracker that another instance takes meanwhile."""


class InstanceLog:
    """Log of one registered instance. Its methods are those of ``AddLog``, after their arguments were checked.

    Args:
        owners: nodes, with those of this instance registered.
        ledgers: of all logs.
        roll_bytes: size of a ledger after which the next one begins.
    """

    def __init__(self, owners: Owners, ledgers: LogLedgers, roll_bytes: int) -> None:
        self.own = OwnLog(ledgers, owners, roll_bytes=roll_bytes)
        self.owners = owners
        self.sources = Sources(ledgers, owners)
        self._ledgers = ledgers
        self._moves = TrackerMoves(self.own, owners, ledgers, self.sources)
        self._rewriting = Rewriting(self.own, ledgers, self._moves)

    async def close(self) -> None:
        """Close the current ledger, and end the instance."""
        async with self.own.turn:
            await self.own.end_current()
        await self.owners.retire()

    async def sweep(self) -> None:
        """Delete what is left of this instance, after it was removed."""
        await self.sources.sweep(self.owners.instance)

    async def take_over(self, name: TrackerName, epoch: int, writer: str) -> LogExtent:
        """Become the owner of a tracker, with its records in this log. Raises SnapshotConflict."""
        for _ in range(ATTEMPTS_MAX):
            owner = await self._moves.own(name, epoch, writer)
            async with self.own.turn:
                await self.own.settle()
                if name in self.own.owned:  # nobody has taken it over meanwhile
                    tracker = self.own.content.trackers.setdefault(name, TrackerContent())
                    return LogExtent(*name, owner.epoch, tracker.last_number, tracker.record_bytes)
        raise StorageUnavailable(f"other processes took {name[0]!r}, {name[1]!r} over again and again; retry")

    async def append(self, parts: Sequence[LogAppend], writer: str) -> list[TrackerName]:
        """Append the parts whose trackers are not fenced in one commit, and return the others. Raises InvalidInput."""
        for part in parts:
            if self._is_owned(part, writer):
                require_no_gap(part, self._next_number(part) - 1)
        refused: set[TrackerName] = set()
        waiting = {(part.topic, part.cursor): part for part in parts}
        for _ in range(ATTEMPTS_MAX):
            refused |= await self._moves.own_all(list(waiting.values()), writer)
            lost = await self._append_owned([waiting[name] for name in waiting if name not in refused], writer)
            # What was lost has a newer owner, or came to another instance under the same one, while this one looked dead.
            waiting = {name: waiting[name] for name in lost}
            if not waiting:
                break
        refused |= set(waiting)
        return [name for part in parts if (name := (part.topic, part.cursor)) in refused]

    async def _append_owned(self, parts: Sequence[LogAppend], writer: str) -> list[TrackerName]:
        """Append the parts whose trackers are this instance's in one commit, and return the others."""
        async with self.own.turn:
            # While another tracker of this call was moved, or the turn came, one may have got a newer owner.
            # What came back from another instance without its last records is refused alone: opened again, it goes on.
            accepted = {
                (part.topic, part.cursor): part
                for part in parts
                if self._is_owned(part, writer) and part.first_number <= self._next_number(part)
            }
            if not accepted:
                return [(part.topic, part.cursor) for part in parts]
            trackers = self.own.content.trackers
            for name, part in accepted.items():
                if name not in trackers:
                    trackers[name] = TrackerContent(part.first_number - 1, part.first_number - 1)

            def compose(ledger_id: int) -> list[Item]:
                new = {name: unwritten(part, trackers[name]) for name, part in accepted.items() if name in trackers}
                return record_items(self.own, ledger_id, {name: records for name, records in new.items() if records})

            await self.own.write(compose)
            names = ((part.topic, part.cursor) for part in parts)
            return [name for name in names if name not in accepted or name not in self.own.owned]

    def _is_owned(self, part: LogAppend, writer: str) -> bool:
        """Return True if a writer may append a part to this log now."""
        owner = self.own.owned.get((part.topic, part.cursor))
        if owner is None:
            return False
        try:
            require_epoch("", owner.epoch, owner.writer, part.epoch, writer)
        except SnapshotConflict:
            return False
        return True

    def _next_number(self, part: LogAppend) -> int:
        """Return the number after the last one of a part's tracker; one that this log does not know begins anywhere."""
        tracker = self.own.content.trackers.get((part.topic, part.cursor))
        return part.first_number if tracker is None else tracker.last_number + 1

    async def read(self, name: TrackerName, after: int, bytes_max: int) -> LogPage:
        """Return records of a tracker after a number, up to a size."""
        content = await self._readable(name)
        tracker = content.trackers.get(name)
        if tracker is None:
            return LogPage((), (), is_last=True)
        found: list[LoggedRecord] = []
        corrupt: list[tuple[int, int]] = []
        size, expected = 0, max(after, tracker.cut_through) + 1
        async for record in read_records(self._ledgers, name, content, tracker, after=expected - 1):
            size += len(record.record)
            if found and size > bytes_max:
                return LogPage(tuple(found), tuple(corrupt), is_last=False)
            if record.number > expected:
                corrupt.append((expected, record.number - 1))
            found.append(record)
            expected = record.number + 1
        if expected <= tracker.last_number:
            corrupt.append((expected, tracker.last_number))
        elif content.is_damaged and after <= tracker.last_number:
            # Whether the lost entries had records of this tracker cannot be known.
            corrupt.append((tracker.last_number + 1, tracker.last_number + 1))
        return LogPage(tuple(found), tuple(corrupt), is_last=True)

    async def _readable(self, name: TrackerName) -> LogContent:
        """Return the content that has a tracker: this instance's, or that of one that is dead."""
        if name in self.own.owned:
            return self.own.content
        owner = await self.owners.owner_of(name)
        if owner is None:
            return LogContent()
        if owner.instance == self.owners.instance:
            return self.own.content
        if await self.owners.is_alive(owner.instance):
            raise StorageUnavailable(
                f"the log of {name[0]!r}, {name[1]!r} is that of another process, which is alive; take the tracker over"
            )
        return await self.sources.fenced(owner.instance)

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Record cuts, and delete the ledgers that nobody needs any more."""
        for topic, cursor, _ in cuts:
            name = (topic, cursor)
            if name not in self.own.owned:
                owner = await self.owners.owner_of(name)
                if owner is not None and not await self.owners.is_alive(owner.instance):
                    with contextlib.suppress(SnapshotConflict):  # another process was faster: it is not ours to cut
                        await self._moves.own(name, owner.epoch, owner.writer)
        async with self.own.turn:
            wanted = [((topic, cursor), through) for topic, cursor, through in cuts]
            await self.own.write(lambda ledger_id: cut_items(self.own, ledger_id, wanted))
            await self.own.delete_unneeded()
        await self._rewriting.shorten()

    async def extents(self) -> list[LogExtent]:
        """Return the trackers of this instance, and of instances that are dead, that have records; ascending."""
        # Those that others have taken over since the last commit are not on the list any more.
        listed = await self.owners.names(self.owners.instance, TRACKERS)
        found = {
            name: LogExtent(*name, self.own.owned[name].epoch, tracker.last_number, tracker.record_bytes)
            for name, tracker in self.own.content.trackers.items()
            if tracker.record_bytes and name in self.own.owned and self.owners.listed_name(name) in listed
        }
        unneeded: dict[str, LogContent] = {}
        for instance in await self.owners.instances():
            if instance == self.owners.instance or await self.owners.is_alive(instance):
                continue
            if await self.sources.sweep(instance):
                continue
            content = await self.sources.fenced(instance)
            is_needed = False
            for name, tracker in content.trackers.items():
                owner = await self.owners.owner_of(name) if tracker.record_bytes and name not in found else None
                if owner is not None and owner.instance == instance:
                    found[name] = LogExtent(*name, owner.epoch, tracker.last_number, tracker.record_bytes)
                    is_needed = True
            if not is_needed:
                unneeded[instance] = content
        await self._moves.empty(unneeded)
        return [found[name] for name in sorted(found)]
