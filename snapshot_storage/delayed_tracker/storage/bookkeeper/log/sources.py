"""Logs of other instances: fenced, read once, and kept until the last of their trackers was taken over."""

import asyncio
from dataclasses import dataclass, field

from delayed_tracker.storage.bookkeeper.log.content import LogContent
from delayed_tracker.storage.bookkeeper.log.ledgers import LogLedgers
from delayed_tracker.storage.bookkeeper.log.owners import Owners


@dataclass(slots=True)
class _Source:
    content: LogContent = field(default_factory=LogContent)
    read: set[int] = field(default_factory=set)
    """Ledgers that were read, or found deleted."""
    in_part: bool = False
    """True while ledgers are read, and after that has failed."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Sources:
    """Logs of other instances.

    Args:
        ledgers: of all logs.
        owners: nodes.
    """

    def __init__(self, ledgers: LogLedgers, owners: Owners) -> None:
        self._ledgers = ledgers
        self._owners = owners
        self._sources: dict[str, _Source] = {}

    async def fenced(self, instance: str) -> LogContent:
        """Fence every ledger of an instance, and return what its log has.

        An instance that is alive may begin another ledger. It does not write a tracker there that was taken off its list
        before this call.
        """
        source = self._sources.setdefault(instance, _Source())
        async with source.turn:
            while True:
                listed = await self._owners.ledgers(instance)
                # What was read may be void because of something in a ledger that was deleted unread.
                if source.in_part or not source.read <= set(listed):
                    source.content, source.read = LogContent(), set()
                unread = [ledger_id for ledger_id in listed if ledger_id not in source.read]
                if not unread:
                    return source.content
                source.in_part = True
                for ledger_id in unread:
                    last = await self._ledgers.fence(ledger_id)
                    source.read.add(ledger_id)
                    if last is not None:
                        source.content.begin(ledger_id)
                        await self._ledgers.fill(source.content, ledger_id, 0, last)
                source.in_part = False

    async def sweep(self, instance: str) -> bool:
        """Delete an instance that is dead and has no trackers any more; return False for others, which stay."""
        if not await self._owners.remove_if_dead(instance):
            return False
        for ledger_id in await self._owners.ledgers(instance):
            await self._ledgers.delete(ledger_id, self._owners.ledger_node(ledger_id, instance))
        await self._owners.forget(instance)
        self._sources.pop(instance, None)
        return True
