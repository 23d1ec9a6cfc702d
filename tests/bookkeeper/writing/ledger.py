"""A ledger to which tests add entries, at bookies in memory."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

from delayed_tracker.bookkeeper.errors import NotEnoughBookies
from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType
from delayed_tracker.bookkeeper.wire.requests import read_lac_request
from delayed_tracker.bookkeeper.writing.entry_adds import EntryAdds
from delayed_tracker.bookkeeper.writing.pending_adds import PendingAdds
from tests.bookkeeper.model_bookie import LEDGER, ModelBookie, serving


class Spares:
    """Puts the next spare bookies in the place of those that failed, once the test lets it."""

    def __init__(self, *names):
        self.names = deque(names)
        self.changes = []
        self.begun = asyncio.Event()
        self.passing = asyncio.Event()
        self.passing.set()

    async def change(self, first_entry_id, ensemble, failed, *, avoid):
        self.changes.append((first_entry_id, ensemble, failed))
        self.begun.set()
        await self.passing.wait()
        if len(self.names) < len(failed):
            raise NotEnoughBookies("bookies: none is left; start one")
        return tuple(self.names.popleft() if index in failed else name for index, name in enumerate(ensemble))


class Ledger:
    """Adds to a ledger of three bookies, and two more that may take their places."""

    def __init__(self, bookies, connections, quorums, settings):
        self.bookies = bookies
        self.connections = connections
        self.spares = Spares("d", "e")
        self.settled = 0
        names = [bookie.name for bookie in bookies][: quorums[0]]
        self.pending = PendingAdds(Quorums(*quorums), names, change_early=settings.change_early)
        self.adds = EntryAdds(
            LEDGER,
            Digest(DigestType.CRC32C),
            self.pending,
            segments=self.spares,
            connections=connections,
            settings=settings,
            on_settled=self.note_settled,
        )

    def note_settled(self, payload_bytes, _):
        self.settled += payload_bytes

    async def until_replied(self, *names):
        """Wait until the replies of bookies to all requests so far have been noted."""
        for name in names:
            await self.connections.of(name).call(read_lac_request(LEDGER))


@asynccontextmanager
async def ledger_of(*quorums, **settings):
    bookies = [ModelBookie(name) for name in "abcde"]
    async with serving(*bookies, **settings) as connections:
        yield Ledger(bookies, connections, quorums or (3, 2, 2), ClientSettings(**settings))


def adds_of(bookie):
    return [asked.addRequest.entryId for asked in bookie.asked if asked.HasField("addRequest")]


def fail_entry(bookie, entry_id, status):
    bookie.faults.append(
        lambda asked: status if asked.HasField("addRequest") and asked.addRequest.entryId == entry_id else None
    )
