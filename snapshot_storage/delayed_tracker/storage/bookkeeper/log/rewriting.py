"""Rewrites what is needed of the oldest ledgers into the current one, so that they can be deleted.

Records that nobody cuts for weeks, because their tracker has few, would else keep every ledger that was written since.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from delayed_tracker.storage.bookkeeper.log.content import Part, TrackerName
from delayed_tracker.storage.bookkeeper.log.entries import Item, Records
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.moving import COPY_BYTES, TrackerMoves
from delayed_tracker.storage.bookkeeper.log.own_log import OwnLog
from delayed_tracker.storage.bookkeeper.log.records import records_of

REWRITTEN_MAX: Final = 2
"""Ledgers that are rewritten for each one that the log begins: more go than come, and writing costs three times at most."""


class Rewriting:
    """Keeps the ledgers of this instance's log at a few times what is needed in them.

    Args:
        own: log of this instance.
        ledgers: of all logs.
        moves: takes back what dead instances were taking over.
    """

    def __init__(self, own: OwnLog, ledgers: LogLedgers, moves: TrackerMoves) -> None:
        self._own = own
        self._ledgers = ledgers
        self._moves = moves
        self._is_busy = False
        self._done_at: list[int] = []
        """The newest ledger when ledgers were rewritten last."""

    async def shorten(self) -> None:
        """Rewrite the oldest ledgers if the log is too long, and has begun a ledger since the last time."""
        if self._is_busy or not self._own.is_too_long or self._own.content.ledgers[-1:] == self._done_at:
            return
        self._is_busy = True
        try:
            await self._moves.take_back_abandoned()
            async with self._own.turn:
                await self._own.delete_unneeded()
            for _ in range(REWRITTEN_MAX):
                if self._own.is_too_long:
                    await self._rewrite_oldest()
            self._done_at = self._own.content.ledgers[-1:]
        finally:
            self._is_busy = False

    async def _rewrite_oldest(self) -> None:
        oldest, *newer = self._own.content.ledgers
        if not newer:  # it may be the current one
            return
        for block in _blocks(self._own.content.parts_in(oldest)):
            async with self._own.turn:  # adds go on between two blocks
                await self._rewrite(block)
        async with self._own.turn:
            await self._own.delete_unneeded()

    async def _rewrite(self, block: Sequence[tuple[TrackerName, Part]]) -> None:
        """Write parts again, each as one item, with which its new place counts."""
        content = self._own.content
        copies: list[tuple[TrackerName, Part, tuple[bytes, ...]]] = []
        read: tuple[int, int] | None = None
        items: dict[TrackerName, list[Item]] = {}
        for name, part in block:
            if not content.needs(name, part):
                continue
            if read != (part.first_entry, part.last_entry):
                read = part.first_entry, part.last_entry
                items = await self._items(part)
            records = tuple(each.record for each in records_of(part, items.get(name, ())))
            if len(records) == part.last_number - part.first_number + 1:
                copies.append((name, part, records))
            else:
                content.lose(name, part)

        def compose(ledger_id: int) -> list[Item]:
            needed = [each for each in copies if content.needs(each[0], each[1])]
            found, ordinals = self._own.with_ordinals(ledger_id, list(dict.fromkeys(name for name, _, _ in needed)))
            return [*found, *(Records(ordinals[name], part.first_number, records) for name, part, records in needed)]

        if copies:
            await self._own.write(compose)

    async def _items(self, part: Part) -> dict[TrackerName, list[Item]]:
        """Return the items of a part's entries by tracker, as far as they can be read."""
        found: dict[TrackerName, list[Item]] = {}
        for entry in await self._ledgers.items(part.ledger_id, part.first_entry, part.last_entry):
            for item in entry or ():
                if (name := self._own.content.name_of(part.ledger_id, item)) is not None:
                    found.setdefault(name, []).append(item)
        return found


def _blocks(parts: Sequence[tuple[TrackerName, Part]]) -> Iterator[list[tuple[TrackerName, Part]]]:
    """Yield parts in blocks, each of which one commit takes."""
    block: list[tuple[TrackerName, Part]] = []
    size = 0
    for name, part in parts:
        block.append((name, part))
        size += part.record_bytes
        if size >= COPY_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block
