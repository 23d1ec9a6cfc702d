"""The add log over BookKeeper: one ledger an instance, rolled over, and deleted behind the cut.

Whoever takes a tracker over fences the ledgers of its former owner, and copies what is not cut into its own log, so that
the log of one instance has all records of a tracker at any time.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.errors import BookKeeperError
from delayed_tracker.storage.add_log import (
    LogAppend,
    LogExtent,
    LoggedRecord,
    LogPage,
    require_cuts,
    require_epoch_number,
    require_no_gap,
    require_page,
    require_parts,
)
from delayed_tracker.storage.bookkeeper.connecting import Connect, client_of
from delayed_tracker.storage.bookkeeper.ledgers import unavailable
from delayed_tracker.storage.bookkeeper.log.content import LogContent, TrackerContent, TrackerName
from delayed_tracker.storage.bookkeeper.log.entries import Cut, Defined, Item, Piece, Records
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.own_log import ROLL_BYTES, OwnLog
from delayed_tracker.storage.bookkeeper.log.owners import InstanceRemoved, Owner, OwnerChanged, Owners
from delayed_tracker.storage.bookkeeper.log.sources import Sources
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl
from delayed_tracker.storage.errors import SnapshotConflict, StorageInUse, StorageUnavailable
from delayed_tracker.storage.protocol import require_epoch

ATTEMPTS_MAX: Final = 8
"""Times that a tracker's node is changed, while other processes change it, too."""
ANNOUNCE_AGAIN_S: Final = 0.5
"""Pause after an announcement of this instance that failed."""
COPY_BYTES: Final = 4 * 1024 * 1024
"""Bytes of records that are copied by one commit when a tracker moves."""


class BookKeeperAddLog:
    """Records of adds in ledgers, and their owners in ZooKeeper.

    Args:
        url: where.
        roll_bytes: size of a ledger after which the next one begins.
        chance: source of the instance's number; those of two processes must differ.
        connect: makes the client.
    """

    def __init__(
        self,
        url: BookKeeperUrl,
        *,
        roll_bytes: int = ROLL_BYTES,
        chance: random.Random | None = None,
        connect: Connect = client_of,
    ) -> None:
        self._url = url
        self._roll_bytes = roll_bytes
        self._chance = chance or random.SystemRandom()
        self._connect = connect
        self._opened: _Opened | None = None
        self._parts = AsyncExitStack()
        self._announcing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Connect to ZooKeeper, and register a new instance. The ledgers of earlier ones are read when needed."""
        if self._opened is not None:
            raise StorageInUse("this add log is started already; close it first, or open another one")
        async with AsyncExitStack() as parts:
            with unavailable():
                client = await parts.enter_async_context(self._connect(self._url))
                session = client.zookeeper.session_count
                opened = await self._register(client)
            self._parts = parts.pop_all()
        self._opened = opened
        self._announcing = asyncio.create_task(self._keep_announcing(client, session))

    async def _register(self, client: BookKeeper) -> "_Opened":
        owners = Owners(client.zookeeper, self._url.root, f"{self._chance.getrandbits(64):016x}")
        await owners.register()
        return _Opened(owners, LogLedgers(client, self._url), self._roll_bytes)

    async def _keep_announcing(self, client: BookKeeper, session: int) -> None:
        """Say in each new session that this instance is alive; the end of the last one has said that it is dead."""
        while True:
            session = await client.zookeeper.until_session(session)
            while not await self._announced(client):  # noqa: ASYNC110  # ZooKeeper does not say when to try again
                await asyncio.sleep(ANNOUNCE_AGAIN_S)

    async def _announced(self, client: BookKeeper) -> bool:
        """Announce this instance, or begin another one if it was removed; return True if that was done."""
        opened = self._require_opened()
        try:
            try:
                await opened.owners.announce()
            except InstanceRemoved:
                self._opened = await self._register(client)
                await opened.sweep()
        except BookKeeperError:
            return False
        return True

    async def close(self) -> None:
        """Finish the accepted operations, close the ledger, and end the instance."""
        if self._announcing is not None:
            self._announcing.cancel()
            await asyncio.wait([self._announcing])
        opened, self._opened, self._announcing = self._opened, None, None
        if opened is not None:
            try:
                with unavailable():
                    await opened.close()
            finally:
                await self._parts.aclose()

    async def log_id(self) -> str:
        """Return the id that all instances below the URL's root share."""
        opened = self._require_opened()
        with unavailable():
            return await opened.log_id()

    async def append(self, parts: Sequence[LogAppend], *, writer: str) -> list[tuple[str, str]]:
        """Append the parts whose trackers are not fenced in one commit, and return the others."""
        opened = self._require_opened()
        require_parts(parts)
        with unavailable():
            return await opened.append(parts, writer)

    async def take_over(self, topic: str, cursor: str, *, epoch: int, writer: str) -> LogExtent:
        """Record the epoch and its writer, and bring the tracker's records into this instance's log."""
        opened = self._require_opened()
        require_epoch_number(epoch)
        with unavailable():
            return await opened.take_over((topic, cursor), epoch, writer)

    async def read(self, topic: str, cursor: str, *, after: int, bytes_max: int) -> LogPage:
        """Return records of a tracker of this instance after a number, up to a size."""
        opened = self._require_opened()
        require_page(after, bytes_max)
        with unavailable():
            return await opened.read((topic, cursor), after, bytes_max)

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        """Record the cuts of this instance's trackers, and delete the ledgers that nobody needs any more."""
        opened = self._require_opened()
        require_cuts(cuts)
        with unavailable():
            await opened.cut(cuts)

    async def extents(self) -> list[LogExtent]:
        """Return the trackers of this instance, and of instances that are dead, that have records."""
        opened = self._require_opened()
        with unavailable():
            return await opened.extents()

    async def size_bytes(self) -> int:
        """Return the bytes of this instance's ledgers, each counted once."""
        return self._require_opened().own.size_bytes

    def _require_opened(self) -> "_Opened":
        if self._opened is None:
            raise StorageUnavailable("the add log is not open; call start() first")
        return self._opened


