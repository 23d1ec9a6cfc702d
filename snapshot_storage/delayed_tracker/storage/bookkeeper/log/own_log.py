"""The log of this instance: its current ledger, what is in it, and what happens when another instance fences it."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from delayed_tracker.bookkeeper.errors import BookKeeperError, LedgerFenced
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from delayed_tracker.storage.bookkeeper.log.content import LogContent, TrackerName
from delayed_tracker.storage.bookkeeper.log.entries import Defined, Item, LogEntry, entries_of
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.owners import LEAVING, TRACKERS, Owner, Owners
from delayed_tracker.storage.errors import StorageUnavailable

ROLL_BYTES: Final = 64 * 1024 * 1024
"""Size from which on a ledger is followed by another one."""
SPARE_LEDGERS: Final = 4
"""Full ledgers that a log may have beyond twice what is needed in them, before old ones are rewritten."""
ATTEMPTS_MAX: Final = 8
"""Ledgers that one commit tries, while other instances fence them."""

Composer = Callable[[int], Sequence[Item]]
"""Returns what a commit writes into a ledger. It is asked again for each ledger that is tried."""


@dataclass(slots=True)
class _Current:
    """The ledger that is being written."""

    writer: LedgerWriter
    applied: int = -1
    """Last entry that the content has."""
    size_bytes: int = 0
    is_checked: bool = False
    """True when the list of this instance's trackers was read after the ledger was registered."""

    @property
    def ledger_id(self) -> int:
        return self.writer.ledger_id