class _Opened:
    """A log from start to close."""

    def __init__(self, owners: Owners, ledgers: LogLedgers, roll_bytes: int) -> None:
        self.own = OwnLog(ledgers, owners, roll_bytes=roll_bytes)
        self.owners = owners
        self._ledgers = ledgers
        self._sources = Sources(ledgers, owners)

    async def close(self) -> None:
        async with self.own.turn:
            await self.own.end_current()
        await self.owners.retire()

    async def sweep(self) -> None:
        """Delete what is left of this instance, after it was removed."""
        await self._sources.sweep(self.owners.instance)

    # -- owners ------------------------------------------------------------------------------------------------------

    async def take_over(self, name: TrackerName, epoch: int, writer: str) -> LogExtent:
        owner = await self._own(name, epoch, writer)
        async with self.own.turn:
            await self.own.settle()
            tracker = self.own.content.trackers.setdefault(name, TrackerContent())
            return LogExtent(*name, owner.epoch, tracker.last_number, tracker.record_bytes)

    async def _own(self, name: TrackerName, epoch: int, writer: str) -> Owner:
        """Become the owner of a tracker, whoever it was before.

        Raises:
            SnapshotConflict: it has a newer epoch, or this one by another writer.
        """
        for _ in range(ATTEMPTS_MAX):
            before = await self.owners.owner_of(name)
            try:
                if before is None:
                    owner = await self.owners.claim(name, epoch, writer)
                else:
                    require_epoch(f"the log of {name[0]!r}, {name[1]!r}", before.epoch, before.writer, epoch, writer)
                    kept = writer or (before.writer if epoch == before.epoch else "")
                    if before.instance == self.owners.instance and not before.moving:
                        owner = before
                        if (before.epoch, before.writer) != (epoch, kept):
                            owner = await self.owners.renew(name, before, epoch, kept)
                    else:
                        owner = await self._move(name, await self.owners.begin_move(name, before, epoch, kept))
            except OwnerChanged:
                continue
            self.own.owned[name] = owner
            return owner
        raise StorageUnavailable(f"other processes changed the owner of {name[0]!r}, {name[1]!r} meanwhile; retry")

    async def _move(self, name: TrackerName, moving: Owner) -> Owner:
        """Get the records of a tracker that is fenced by name, then become its owner. Raises OwnerChanged."""
        if moving.instance == self.owners.instance:
            return await self._take_back(name, moving)
        content = await self._sources.fenced(moving.instance)
        found = content.trackers.get(name, TrackerContent())
        async with self.own.turn:
            self.own.arriving = name
            try:
                await self._copy(name, content, found)
                owner = await self.owners.end_move(name, moving)
            finally:
                self.own.arriving = None
        await self._sources.sweep(moving.instance)
        return owner

    async def _take_back(self, name: TrackerName, moving: Owner) -> Owner:
        """Take back a tracker that another instance has begun to take over: its records are in this log."""
        async with self.own.turn:
            await self.own.end_current()
            content = await self._sources.fenced(self.owners.instance)
            # Before the node says so: its reply may be lost, and until then nothing else would keep records and numbers.
            self.own.arriving = name
            try:
                self.own.content.restore(name, content.trackers.get(name, TrackerContent()))
                await self.own.write(partial(self.own.definitions, names=[name]))
                return await self.owners.end_move(name, moving)
            finally:
                self.own.arriving = None

    async def _copy(self, name: TrackerName, content: LogContent, found: TrackerContent) -> None:
        """Write what is not cut of a tracker into this instance's log, in which it is new."""
        first = found.parts[0].first_number if found.parts else found.last_number + 1
        before = max(first - 1, 0)

        def define(ledger_id: int) -> list[Item]:
            ordinal = self.own.content.ordinal_of(ledger_id, name)
            if ordinal is None:
                ordinal = self.own.content.next_ordinal(ledger_id)
            return [Defined(ordinal, *name, before, min(found.cut_through, before), is_fresh=True)]

        await self.own.write(define)
        block: list[LoggedRecord] = []
        size = 0
        async for record in self._records(name, content, found, before):
            block.append(record)
            size += len(record.record)
            if size >= COPY_BYTES:
                await self._write_block(name, block)
                block, size = [], 0
        if block:
            await self._write_block(name, block)
        if found.cut_through > before:
            await self.own.write(lambda ledger_id: self._cut_items(ledger_id, [(name, found.cut_through)]))

    async def _write_block(self, name: TrackerName, block: Sequence[LoggedRecord]) -> None:
        def compose(ledger_id: int) -> list[Item]:
            last = self.own.content.trackers[name].last_number
            # Numbers may be missing, where entries were lost.
            return self._records_items(ledger_id, {name: [record for record in block if record.number > last]})

        await self.own.write(compose)

    async def _own_all(self, parts: Sequence[LogAppend], writer: str) -> set[TrackerName]:
        """Become the owner of the trackers of an append, where this instance is not; return those that are refused."""
        refused: set[TrackerName] = set()
        for part in parts:
            name = (part.topic, part.cursor)
            owner = self.own.owned.get(name)
            if owner is not None and (owner.epoch, owner.writer) == (part.epoch, writer):
                continue
            try:
                await self._own(name, part.epoch, writer)
            except SnapshotConflict:
                refused.add(name)
        return refused

    # -- records -----------------------------------------------------------------------------------------------------

    async def log_id(self) -> str:
        return await self.owners.log_id()

    async def append(self, parts: Sequence[LogAppend], writer: str) -> list[TrackerName]:
        self._require_no_gaps(parts, writer)
        refused = await self._own_all(parts, writer)
        accepted = {(part.topic, part.cursor): part for part in parts if (part.topic, part.cursor) not in refused}
        async with self.own.turn:
            trackers = self.own.content.trackers
            self._require_no_gaps(list(accepted.values()), writer)
            for name, part in accepted.items():
                if name not in trackers and name in self.own.owned:
                    trackers[name] = TrackerContent(part.first_number - 1, part.first_number - 1)

            def compose(ledger_id: int) -> list[Item]:
                new = {name: _unwritten(part, trackers[name]) for name, part in accepted.items() if name in trackers}
                return self._records_items(ledger_id, {name: records for name, records in new.items() if records})

            await self.own.write(compose)
            names = ((part.topic, part.cursor) for part in parts)
            return [name for name in names if name not in self.own.owned or name in refused]

    def _require_no_gaps(self, parts: Sequence[LogAppend], writer: str) -> None:
        """Raise InvalidInput if a part that will be accepted begins above the next number of a tracker in this log."""
        for part in parts:
            tracker = self.own.content.trackers.get((part.topic, part.cursor))
            owner = self.own.owned.get((part.topic, part.cursor))
            if tracker is None or owner is None:
                continue
            with contextlib.suppress(SnapshotConflict):
                require_epoch("", owner.epoch, owner.writer, part.epoch, writer)
                require_no_gap(part, tracker.last_number)

    def _records_items(self, ledger_id: int, new: Mapping[TrackerName, Sequence[LoggedRecord]]) -> list[Item]:
        """Return the items of consecutive records, with the ordinals that they need."""
        items, ordinals = self.own.with_ordinals(ledger_id, list(new))
        for name, records in new.items():
            items += [Records(ordinals[name], first, tuple(octets)) for first, octets in _runs(records)]
        return items

    async def read(self, name: TrackerName, after: int, bytes_max: int) -> LogPage:
        content = await self._readable(name)
        tracker = content.trackers.get(name)
        if tracker is None:
            return LogPage((), (), is_last=True)
        found: list[LoggedRecord] = []
        corrupt: list[tuple[int, int]] = []
        size, expected = 0, max(after, tracker.cut_through) + 1
        async for record in self._records(name, content, tracker, expected - 1):
            if record.number > expected:
                corrupt.append((expected, record.number - 1))
            size += len(record.record)
            if found and size > bytes_max:
                return LogPage(tuple(found), tuple(corrupt), is_last=False)
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
        return await self._sources.fenced(owner.instance)

    async def _records(
        self, name: TrackerName, content: LogContent, tracker: TrackerContent, after: int
    ) -> AsyncIterator[LoggedRecord]:
        """Yield the records above a number in order, as far as they can be read."""
        for part in tuple(tracker.parts):
            if part.last_number <= after:
                continue
            pieces: list[bytes] = []
            entries = await self._ledgers.items(part.ledger_id, part.first_entry, part.last_entry)
            for items in entries:
                for item in items or ():
                    if content.name_of(part.ledger_id, item) != name:
                        continue
                    if isinstance(item, Records) and item.first_number == part.first_number:
                        for number, octets in enumerate(item.records, item.first_number):
                            if number > after:
                                yield LoggedRecord(number, octets)
                    elif isinstance(item, Piece) and item.number == part.first_number:
                        pieces.append(item.content)
            if pieces and sum(map(len, pieces)) == part.record_bytes:
                yield LoggedRecord(part.first_number, b"".join(pieces))

    async def cut(self, cuts: Sequence[tuple[str, str, int]]) -> None:
        for topic, cursor, _ in cuts:
            name = (topic, cursor)
            if name not in self.own.owned:
                owner = await self.owners.owner_of(name)
                if owner is not None and not await self.owners.is_alive(owner.instance):
                    with contextlib.suppress(SnapshotConflict):  # another process was faster: it is not ours to cut
                        await self._own(name, owner.epoch, owner.writer)
        async with self.own.turn:
            wanted = [((topic, cursor), through) for topic, cursor, through in cuts]
            await self.own.write(lambda ledger_id: self._cut_items(ledger_id, wanted))
            await self.own.delete_unneeded()

    def _cut_items(self, ledger_id: int, cuts: Sequence[tuple[TrackerName, int]]) -> list[Item]:
        trackers = self.own.content.trackers
        wanted = {
            name: min(through, trackers[name].last_number)
            for name, through in cuts
            if name in trackers and through > trackers[name].cut_through < trackers[name].last_number
        }
        items, ordinals = self.own.with_ordinals(ledger_id, list(wanted))
        return [*items, *(Cut(ordinals[name], through) for name, through in wanted.items())]

    async def extents(self) -> list[LogExtent]:
        found = {
            name: LogExtent(*name, self.own.owned[name].epoch, tracker.last_number, tracker.record_bytes)
            for name, tracker in self.own.content.trackers.items()
            if tracker.record_bytes and name in self.own.owned
        }
        for instance in await self.owners.instances():
            if instance == self.owners.instance or await self.owners.is_alive(instance):
                continue
            if await self._sources.sweep(instance):
                continue
            content = await self._sources.fenced(instance)
            for name, tracker in content.trackers.items():
                owner = await self.owners.owner_of(name) if tracker.record_bytes and name not in found else None
                if owner is not None and owner.instance == instance:
                    found[name] = LogExtent(*name, owner.epoch, tracker.last_number, tracker.record_bytes)
        return [found[name] for name in sorted(found)]


def _unwritten(part: LogAppend, tracker: TrackerContent) -> list[LoggedRecord]:
    """Return the records of a part that are not on record."""
    skipped = max(tracker.last_number + 1 - part.first_number, 0)
    return [
        LoggedRecord(number, octets)
        for number, octets in enumerate(part.records[skipped:], part.first_number + skipped)
    ]


def _runs(records: Sequence[LoggedRecord]) -> Iterator[tuple[int, list[bytes]]]:
    """Yield the first number and the contents of each run of consecutive records."""
    first = 0
    octets: list[bytes] = []
    for record in records:
        if octets and record.number != first + len(octets):
            yield first, octets
            octets = []
        if not octets:
            first = record.number
        octets.append(record.record)
    if octets:
        yield first, octets