class OwnLog:
    """The log that this instance writes. Its methods are called under :attr:`turn`, one at a time.

    Args:
        ledgers: of all logs.
        owners: nodes, with those of this instance registered.
        roll_bytes: size of a ledger after which the next one begins.
    """

    def __init__(self, ledgers: LogLedgers, owners: Owners, *, roll_bytes: int = ROLL_BYTES) -> None:
        self.turn = asyncio.Lock()
        self.content = LogContent()
        self.owned: dict[TrackerName, Owner] = {}
        """Trackers of this instance, as it recorded them; those that it finds lost are dropped."""
        self.arriving: TrackerName | None = None
        """Tracker whose records are being copied; it is not on the list yet."""
        self._ledgers = ledgers
        self._owners = owners
        self._roll_bytes = roll_bytes
        self._current: _Current | None = None
        self._in_doubt = False
        """True if an append to the current ledger has failed: some of its entries may be there."""
        self._sizes: dict[int, int] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of all ledgers."""
        return sum(self._sizes.values())

    @property
    def is_too_long(self) -> bool:
        """True if the ledgers are far larger than the records in them that are needed."""
        return self.size_bytes > SPARE_LEDGERS * self._roll_bytes + 2 * self.content.record_bytes

    async def write(self, compose: Composer) -> None:
        """Make items durable in one commit.

        Raises:
            StorageUnavailable: the outcome is unknown; nothing is acknowledged.
        """
        for _ in range(ATTEMPTS_MAX):
            current = await self._writable()
            entries = entries_of(compose(current.ledger_id), self._ledgers.entry_bytes_max)
            if not entries:
                return
            self._in_doubt = True
            try:
                with contextlib.suppress(LedgerFenced):
                    await self._add(current, entries)
                    self._in_doubt = False
                    return
            except BookKeeperError as error:
                raise StorageUnavailable(
                    f"the add log: ledger {current.ledger_id} cannot be written; {error.message}"
                ) from error
        raise StorageUnavailable(f"the add log: {ATTEMPTS_MAX} ledgers one after the other were fenced; try again")

    async def settle(self) -> None:
        """Find out what is durable, if an append has failed before.

        Raises:
            StorageUnavailable: the bookies do not answer.
        """
        if self._in_doubt:
            await self.end_current()

    async def _add(self, current: _Current, entries: Sequence[LogEntry]) -> None:
        await current.writer.add_all([entry.octets for entry in entries])
        for entry in entries:
            current.applied += 1
            current.size_bytes += len(entry.octets)
            self._apply(current.ledger_id, current.applied, entry)

    def _apply(self, ledger_id: int, entry_id: int, entry: LogEntry) -> None:
        self.content.apply(ledger_id, entry_id, entry.items)
        self._ledgers.keep(ledger_id, entry_id, entry.octets)
        self._sizes[ledger_id] = self._sizes.get(ledger_id, 0) + len(entry.octets)

    async def _writable(self) -> _Current:
        """Return a ledger that can be written, and that no new owner of one of our trackers overlooks."""
        await self.settle()
        if self._current is not None and self._current.size_bytes >= self._roll_bytes:
            await self.end_current()
        if self._current is None:
            self._current = _Current(await self._ledgers.create(self._owners.ledger_node))
            self.content.begin(self._current.ledger_id)
            self._sizes[self._current.ledger_id] = 0
        if not self._current.is_checked:
            # A new owner has taken its trackers off the list before it looked for ledgers. If it has not seen this one,
            # the list read now does not have them.
            await self._drop_lost()
            self._current.is_checked = True
            await self.delete_unneeded()
        return self._current

    async def _drop_lost(self) -> None:
        """Drop the trackers that other instances have taken over."""
        listed = await self._owners.names(self._owners.instance, TRACKERS)
        for name in {**self.content.trackers, **self.owned}:
            if name != self.arriving and self._owners.listed_name(name) not in listed:
                self.content.drop(name)
                self.owned.pop(name, None)

    async def end_current(self) -> None:
        """Close the current ledger, and take notice of entries whose acknowledgement was lost.

        Raises:
            StorageUnavailable: the bookies do not answer; the ledger stays the current one.
        """
        current = self._current
        if current is None:
            return
        self._in_doubt = True
        last = await self._ledgers.fence(current.ledger_id)
        if last is not None:
            await self._ledgers.fill(self.content, current.ledger_id, current.applied + 1, last)
        with contextlib.suppress(BookKeeperError):  # it is closed already
            await current.writer.abandon()
        self._current, self._in_doubt = None, False

    async def delete_unneeded(self) -> None:
        """Delete the oldest ledgers as far as no record needs them, unless another instance may be reading them."""
        while (ledger_id := self._first_unneeded()) is not None:
            if await self._owners.names(self._owners.instance, LEAVING):
                return
            if names := self.content.only_defined_in(ledger_id):
                await self.write(partial(self.definitions, names=names))
                continue
            await self._ledgers.delete(ledger_id, self._owners.ledger_node(ledger_id))
            self.content.end(ledger_id)
            self._sizes.pop(ledger_id, None)

    def _first_unneeded(self) -> int | None:
        current = None if self._current is None else self._current.ledger_id
        return next(iter(self.content.unneeded_ledgers(current)), None)

    def definitions(self, ledger_id: int, names: Sequence[TrackerName]) -> list[Defined]:
        """Return definitions of ordinals for the trackers that have none in a ledger."""
        items: list[Defined] = []
        ordinal = self.content.next_ordinal(ledger_id)
        for name in names:
            tracker = self.content.trackers.get(name)
            if tracker is not None and self.content.ordinal_of(ledger_id, name) is None:
                items.append(Defined(ordinal, *name, tracker.last_number, tracker.cut_through))
                ordinal += 1
        return items

    def with_ordinals(self, ledger_id: int, names: Sequence[TrackerName]) -> tuple[list[Item], dict[TrackerName, int]]:
        """Return the definitions that trackers of this log need in a ledger, and the ordinals that they have with them."""
        items = self.definitions(ledger_id, names)
        ordinals = {(item.topic, item.cursor): item.ordinal for item in items}
        for name in names:
            if name not in ordinals:
                ordinal = self.content.ordinal_of(ledger_id, name)
                assert ordinal is not None, name
                ordinals[name] = ordinal
        return [*items], ordinals
